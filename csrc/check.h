// Checks of what callers hand in.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gz {

// Throws std::out_of_range naming the first id that is not in [0, limit), and its place.
void check_ids(const int64_t* ids, size_t size, uint64_t limit, const char* what);

}  // namespace gz
