// Checks of what callers hand in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gz {

// Throws std::out_of_range naming the first id that is not in [0, limit), and its place.
void check_ids(const int64_t* ids, size_t size, uint64_t limit, const char* what);

// a * b; throws std::length_error where it does not fit. For sizes made of numbers a caller chose.
size_t checked_product(size_t a, size_t b);

}  // namespace gz
