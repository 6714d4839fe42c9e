// Nodes drawn at random as negative examples: uniformly or by weight, and only such as exist at a given time.
#pragma once

#include <cstdint>
#include <vector>

#include "column/topology.h"
#include "pick/pick.h"

namespace gz {

// An alias table over all nodes of a type: a draw by weight in O(1), at any number of nodes.
class NodeWeights {
 public:
  // Throws std::invalid_argument for a weight that is negative, NaN or infinite, and where all are 0.
  NodeWeights(const float* weights, size_t count);
  size_t size() const { return table_.size(); }
  const AliasEntry& operator[](size_t i) const { return table_[i]; }

 private:
  std::vector<AliasEntry> table_;
};

struct NegativeOptions {
  uint64_t num_nodes = 0;
  const NodeWeights* weights = nullptr;  // null: uniform
  Column times;                          // int32 or int64, by node; empty: any node will do
  const int64_t* not_after = nullptr;    // with times: draw i is for not_after[i % num_not_after]
  size_t num_not_after = 0;
  uint64_t rng_seed = 0;
};

// `count` nodes. Of a node that is later than its limit another is drawn, up to five times as in PyG; then
// the result is -1. Draw i depends on (rng_seed, i) alone.
PooledArray<int64_t> draw_negatives(const NegativeOptions& options, size_t count);

}  // namespace gz
