// Second-order walks (node2vec, Grover and Leskovec 2016): a step back to the previous node is weighted by
// 1/p, to a neighbour of it by 1, to any other by 1/q.
//
// By rejection: propose a neighbour by weight, accept it with probability bias / largest bias. Only a draw
// that falls between the biases needs to know whether the proposal is a neighbour of the previous node. Every
// walk is a small state machine; one visit makes one read that was prefetched at the visit before.
//
// Where nearly all is rejected (p = 1e9 at a dead end with one edge back) a step would never end: after as
// many tries as looking at the lists would cost, it is drawn from the exact rates. Tries are independent, so
// that changes the rates of nothing.
#pragma once

#include <cstdint>

#include "walk/step.h"

namespace gz {

struct WalkRequest {
  const int64_t* starts;
  size_t length;
  uint64_t rng_seed;
  int64_t* out;  // [starts, length + 1]
};

// The walks from all starts.
void node2vec_walks(const Topology& topology, double p, double q, const WalkRequest& request,
                    size_t num_starts);

}  // namespace gz
