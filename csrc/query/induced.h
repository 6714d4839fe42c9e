// The edges among nodes that have already been chosen: what turns a sample into an induced subgraph.
#pragma once

#include <cstdint>

#include "column/topology.h"
#include "memory/pool.h"
#include "query/place_table.h"

namespace gz {

struct InducedEdges {
  PooledArray<int64_t> neighbour;  // local ids: the first place of the node in `neighbours`
  PooledArray<int64_t> frontier;   // local ids
  PooledArray<int64_t> rows;       // rows of the edge columns
};

// Every stored edge from a node of `neighbours` to a node of `frontier` of the same tree, grouped by frontier
// node, in stored order. Throws std::out_of_range for an id outside the topology.
InducedEdges induced_edges(const Topology& topology, const ChosenNodes& frontier,
                           const ChosenNodes& neighbours);

}  // namespace gz
