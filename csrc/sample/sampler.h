// Multi-hop neighbourhood sampling over one or several edge types.
//
// Nodes come out seeds first, then in the order first seen, hop by hop; edges grouped by hop, then by
// frontier node. A node is expanded once, in the hop where it first appears. Of a seed given twice, both
// places are expanded, with the same picks, so that every row of a batch is right; edges lead from the first
// place. The result is a function of (topologies, seeds, fanouts, options, rng_seed) alone.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/pool.h"
#include "pick/expand.h"

namespace gz {

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

struct SampledEdges : Edges {  // both ends by local ids
  std::vector<int64_t> per_hop;
};

struct Sample {
  std::vector<SampledNodes> nodes;  // by node type
  std::vector<SampledEdges> edges;  // by edge type
};

// num_nodes: by node type. Throws std::out_of_range for a seed outside its type, std::invalid_argument for
// options that contradict each other.
Sample sample(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
              const std::vector<SampleSeeds>& seeds, const SampleOptions& options);

}  // namespace gz
