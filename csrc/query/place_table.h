// Where each node of a list stands: (tree, node) -> its first place. Written once, then read by all threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "base/rng.h"
#include "memory/pool.h"

namespace gz {

// Nodes of one type as they stand in a list. batch: the tree each belongs to, or null when there is one.
struct ChosenNodes {
  const int64_t* ids = nullptr;
  const int64_t* batch = nullptr;
  size_t size = 0;
};

class PlaceTable {
 public:
  explicit PlaceTable(const ChosenNodes& nodes) : nodes_(nodes) {
    if (nodes.size >= kNone) throw std::invalid_argument("too many nodes in one sample; use smaller batches");
    const size_t slots = std::bit_ceil(std::max<size_t>(16, nodes.size * 2));
    shift_ = 64 - std::countr_zero(slots);
    slots_.resize(slots);
    std::fill(slots_.begin(), slots_.end(), kNone);
    for (size_t i = 0; i < nodes.size; ++i) {
      uint32_t& slot = slots_[find(nodes.ids[i], batch(i))];
      if (slot == kNone) slot = static_cast<uint32_t>(i);
    }
  }

  void prefetch(int64_t node, int64_t tree = 0) const { __builtin_prefetch(&slots_[home(node, tree)]); }
  // -1 when the node was not chosen.
  int64_t place(int64_t node, int64_t tree = 0) const {
    const uint32_t slot = slots_[find(node, tree)];
    return slot == kNone ? -1 : static_cast<int64_t>(slot);
  }

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  int64_t batch(size_t i) const { return nodes_.batch ? nodes_.batch[i] : 0; }
  size_t home(int64_t node, int64_t tree) const {
    return fold(static_cast<uint64_t>(tree), static_cast<uint64_t>(node)) >> shift_;
  }
  size_t find(int64_t node, int64_t tree) const {
    for (size_t at = home(node, tree);; at = (at + 1) & (slots_.size() - 1)) {
      const uint32_t i = slots_[at];
      if (i == kNone || (nodes_.ids[i] == node && batch(i) == tree)) return at;
    }
  }

  ChosenNodes nodes_;
  PooledArray<uint32_t> slots_;
  int shift_ = 0;
};

}  // namespace gz
