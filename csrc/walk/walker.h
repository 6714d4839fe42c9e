// Random walks and one-hop fanouts: fixed-size tables of node ids, -1 where there is no neighbour.
#pragma once

#include <cstdint>

#include "column/topology.h"
#include "memory/pool.h"

namespace gz {

// Walks along the direction of the topology: [num_starts, length + 1], the start first, -1 after a dead end.
// p = q = 1: each step takes a neighbour uniformly, or by weight where the topology has weights. Otherwise
// node2vec (node2vec.h). Walk i depends on (rng_seed, i, its start) alone. Throws MemoryShortage for a table
// that does not fit.
PooledArray<int64_t> random_walk(const Topology& topology, const int64_t* starts, size_t num_starts,
                                 size_t length, double p, double q, uint64_t rng_seed);

// k neighbours of each start, [num_starts, k]: a uniform subset, or with `replace` k independent draws.
PooledArray<int64_t> random_fanout(const Topology& topology, const int64_t* starts, size_t num_starts,
                                   size_t k, bool replace, uint64_t rng_seed);

}  // namespace gz
