// The times that edges are picked by.
#pragma once

#include <cstdint>

#include "pick/pick.h"

namespace gz {

// Of an edge by its position: its own, or its neighbour's.
class EdgeTimes {
 public:
  EdgeTimes(const Topology& topology, const EdgeColumns& columns)
      : t_(topology),
        by_neighbour_(!columns.edge_time),
        column_(by_neighbour_ ? columns.node_time : columns.edge_time) {}

  int64_t operator[](uint64_t position) const {
    const uint64_t at = by_neighbour_ ? t_.indices[position] : t_.row_at(position);
    if (by_neighbour_ && at >= t_.num_other) [[unlikely]]
      t_.damaged_index(position);
    return column_.dtype == DType::kInt64 ? static_cast<const int64_t*>(column_.data)[at]
                                          : static_cast<const int32_t*>(column_.data)[at];
  }

  // Where the edges after now[i] begin in lists[i], which ascend by time. A search waits for memory at each
  // of its steps; all are made side by side, so that they wait together. `lists` is used up.
  void search(Topology::Range* lists, const int64_t* now, size_t count) const;

 private:
  // What is read first for an edge.
  const void* address(uint64_t position) const {
    if (by_neighbour_) return t_.indices.address(position);
    if (t_.ids_are_in_rows) return t_.edge_ids.address(position);
    return static_cast<const char*>(column_.data) + position * (column_.dtype == DType::kInt64 ? 8 : 4);
  }

  const Topology& t_;
  bool by_neighbour_;
  const Column& column_;
};

// Whether every list ascends by time, so that what may be picked is found without looking at all of it. Reads
// all edges and their times, up to the first list that does not. No, where they are too large for memory: it
// would take longer than it saves.
bool lists_ascend(const Topology& topology, const EdgeColumns& columns);

}  // namespace gz
