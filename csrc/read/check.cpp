#include "read/check.h"

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>

#include "base/threads.h"

namespace gz {

namespace {

// The first of ids that is not below limit; size if there is none. Calls ready(begin, end) before it looks at
// those.
template <class Ready>
size_t first_bad(const int64_t* ids, size_t size, uint64_t limit, Ready&& ready) {
  std::atomic<size_t> bad{size};
  parallel_for(size, 1 << 16, [&](size_t begin, size_t end) {
    ready(begin, end);
    bool wrong = false;
    for (size_t i = begin; i < end; ++i) wrong |= static_cast<uint64_t>(ids[i]) >= limit;
    if (!wrong) return;
    size_t i = begin;
    while (i < end && static_cast<uint64_t>(ids[i]) < limit) ++i;
    if (i == end) return;  // changed again
    for (size_t seen = bad.load(); i < seen && !bad.compare_exchange_weak(seen, i);) {
    }
  });
  return bad.load();
}

}  // namespace

void bad_id(int64_t id, size_t place, uint64_t limit, const char* what) {
  throw std::out_of_range(std::string(what) + " " + std::to_string(id) + " (at index " +
                          std::to_string(place) + ") is out of range: there are " + std::to_string(limit) +
                          ", numbered from 0");
}

void check_ids(const int64_t* ids, size_t size, uint64_t limit, const char* what) {
  const size_t i = first_bad(ids, size, limit, [](size_t, size_t) {});
  if (i < size) bad_id(ids[i], i, limit, what);
}

PooledArray<int64_t> checked_copy(const int64_t* ids, size_t size, uint64_t limit, const char* what) {
  PooledArray<int64_t> copy(size);
  const size_t i = first_bad(copy.data(), size, limit, [&](size_t begin, size_t end) {
    std::memcpy(copy.data() + begin, ids + begin, (end - begin) * sizeof(int64_t));
  });
  if (i < size) bad_id(copy[i], i, limit, what);
  return copy;
}

bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a_bytes && b_bytes && x < y + b_bytes && y < x + a_bytes;
}

size_t checked_product(size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product))
    throw std::length_error("a result of " + std::to_string(a) + " x " + std::to_string(b) +
                            " items is too large");
  return product;
}

}  // namespace gz
