#include "file/page_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>

#include "file/format.h"

namespace gz {
namespace {

constexpr int64_t kOldNs = 1'000'000'000;

int64_t now_ns() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

PageMap::PageMap(const Mapping& mapping)
    : mapping_(mapping),
      pages_((mapping.size() + kPage - 1) / kPage),
      bits_((pages_ + kRegion - 1) / kRegion * (kRegion / 64)),
      looked_((pages_ + kRegion - 1) / kRegion),
      begun_(now_ns()) {}

void PageMap::forget() {
  begun_.store(now_ns(), std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_relaxed);
}

void PageMap::forget_if_old() {
  if (now_ns() - begun_.load(std::memory_order_relaxed) > kOldNs) forget();
}

void PageMap::look(uint64_t region) {
  const uint32_t generation = generation_.load(std::memory_order_relaxed);
  const uint64_t first = region * kRegion, count = std::min(kRegion, pages_ - first);
  unsigned char there[kRegion] = {};
  // Where the kernel does not say, nothing is: then it is read.
  if (::mincore(mapping_.data() + first * kPage, count * kPage, there) != 0)
    std::fill(there, there + kRegion, static_cast<unsigned char>(0));
  for (uint64_t word = 0; word < kRegion / 64; ++word) {
    uint64_t bits = 0;
    for (uint64_t i = 0; i < 64; ++i) bits |= static_cast<uint64_t>(there[word * 64 + i] & 1) << i;
    bits_[first / 64 + word].store(bits, std::memory_order_relaxed);
  }
  looked_[region].store(generation, std::memory_order_release);
}

}  // namespace gz
