#include "check.h"

#include <atomic>
#include <stdexcept>
#include <string>

#include "threads.h"

namespace gz {

void check_ids(const int64_t* ids, size_t size, uint64_t limit, const char* what) {
  std::atomic<size_t> bad{size};
  parallel_for(size, 1 << 16, [&](size_t begin, size_t end) {
    bool wrong = false;
    for (size_t i = begin; i < end; ++i) wrong |= static_cast<uint64_t>(ids[i]) >= limit;
    if (!wrong) return;
    size_t i = begin;
    while (static_cast<uint64_t>(ids[i]) < limit) ++i;
    for (size_t seen = bad.load(); i < seen && !bad.compare_exchange_weak(seen, i);) {
    }
  });
  const size_t i = bad.load();
  if (i < size)
    throw std::out_of_range(std::string(what) + " " + std::to_string(ids[i]) + " (at index " +
                            std::to_string(i) + ") is out of range: there are " + std::to_string(limit) +
                            ", numbered from 0");
}

size_t checked_product(size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product))
    throw std::length_error("a result of " + std::to_string(a) + " x " + std::to_string(b) +
                            " items is too large");
  return product;
}

}  // namespace gz
