// The rules about edge ids that concern the file as a whole: none twice, and each found where its position
// says. Part of verify.h.
//
// Ids come in any order, so that following each would be a random read an edge. Instead ids are taken in
// windows: a window's part of edge_positions, and some bits for each of its ids, fit into memory; edge_ids is
// read from front to back for each window.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/threads.h"
#include "column/topology.h"

namespace gz {

// The smallest index in [0, count) for which wrong(i), or count. Deterministic, in parallel.
template <class Wrong>
uint64_t first_wrong(uint64_t count, Wrong&& wrong) {
  std::atomic<uint64_t> first{count};
  parallel_for(count, 1 << 16, [&](size_t begin, size_t end) {
    for (uint64_t i = begin; i < end && i < first.load(std::memory_order_relaxed); ++i) {
      if (!wrong(i)) continue;
      for (uint64_t seen = first.load(); i < seen && !first.compare_exchange_weak(seen, i);) {
      }
      return;
    }
  });
  return first.load();
}

// No id occurs twice. The ids must be in range.
void verify_distinct_ids(const Topology& topology);

// edge_positions is in range, and of each id that an edge has it names one of its at most two positions.
void verify_positions(const Topology& topology);

}  // namespace gz
