// Multi-hop neighbourhood sampling over one or several edge types.
//
// Nodes come out seeds first, then in the order first seen, hop by hop; edges grouped by hop, then by
// frontier node. A node is expanded once, in the hop where it first appears. Of a seed given twice, both
// places are expanded, with the same picks, so that every row of a batch is right; edges lead from the first
// place. The result is a function of (topologies, seeds, fanouts, options, rng_seed) alone.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pick.h"
#include "pool.h"
#include "topology.h"

namespace gz {

struct SampleEdgeType {
  std::shared_ptr<const Topology> topology;
  size_t frontier_type = 0;   // node type of the grouped end
  size_t neighbour_type = 0;  // node type of the other end
  std::vector<int64_t> fanouts;
  IdArray row_ids;   // original edge ids by row; empty: an edge's id is its row
  Column weights;    // by row
  Column edge_time;  // by row
  Column node_time;  // by neighbour
};

struct SampleSeeds {
  size_t type = 0;
  const int64_t* nodes = nullptr;
  size_t size = 0;
  const int64_t* times = nullptr;  // per seed, or null
};

struct SampleOptions {
  bool replace = false;
  bool disjoint = false;
  TemporalStrategy strategy = TemporalStrategy::kUniform;
  uint64_t rng_seed = 0;
  bool want_edge_ids = true;
};

struct SampledNodes {
  PooledArray<int64_t> ids;
  PooledArray<int64_t> batch;    // disjoint: index of the seed, counted over all seeds in the order given
  std::vector<int64_t> per_hop;  // seeds first
};

struct SampledEdges {
  PooledArray<int64_t> neighbour;  // local ids
  PooledArray<int64_t> frontier;   // local ids
  PooledArray<int64_t> rows;       // rows of the edge columns
  PooledArray<int64_t> ids;        // original ids; empty where they equal the rows, or are not wanted
  std::vector<int64_t> per_hop;
};

struct Sample {
  std::vector<SampledNodes> nodes;  // by node type
  std::vector<SampledEdges> edges;  // by edge type
};

// num_nodes: by node type. Throws std::out_of_range for a seed outside its type, std::invalid_argument for
// options that contradict each other.
Sample sample(const std::vector<uint64_t>& num_nodes, const std::vector<SampleEdgeType>& edge_types,
              const std::vector<SampleSeeds>& seeds, const SampleOptions& options);

}  // namespace gz
