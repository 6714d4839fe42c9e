#include "sample/hgt.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/rng.h"
#include "base/threads.h"
#include "memory/memory.h"
#include "read/check.h"

namespace gz {
namespace {

constexpr size_t kMost = 0x7FFFFFFF;  // nodes met, and picks of a hop
constexpr size_t kCandidates = 4096;  // per task
constexpr size_t kAhead = 16;         // how far ahead slots are prefetched
constexpr size_t kPollEvery = 1 << 16;
constexpr const char* kWhat = "the budget of this sample";

// The edges from the newly sampled nodes of one type to their neighbours, grouped by sampled node.
struct Picks {
  PooledArray<int64_t> positions, neighbours, owners;
};

// The nodes of one type that have been met: those in the sample, and those that may be drawn into it.
class Budget {
 public:
  void take(const PooledArray<int64_t>& nodes) {
    make_room(nodes.size());
    for (int64_t node : nodes) find(node).sum = kTaken;
  }

  // Shares that sampled nodes give to their neighbours: one among the neighbours of each that count.
  void add(const Picks& picks) {
    const size_t count = picks.neighbours.size();
    make_room(count);
    for (size_t begin = 0, end; begin < count; begin = end) {
      for (end = begin + 1; end < count && picks.owners[end] == picks.owners[begin];) ++end;
      const double share = 1.0 / static_cast<double>(end - begin);
      for (size_t i = begin; i < end; ++i) {
        if (i + kAhead < count) __builtin_prefetch(&slots_[home(picks.neighbours[i + kAhead])]);
        Entry& entry = find(picks.neighbours[i]);
        if (entry.sum != kTaken) entry.sum += share;
        if (i % kPollEvery == kPollEvery - 1) poll();
      }
    }
  }

  // Moves `count` nodes, or all there are, from the budget to the end of `out`.
  void draw(uint64_t count, uint64_t stream, PooledArray<int64_t>& out) {
    if (count == 0) return;
    require_memory(used_, sizeof(Candidate), kWhat);
    PooledArray<Candidate> candidates(used_);
    size_t left = 0;
    for (uint32_t i = 0; i < used_; ++i)
      if (entries_[i].sum != kTaken) candidates[left++].entry = i;
    if (count < left) {
      race(candidates.data(), left, count, stream);
      left = count;
    }
    const size_t base = out.size();
    out.resize(base + left);
    for (size_t i = 0; i < left; ++i) {
      Entry& entry = entries_[candidates[i].entry];
      out[base + i] = entry.node;
      entry.sum = kTaken;
    }
  }

 private:
  static constexpr double kTaken = -1;
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  struct Entry {
    int64_t node;
    double sum;
  };
  struct Candidate {
    double arrival;
    uint32_t entry;
    bool operator<(const Candidate& other) const {
      return arrival != other.arrival ? arrival < other.arrival : entry < other.entry;
    }
  };

  // Brings the first `count` to the front. Who arrives first after exponential waits with rates w1, w2, ...
  // is the first drawn in proportion to them, the next the second, and so on: drawing without replacement.
  void race(Candidate* candidates, size_t size, size_t count, uint64_t stream) {
    parallel_for(size, kCandidates, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const Entry& entry = entries_[candidates[i].entry];
        Rng rng(fold(stream, static_cast<uint64_t>(entry.node)));
        candidates[i].arrival = -std::log(rng.unit_positive()) / (entry.sum * entry.sum);
      }
    });
    std::nth_element(candidates, candidates + count, candidates + size);
    std::sort(candidates, candidates + count);
  }

  size_t home(int64_t node) const { return mix64(static_cast<uint64_t>(node)) >> shift_; }

  // Of a node that was not met before, a new one with a sum of 0. There must be room for it.
  Entry& find(int64_t node) {
    for (size_t at = home(node);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == kNone) {
        slots_[at] = static_cast<uint32_t>(used_);
        entries_[used_] = {node, 0};
        return entries_[used_++];
      }
      if (entries_[slots_[at]].node == node) return entries_[slots_[at]];
    }
  }

  // For `more` nodes, with at most half of the slots in use.
  void make_room(size_t more) {
    if (more > kMost - used_)
      throw std::length_error("2^31 or more nodes in the budget; use smaller batches or num_samples");
    const size_t wanted = used_ + more;
    if (wanted <= entries_.size()) return;
    const size_t slots = std::bit_ceil(std::max<size_t>(1024, wanted * 2));
    require_memory(slots, sizeof(uint32_t) + sizeof(Entry) / 2, kWhat);
    entries_.resize(slots / 2);
    slots_ = PooledArray<uint32_t>(slots);
    shift_ = 64 - std::countr_zero(slots);
    std::fill(slots_.begin(), slots_.end(), kNone);
    for (size_t i = 0; i < used_; ++i) {
      size_t at = home(entries_[i].node);
      while (slots_[at] != kNone) at = (at + 1) & (slots - 1);
      slots_[at] = static_cast<uint32_t>(i);
    }
  }

  PooledArray<Entry> entries_;  // in the order met; used_ of them
  PooledArray<uint32_t> slots_;
  size_t used_ = 0;
  int shift_ = 64;
};

