// Sampling by budget: HGSampling of "Heterogeneous Graph Transformer" (Hu, Dong, Wang, Sun 2020), algorithms
// 1 and 2, which keeps the numbers of nodes of each type alike and the sample dense.
//
// In the budget of a node type is every node of it that leads to a sampled node and is not sampled itself,
// with the sum of 1 / degree over the sampled nodes that it leads to. A hop draws nodes of each type from its
// budget, without replacement, in proportion to the squares of these sums; then the neighbours of what was
// drawn come into the budgets. The edges of the sample are all edges among its nodes.
//
// Of the neighbours of a hub, `most_neighbours` along an edge type, drawn anew in the hop that samples it,
// count with 1 / most_neighbours each, as in torch-sparse: a hub costs no more than other nodes and does not
// flood a budget.
//
// Nodes come out seeds first, then hop by hop, as drawn, or as met where a budget is taken whole. A seed
// given twice counts twice; edges lead into both of its places and from the first, as in sampler.h. The
// result is a function of (topologies, seeds, numbers, options) alone, whatever the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/pool.h"
#include "pick/expand.h"
#include "query/induced.h"
#include "sample/sampler.h"

namespace gz {

struct HgtOptions {
  int64_t most_neighbours = 50;  // of a node, along one edge type, that count
  uint64_t rng_seed = 0;
};

struct HgtSample {
  std::vector<PooledArray<int64_t>> nodes;  // by node type
  std::vector<InducedEdges> edges;          // by edge type
};

// num_nodes: by node type. edge_types: without fanouts. num_samples: by node type, nodes to draw in each hop.
// Throws std::out_of_range for a seed outside its type, std::invalid_argument for what contradicts itself.
HgtSample hgt_sample(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
                     const std::vector<SampleSeeds>& seeds,
                     const std::vector<std::vector<int64_t>>& num_samples, const HgtOptions& options);

}  // namespace gz
