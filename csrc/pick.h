// Chooses edges for the nodes of one frontier: the random part of sampling, and all of it.
//
// What is drawn for a node depends only on (rng_seed, hop, edge type, node, and in disjoint mode the seed it
// belongs to), so the choice is the same for any number of threads.
#pragma once

#include <cstdint>

#include "pool.h"
#include "topology.h"

namespace gz {

// A column of weights or times beside the edges or nodes, in its own dtype. Empty when there is none.
struct Column {
  const void* data = nullptr;
  DType dtype = DType::kNone;
  uint64_t size = 0;

  explicit operator bool() const { return data != nullptr; }
};

enum class TemporalStrategy { kUniform, kLast };

struct PickOptions {
  int64_t fanout = -1;  // < 0: all
  bool replace = false;
  uint64_t stream = 0;  // of (rng_seed, hop, edge type); nodes are folded into it
  Column weights;       // float32, float64 or uint8 (a mask), by row of the edge columns
  Column edge_time;     // int32 or int64, by row of the edge columns
  Column node_time;     // int32 or int64, by neighbour
  TemporalStrategy strategy = TemporalStrategy::kUniform;
};

// The frontier: nodes[i] with, in disjoint mode, the seed it belongs to, and in temporal mode that seed's
// time.
struct Frontier {
  const int64_t* nodes;
  size_t size;
  const int64_t* batch = nullptr;      // per node; null unless disjoint
  const int64_t* seed_time = nullptr;  // per seed; null unless temporal
};

// Writes behind what the arrays already hold: for each picked edge, in frontier order, its position in the
// topology, its neighbour's id and the index (first_frontier + i) of the frontier node.
void pick(const Topology& topology, const Frontier& frontier, int64_t first_frontier,
          const PickOptions& options, PooledArray<int64_t>& positions, PooledArray<int64_t>& neighbours,
          PooledArray<int64_t>& owners);

// k distinct offsets below n into out, a uniform subset (Floyd). k <= n.
class Rng;
void choose_without_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t* out);

}  // namespace gz
