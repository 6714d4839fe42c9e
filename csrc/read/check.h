// Checks of what callers hand in.
//
// The GIL is released while the engine works, so a caller's other threads may write to the arrays it was
// given. What was checked and is then read again may be another id, and a wild one is a wild read. So ids are
// used as a copy that was checked (checked_copy), or read once and compared where they are used (checked_id).
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory/pool.h"

namespace gz {

// Throws std::out_of_range naming the first id that is not in [0, limit), and its place.
void check_ids(const int64_t* ids, size_t size, uint64_t limit, const char* what);

[[noreturn]] void bad_id(int64_t id, size_t place, uint64_t limit, const char* what);

// ids[place], read once, and compared. After check_ids(), which finds the first that is bad, for ids that are
// used one by one.
inline int64_t checked_id(const int64_t* ids, size_t place, uint64_t limit, const char* what) {
  const int64_t id = __atomic_load_n(ids + place, __ATOMIC_RELAXED);
  if (static_cast<uint64_t>(id) >= limit) [[unlikely]]
    bad_id(id, place, limit, what);
  return id;
}

// check_ids() of a copy: for ids that are used more than once, or that the output may lie over.
PooledArray<int64_t> checked_copy(const int64_t* ids, size_t size, uint64_t limit, const char* what);

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes);

// a * b; throws std::length_error where it does not fit. For sizes made of numbers a caller chose.
size_t checked_product(size_t a, size_t b);

}  // namespace gz