void check_request(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
                   const std::vector<SampleSeeds>& seeds,
                   const std::vector<std::vector<int64_t>>& num_samples, const HgtOptions& options) {
  check_edge_types(num_nodes, edge_types, 0);
  if (num_samples.size() != num_nodes.size())
    throw std::invalid_argument("there are " + std::to_string(num_nodes.size()) +
                                " node types, but numbers of " + "samples for " +
                                std::to_string(num_samples.size()));
  for (const auto& hops : num_samples) {
    if (hops.size() != num_samples.front().size())
      throw std::invalid_argument("every node type needs the same number of hops: one has " +
                                  std::to_string(num_samples.front().size()) + ", another " +
                                  std::to_string(hops.size()));
    for (int64_t n : hops)
      if (n < 0)
        throw std::invalid_argument("a number of samples is " + std::to_string(n) + "; give 0 or more");
  }
  if (options.most_neighbours < 1)
    throw std::invalid_argument("at least one neighbour of a node must count, not " +
                                std::to_string(options.most_neighbours));
  for (const auto& s : seeds) {
    if (s.type >= num_nodes.size()) throw std::invalid_argument("seeds name a node type that is not there");
    if (s.size >= kMost) throw std::length_error("2^31 or more seeds; use smaller batches");
  }
}

// Brings the neighbours of nodes[t][from[t]...], of all types t, into the budgets.
void spread(const std::vector<EdgeType>& edge_types, const std::vector<PooledArray<int64_t>>& nodes,
            const std::vector<size_t>& from, uint64_t stream, int64_t most_neighbours,
            std::vector<Budget>& budgets) {
  std::vector<Picks> picks(edge_types.size());
  for (size_t e = 0; e < edge_types.size(); ++e) {
    const size_t t = edge_types[e].frontier_type;
    const Frontier frontier{.nodes = nodes[t].data() + from[t], .size = nodes[t].size() - from[t]};
    const PickOptions options{.fanout = most_neighbours, .stream = fold(stream, e), .most = kMost};
    pick(*edge_types[e].topology, {}, frontier, 0, options, picks[e].positions, picks[e].neighbours,
         picks[e].owners);
  }
  // One task a type: sums do not depend on the number of threads.
  parallel_for(budgets.size(), 1, [&](size_t begin, size_t end) {
    for (size_t t = begin; t < end; ++t)
      for (size_t e = 0; e < edge_types.size(); ++e)
        if (edge_types[e].neighbour_type == t) budgets[t].add(picks[e]);
  });
}

}  // namespace

HgtSample hgt_sample(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
                     const std::vector<SampleSeeds>& seeds,
                     const std::vector<std::vector<int64_t>>& num_samples, const HgtOptions& options) {
  check_request(num_nodes, edge_types, seeds, num_samples, options);
  const size_t types = num_nodes.size(), hops = types ? num_samples.front().size() : 0;
  HgtSample out;
  out.nodes.resize(types);
  std::vector<Budget> budgets(types);
  for (const auto& s : seeds) {
    const PooledArray<int64_t> ids = checked_copy(s.nodes, s.size, num_nodes[s.type], "seed");
    PooledArray<int64_t>& nodes = out.nodes[s.type];
    const size_t base = nodes.size();
    nodes.resize(base + s.size);
    std::copy(ids.begin(), ids.end(), nodes.data() + base);
    budgets[s.type].take(ids);
  }
  std::vector<size_t> from(types, 0);
  for (size_t hop = 0; hop < hops; ++hop) {
    const uint64_t stream = fold(fold(0, options.rng_seed), hop);
    spread(edge_types, out.nodes, from, stream, options.most_neighbours, budgets);
    for (size_t t = 0; t < types; ++t) {
      from[t] = out.nodes[t].size();
      // The streams of the draws stand behind those of the edge types.
      budgets[t].draw(static_cast<uint64_t>(num_samples[t][hop]), fold(stream, edge_types.size() + t),
                      out.nodes[t]);
    }
  }
  for (const EdgeType& e : edge_types) {
    const auto& near = out.nodes[e.frontier_type];
    const auto& far = out.nodes[e.neighbour_type];
    out.edges.push_back(induced_edges(*e.topology, {.ids = near.data(), .size = near.size()},
                                      {.ids = far.data(), .size = far.size()}));
  }
  return out;
}

}  // namespace gz
