// The weight that an edge is picked by.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "pick/pick.h"

namespace gz {

// Of the edge at a position, which must be below num_edges. Throws std::invalid_argument for one that is no
// weight.
inline double weight_at(const Topology& t, const Column& weights, uint64_t position) {
  const uint64_t row = t.row_at(position);
  if (weights.dtype == DType::kUInt8) return static_cast<const uint8_t*>(weights.data)[row] ? 1 : 0;
  const double w = weights.dtype == DType::kFloat32 ? static_cast<const float*>(weights.data)[row]
                                                    : static_cast<const double*>(weights.data)[row];
  if (!(w >= 0) || std::isinf(w)) [[unlikely]]
    throw std::invalid_argument("the weight of edge " + std::to_string(row) + " is " + std::to_string(w) +
                                "; weights must be finite and not negative");
  return w;
}

}  // namespace gz
