// Questions about single edges of a topology, many at a time: which nodes an edge joins, whether two nodes
// are joined, and which edges lie among a set of nodes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "column/topology.h"
#include "memory/pool.h"
#include "query/place_table.h"

namespace gz {

// The ends of the edges at `positions`: grouped[i] owns the list, neighbour[i] stands in it. Binary search in
// indptr. Throws std::out_of_range.
void locate_edges(const Topology& topology, const int64_t* positions, size_t count, int64_t* grouped,
                  int64_t* neighbour);

// Position of the first edge that joins grouped[i] and neighbour[i], -1 where there is none.
void match_edges(const Topology& topology, const int64_t* grouped, const int64_t* neighbour, size_t count,
                 int64_t* positions);

// The same edges grouped by the other end, in memory: what an `out` file of the store would hold. Takes 8
// bytes a node and 8 to 16 an edge.
std::shared_ptr<Topology> invert(const Topology& topology);

struct SubgraphEdgeType {
  std::shared_ptr<const Topology> topology;
  size_t frontier_type = 0;
  size_t neighbour_type = 0;
};

struct SubgraphEdges {
  PooledArray<int64_t> frontier;   // places in the node list of the grouped end
  PooledArray<int64_t> neighbour;  // places in the node list of the other end
  PooledArray<int64_t> positions;
};

// The edges that have both ends among `nodes` (by node type). Of a node given twice the first place counts.
std::vector<SubgraphEdges> subgraph_edges(const std::vector<uint64_t>& num_nodes,
                                          const std::vector<SubgraphEdgeType>& edge_types,
                                          const std::vector<ChosenNodes>& nodes);

}  // namespace gz
