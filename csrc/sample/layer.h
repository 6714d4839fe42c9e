// One layer of sampling, as DGL asks for it: every seed is expanded, whether or not an earlier layer did so.
//
// Two shapes of result. Numbered: a message-flow block, its nodes the seeds first and then in the order first
// seen, its edges grouped by seed (CSC). Not numbered: a frontier, edges between global ids. Excluded edges
// are taken out after picking, as DGL does. The result is a function of the arguments alone.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/pool.h"
#include "pick/expand.h"

namespace gz {

// An edge type with one fanout; with weights, -1 takes all edges of weight above 0.
struct LayerEdgeType {
  EdgeType type;
  const int64_t* exclude = nullptr;  // edges by id, taken out of the result
  size_t num_exclude = 0;

  int64_t fanout() const { return type.fanouts.front(); }
};

struct LayerSeeds {
  const int64_t* nodes = nullptr;
  size_t size = 0;
};

struct LayerEdges : Edges {       // numbered: neighbours by local id; else both ends by global ids
  PooledArray<int64_t> indptr;    // numbered: [seeds + 1], into the other arrays
  PooledArray<float> importance;  // LABOR: one weight per edge; empty where all are 1
};

struct Layer {
  std::vector<PooledArray<int64_t>> nodes;  // numbered: by node type
  std::vector<LayerEdges> edges;            // by edge type
};

struct LayerOptions {
  bool replace = false;
  bool numbered = false;
  bool by_place = false;  // draws depend on the seed's place too, so that a seed given twice draws twice
  uint64_t rng_seed = 0;
};

// seeds: by node type, as num_nodes. Throws std::out_of_range for a seed outside its type.
Layer sample_layer(const std::vector<uint64_t>& num_nodes, const std::vector<LayerEdgeType>& edge_types,
                   const std::vector<LayerSeeds>& seeds, const LayerOptions& options);

struct LaborOptions {
  int importance = 0;        // rounds of importance sampling; < 0: until it converges
  uint64_t random_seed = 0;  // r_t is a function of it and of t
  uint64_t second_seed = 0;  // mixed in by second_share
  double second_share = 0;   // [0, 1)
};

// LABOR (Balin and Catalyurek 2023, arXiv:2210.13339): one random number per neighbour, shared by all seeds,
// so that seeds with common neighbours pick the same ones. A frontier, with importance weights.
Layer labor_layer(const std::vector<uint64_t>& num_nodes, const std::vector<LayerEdgeType>& edge_types,
                  const std::vector<LayerSeeds>& seeds, const LaborOptions& options);

// For graphs whose ids DGL wants in 32 bits. The values must fit.
PooledArray<int32_t> narrowed(const PooledArray<int64_t>& ids);

// Shared by both. The seeds as a copy that was checked: read/check.h says why.
struct OwnSeeds {
  std::vector<PooledArray<int64_t>> ids;
  std::vector<LayerSeeds> seeds;  // over them
};
OwnSeeds check_layer(const std::vector<uint64_t>& num_nodes, const std::vector<LayerEdgeType>& edge_types,
                     const std::vector<LayerSeeds>& seeds);
// Takes excluded edges out of all arrays.
void take_out_excluded(const LayerEdgeType& type, LayerEdges& edges);

}  // namespace gz
