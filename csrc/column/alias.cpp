#include "column/alias.h"

#include <algorithm>
#include <stdexcept>

namespace gz {
namespace {

constexpr uint32_t kAlways = UINT32_MAX;

uint32_t threshold_of(double p) {
  if (p >= 1.0) return kAlways;
  return static_cast<uint32_t>(p * 4294967296.0);
}

}  // namespace

void AliasBuilder::build(const float* weights, size_t count, AliasEntry* out) {
  if (count > UINT32_MAX) throw std::length_error("a weighted list of more than 2^32 - 1 edges");
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += weights[i];
  if (sum == 0) {
    for (size_t i = 0; i < count; ++i) out[i] = {0, static_cast<uint32_t>(i)};
    return;
  }
  scaled_.resize(count);
  small_.clear();
  large_.clear();
  const double scale = static_cast<double>(count) / sum;
  for (size_t i = 0; i < count; ++i) {
    scaled_[i] = weights[i] * scale;
    (scaled_[i] < 1.0 ? small_ : large_).push_back(static_cast<uint32_t>(i));
  }
  while (!small_.empty() && !large_.empty()) {
    const uint32_t s = small_.back(), l = large_.back();
    small_.pop_back();
    out[s] = {threshold_of(scaled_[s]), l};
    scaled_[l] -= 1.0 - scaled_[s];
    if (scaled_[l] < 1.0) {
      large_.pop_back();
      small_.push_back(l);
    }
  }
  // What is left over is 1 up to rounding, unless its weight is 0: then it must never be the result.
  for (uint32_t i : large_) out[i] = {kAlways, i};
  if (small_.empty()) return;
  const uint32_t heaviest = static_cast<uint32_t>(std::max_element(weights, weights + count) - weights);
  for (uint32_t i : small_) out[i] = weights[i] > 0 ? AliasEntry{kAlways, i} : AliasEntry{0, heaviest};
}

}  // namespace gz
