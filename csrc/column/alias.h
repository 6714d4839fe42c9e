// Alias tables (Walker 1974, Vose 1991): a draw by weight from a neighbour list in O(1).
#pragma once

#include <cstddef>
#include <vector>

#include "column/topology.h"

namespace gz {

// Fills `out` for one list. A slot is kept when a 32-bit draw is below its threshold, or when the threshold
// is 2^32 - 1; otherwise the draw goes to its partner. A slot of weight 0 is never the result. A list whose
// weights are all 0 has every slot at (0, own slot), which no other list can have: nothing can be drawn from
// it.
class AliasBuilder {
 public:
  void build(const float* weights, size_t count, AliasEntry* out);

 private:
  std::vector<double> scaled_;
  std::vector<uint32_t> small_, large_;
};

}  // namespace gz
