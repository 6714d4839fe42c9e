// The edges of a sample in both directions: what PyG calls a bidirectional subgraph.
#pragma once

#include <cstdint>

#include "memory/pool.h"

namespace gz {

// Edges of a sample by local ids. ids: what each edge is called, or null.
struct EdgeList {
  const int64_t* row = nullptr;
  const int64_t* col = nullptr;
  const int64_t* ids = nullptr;
  size_t size = 0;
};

struct TwoWayEdges {
  PooledArray<int64_t> row, col, ids;  // ids is empty unless both lists have them
};

// The edges of `forward`, and those of `backward` turned round, each pair of ends once: sorted by column,
// then by row. Of edges that join the same ends the first counts, forward before backward. num_rows,
// num_cols: limits of the local ids. Throws std::out_of_range for an id beyond them.
TwoWayEdges two_way_edges(const EdgeList& forward, const EdgeList& backward, size_t num_rows,
                          size_t num_cols);

}  // namespace gz
