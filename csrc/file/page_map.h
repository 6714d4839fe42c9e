// Which pages of a mapped file are in memory, as far as is known: a bit a page.
//
// The kernel is asked (mincore) for a region at a time, when a page of it is first asked for, and believed
// until the map is told to forget or has grown old. It may be wrong either way: a page that has been evicted
// since costs whoever reads it a fault, one that has come since is read once more.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "file/mapping.h"

namespace gz {

class PageMap {
 public:
  explicit PageMap(const Mapping& mapping);
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // Any thread may call any of these at any time.
  bool has(uint64_t page) {
    if (!known(page)) look(page / kRegion);
    return bit(page);
  }
  // What has() would say without asking the kernel; no, where it would have to, and beyond the file.
  bool believed(uint64_t page) const { return page < pages_ && known(page) && bit(page); }
  void brought_in(uint64_t page) {
    bits_[page / 64].fetch_or(uint64_t{1} << (page % 64), std::memory_order_relaxed);
  }
  void forget();
  void forget_if_old();

 private:
  static constexpr uint64_t kRegion = 512;  // pages

  bool known(uint64_t page) const {
    return looked_[page / kRegion].load(std::memory_order_acquire) ==
           generation_.load(std::memory_order_relaxed);
  }
  bool bit(uint64_t page) const {
    return bits_[page / 64].load(std::memory_order_relaxed) >> (page % 64) & 1;
  }
  void look(uint64_t region);

  const Mapping& mapping_;
  uint64_t pages_;
  std::vector<std::atomic<uint64_t>> bits_;
  std::vector<std::atomic<uint32_t>> looked_;  // by region: the generation its bits are of
  std::atomic<uint32_t> generation_{1};
  std::atomic<int64_t> begun_{0};  // when the generation began, in ns
};

}  // namespace gz
