// Random walks and one-hop fanouts: fixed-size tables of node ids, -1 where there is no neighbour.
#pragma once

#include <cstdint>

#include "topology.h"

namespace gz {

// Walks along the direction of the topology: out is [num_starts, length + 1], the start first, -1 after a
// dead end. p = q = 1: each step takes a neighbour uniformly, or by weight where the topology has weights.
// Otherwise node2vec (Grover and Leskovec 2016): a step back to the previous node is weighted by 1/p, to a
// neighbour of it by 1, to any other by 1/q. Walk i depends on (rng_seed, i, its start) alone.
void random_walk(const Topology& topology, const int64_t* starts, size_t num_starts, size_t length, double p,
                 double q, uint64_t rng_seed, int64_t* out);

// k neighbours of each start into out [num_starts, k]: a uniform subset, or with `replace` k independent
// draws.
void random_fanout(const Topology& topology, const int64_t* starts, size_t num_starts, size_t k, bool replace,
                   uint64_t rng_seed, int64_t* out);

}  // namespace gz
