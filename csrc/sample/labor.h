// LABOR: neighbourhoods whose nodes share one random number per neighbour, so that they pick the same ones
// and a batch has fewer nodes. labor.cpp has the algorithm for one frontier, labor_hops.cpp samples hop by
// hop with it; labor_layer() in layer.h is one layer of it, as DGL asks for.
#pragma once

#include <cstdint>
#include <vector>

#include "sample/layer.h"
#include "sample/sampler.h"

namespace gz {

// Edges picked for seeds: positions in the topology, neighbours by global id, owners by the seed's index.
struct LaborPicks {
  PooledArray<int64_t> positions, neighbours, owners;
  PooledArray<float> importance;  // empty where all are 1
};
LaborPicks labor_picks(const EdgeType& type, int64_t fanout, const LayerSeeds& seeds,
                       const LaborOptions& options);

struct LaborHops {
  bool layer_dependency = false;  // a neighbour has the same random number in every hop
  uint64_t random_seed = 0, second_seed = 0;
  double second_share = 0;  // as in LaborOptions
  bool want_edge_ids = true;
};

struct LaborSample : Sample {
  std::vector<PooledArray<float>> importance;  // by edge type, beside its edges; empty without weights
};

// As sample(), but by LABOR. No times, and nothing disjoint: there seeds share no neighbours.
LaborSample labor_sample(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
                         const std::vector<SampleSeeds>& seeds, const LaborHops& options);

}  // namespace gz
