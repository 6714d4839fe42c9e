// Which rows, or nodes, of many are hot, and where each lies among the hot ones.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "column/feature.h"

namespace gz {

// 0.25 bytes for each of all, and 4 for a hot one.
class HotIndex {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // The first `count` of `ids`, a column of distinct numbers below `all`, in the order in which these lie.
  // `what` and `where` they are, for messages. Throws FormatError.
  HotIndex(const Feature& ids, uint64_t count, uint64_t all, const char* what = "row",
           const char* where = "the column");

  // Its place among the hot ones, or kNone.
  uint32_t find(uint64_t id) const {
    const Cell& c = cells_[id / 64];
    const uint64_t bit = uint64_t{1} << (id % 64);
    if (!(c.hot & bit)) return kNone;
    return places_[c.before + static_cast<uint64_t>(__builtin_popcountll(c.hot & (bit - 1)))];
  }
  // find() of many, which must be below `all`, with many on their way.
  void find(const int64_t* ids, size_t count, uint32_t* places) const;

 private:
  struct Cell {  // of 64
    uint64_t hot = 0, before = 0;
  };
  std::vector<Cell> cells_;
  std::vector<uint32_t> places_;
};

// An index that is made when it is first asked for. Any thread may ask, and a forked child.
class LazyHotIndex {
 public:
  LazyHotIndex() = default;
  ~LazyHotIndex() { delete made_.load(); }
  LazyHotIndex(const LazyHotIndex&) = delete;
  LazyHotIndex& operator=(const LazyHotIndex&) = delete;

  const HotIndex& get(const Feature& ids, uint64_t count, uint64_t all, const char* what, const char* where);

 private:
  std::atomic<const HotIndex*> made_{nullptr};  // under fork_mutex()
};

// Throws FormatError where `ids` cannot be a list of what is hot.
void check_hot_ids(const Feature& ids, const char* what);

// Throws the FormatError that names a file and the rule it breaks.
[[noreturn]] void refuse(const Feature& file, const std::string& rule);

}  // namespace gz
