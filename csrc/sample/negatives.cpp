#include "sample/negatives.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "column/alias.h"

namespace gz {
namespace {

constexpr int kTries = 6;
constexpr size_t kPairsAtOnce = 2048;
constexpr size_t kFetchedAtOnce = 1 << 16;

int64_t draw(const NegativeOptions& o, Rng& rng) {
  const uint64_t slot = rng.below(o.num_nodes);
  if (!o.weights) return static_cast<int64_t>(slot);
  const AliasEntry& entry = (*o.weights)[slot];
  const auto low = static_cast<uint32_t>(rng.next() >> 32);
  const bool keep = low < entry.threshold || entry.threshold == UINT32_MAX;
  return static_cast<int64_t>(keep ? slot : entry.partner);
}

int64_t time_of(const Column& times, int64_t node) {
  return times.dtype == DType::kInt32 ? static_cast<const int32_t*>(times.data)[node]
                                      : static_cast<const int64_t*>(times.data)[node];
}

// Brings in the times that the draws of pairs [begin, end) are held against, those of a try together.
void fetch_times(const NegativeOptions& o, uint64_t key, size_t begin, size_t end) {
  struct Pair {
    Rng rng;
    int64_t not_after, node;
  };
  std::vector<Pair> pairs;
  for (size_t i = begin; i < end; ++i)
    pairs.push_back({Rng(fold(key, i)), o.not_after[i % o.num_not_after], 0});
  for (int turn = 0; turn < kTries; ++turn) {
    for (Pair& p : pairs) p.node = draw(o, p.rng);
    const auto node = [&](size_t i) { return static_cast<uint64_t>(pairs[i].node); };
    if (!o.times.fetch_missing(pairs.size(), node) && turn == 0) return;
    std::erase_if(pairs, [&](const Pair& p) { return time_of(o.times, p.node) <= p.not_after; });
  }
}

}  // namespace

NodeWeights::NodeWeights(const float* weights, size_t count) : table_(count) {
  bool any = false;
  for (size_t i = 0; i < count; ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i]))
      throw std::invalid_argument("the weight of node " + std::to_string(i) + " is " +
                                  std::to_string(weights[i]) + "; weights are finite and not negative");
    any |= weights[i] > 0;
  }
  if (!any) throw std::invalid_argument("the weights of all nodes are 0: there is no negative to draw");
  AliasBuilder().build(weights, count, table_.data());
}

PooledArray<int64_t> draw_negatives(const NegativeOptions& o, size_t count) {
  if (count && o.num_nodes == 0) throw std::invalid_argument("there are no nodes to draw negatives from");
  if (o.weights && o.weights->size() != o.num_nodes)
    throw std::invalid_argument("there are " + std::to_string(o.num_nodes) + " nodes but " +
                                std::to_string(o.weights->size()) + " weights");
  if (o.times && o.times.size != o.num_nodes)
    throw std::invalid_argument("there are " + std::to_string(o.num_nodes) + " nodes but " +
                                std::to_string(o.times.size) + " times");
  if (o.times && count && o.num_not_after == 0)
    throw std::invalid_argument("negatives by time need the time of each edge");
  PooledArray<int64_t> out(count);
  // Mixed before the draws are counted into it: seeds 0 and 1 are otherwise the same draws in another order.
  const uint64_t key = fold(0, o.rng_seed);
  const auto draw_pairs = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      Rng rng(fold(key, i));
      if (!o.times) {
        out[i] = draw(o, rng);
        continue;
      }
      out[i] = -1;
      for (int turn = 0; turn < kTries && out[i] < 0; ++turn) {
        const int64_t node = draw(o, rng);
        if (time_of(o.times, node) <= o.not_after[i % o.num_not_after]) out[i] = node;
      }
    }
  };
  const bool in_file = o.times && o.times.place.file;
  for (size_t first = 0, last; first < count; first = last) {
    last = in_file ? std::min(count, first + kFetchedAtOnce) : count;
    if (in_file) fetch_times(o, key, first, last);
    parallel_for(last - first, kPairsAtOnce,
                 [&](size_t begin, size_t end) { draw_pairs(first + begin, first + end); });
  }
  return out;
}

}  // namespace gz
