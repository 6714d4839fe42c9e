// A step of a walk is two dependent reads (the list's bounds, then one entry), each likely to miss the cache.
// One walk at a time would wait for both; here every thread keeps kWalksInFlight walks going, so their misses
// overlap.
#include "walk/walker.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/threads.h"
#include "memory/memory.h"
#include "pick/subset.h"
#include "read/check.h"
#include "walk/node2vec.h"
#include "walk/step.h"

namespace gz {
namespace {

constexpr size_t kStepsBetweenPolls = 1 << 8;  // steps of all walks in flight

struct Walk {
  Rng rng{0};
  int64_t node = 0;
  Topology::Range list = {};
  Draw draw = {};
  uint64_t position = 0;
  int64_t* out = nullptr;
};

// Walks made in step. Those of a file that is not in memory are many, and each read of all of them is fetched
// at once; others as many as a thread can have reads in flight for.
template <class Id, bool kWeighted>
class WalkGroup {
 public:
  WalkGroup(const Topology& t, const Id* indices, const WalkRequest& request, std::span<Walk> walks,
            bool cold)
      : t_(t), indices_(indices), request_(request), walks_(walks), cold_(cold) {}

  // The walks from starts [first, first + walks).
  void run(size_t first) {
    for (size_t w = 0; w < walks_.size(); ++w) {
      const int64_t start = request_.starts[first + w];
      walks_[w] = {.rng = walk_rng(request_.rng_seed, first + w, start),
                   .node = start,
                   .out = request_.out + (first + w) * (request_.length + 1)};
      walks_[w].out[0] = start;
      __builtin_prefetch(t_.indptr + start);
    }
    alive_ = walks_.size();
    for (size_t step = 1; step <= request_.length && alive_; ++step) {
      if (cold_) fetch([&](const Walk& walk) { return t_.indptr + walk.node; }, 2 * sizeof(uint64_t));
      draw_slots(step);
      if constexpr (kWeighted) {
        if (cold_) fetch([&](const Walk& walk) { return t_.alias + walk.position; }, sizeof(AliasEntry));
        resolve_slots(step);
      }
      if (cold_) fetch([&](const Walk& walk) { return indices_ + walk.position; }, sizeof(Id));
      for (size_t w = 0; w < alive_; ++w) {
        Walk& walk = walks_[w];
        walk.node = neighbour_at(t_, indices_, walk.position);
        walk.out[step] = walk.node;
        __builtin_prefetch(t_.indptr + walk.node);
      }
      if (cold_ || step % kStepsBetweenPolls == 0) poll();
    }
  }

 private:
  template <class Place>
  void fetch(Place&& place, size_t bytes) const {
    const auto address = [&](size_t w) { return place(walks_[w]); };
    if (t_.cold(alive_, address)) t_.fetch(alive_, address, bytes);
  }

  void end(size_t w, size_t step) {
    std::fill(walks_[w].out + step, walks_[w].out + request_.length + 1, -1);
    walks_[w] = walks_[--alive_];
  }

  void draw_slots(size_t step) {
    for (size_t w = 0; w < alive_;) {
      Walk& walk = walks_[w];
      walk.list = t_.edges_of(static_cast<uint64_t>(walk.node));
      if (walk.list.size() == 0) {
        end(w, step);
        continue;
      }
      walk.draw = kWeighted ? draw_alias(walk.rng, walk.list.size()) : draw(walk.rng, walk.list.size());
      walk.position = walk.list.begin + walk.draw.slot;
      if constexpr (kWeighted)
        __builtin_prefetch(t_.alias + walk.position);
      else
        __builtin_prefetch(indices_ + walk.position);
      ++w;
    }
  }

  void resolve_slots(size_t step) {
    for (size_t w = 0; w < alive_;) {
      Walk& walk = walks_[w];
      const uint64_t slot = resolve(t_, walk.list, walk.draw);
      if (slot == walk.list.size()) {
        end(w, step);
        continue;
      }
      walk.position = walk.list.begin + slot;
      __builtin_prefetch(indices_ + walk.position);
      ++w;
    }
  }

  const Topology& t_;
  const Id* indices_;
  const WalkRequest& request_;
  std::span<Walk> walks_;
  bool cold_;
  size_t alive_ = 0;
};

template <class Id, bool kWeighted>
void first_order_walks(const Topology& t, const Id* indices, const WalkRequest& request, size_t num_starts) {
  if (walks_are_cold(t, request.starts, num_starts)) {
    std::vector<Walk> walks(std::min(num_starts, kColdWalks));
    for (size_t first = 0; first < num_starts; first += walks.size()) {
      const std::span<Walk> some(walks.data(), std::min(walks.size(), num_starts - first));
      WalkGroup<Id, kWeighted>(t, indices, request, some, true).run(first);
    }
    return;
  }
  parallel_for(num_starts, kWalksPerTask, [&](size_t begin, size_t end) {
    Walk walks[kWalksInFlight];
    for (size_t first = begin; first < end; first += kWalksInFlight) {
      const std::span<Walk> some(walks, std::min(kWalksInFlight, end - first));
      WalkGroup<Id, kWeighted>(t, indices, request, some, false).run(first);
    }
  });
}

void check_bias(double value, const char* name) {
  if (!(value > 0) || std::isinf(value) || std::isinf(1 / value))
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                                "; it must be finite and greater than 0");
}

// The result, refused where it would not fit.
PooledArray<int64_t> table(size_t rows, size_t width, const char* what) {
  size_t cells;
  if (__builtin_mul_overflow(std::max<size_t>(1, rows), width, &cells)) cells = SIZE_MAX;
  require_memory(cells, sizeof(int64_t), what);
  return PooledArray<int64_t>(rows * width);
}

}  // namespace

PooledArray<int64_t> random_walk(const Topology& t, const int64_t* starts, size_t num_starts, size_t length,
                                 double p, double q, uint64_t rng_seed) {
  check_bias(p, "p");
  check_bias(q, "q");
  if (t.num_nodes != t.num_other)
    throw std::invalid_argument(t.name + ": a walk needs one node type at both ends, here " +
                                std::to_string(t.num_nodes) + " and " + std::to_string(t.num_other) +
                                " nodes");
  const PooledArray<int64_t> nodes = checked_copy(starts, num_starts, t.num_nodes, "start node");
  PooledArray<int64_t> result =
      table(num_starts, length == SIZE_MAX ? SIZE_MAX : length + 1, "a table of walks");
  const WalkRequest request{
      .starts = nodes.data(), .length = length, .rng_seed = rng_seed, .out = result.data()};
  if (p != 1 || q != 1) {
    node2vec_walks(t, p, q, request, num_starts);
    return result;
  }
  with_width(t.indices, [&](const auto* indices) {
    using Id = std::remove_cvref_t<decltype(*indices)>;
    if (t.alias)
      first_order_walks<Id, true>(t, indices, request, num_starts);
    else
      first_order_walks<Id, false>(t, indices, request, num_starts);
  });
  return result;
}

PooledArray<int64_t> random_fanout(const Topology& t, const int64_t* starts, size_t num_starts, size_t k,
                                   bool replace, uint64_t rng_seed) {
  constexpr size_t kAhead = 16, kChunk = 512;
  const PooledArray<int64_t> nodes = checked_copy(starts, num_starts, t.num_nodes, "start node");
  PooledArray<int64_t> result = table(num_starts, k, "a table of neighbours");
  int64_t* const out = result.data();
  t.fetch_starts(nodes.data(), num_starts);
  const auto choose = [&](size_t begin, size_t end) {  // positions
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) t.prefetch_start(static_cast<uint64_t>(nodes[i + kAhead]));
      const auto list = t.edges_of(static_cast<uint64_t>(nodes[i]));
      Rng rng = walk_rng(rng_seed, i, nodes[i]);
      int64_t* const row = out + i * k;
      const size_t count = list.size() == 0 ? 0 : replace ? k : std::min<uint64_t>(k, list.size());
      const auto first = static_cast<int64_t>(list.begin);
      if (replace)
        choose_with_replacement(rng, list.size(), count, first, row);
      else
        choose_without_replacement(rng, list.size(), count, first, row);
      std::fill(row + count, row + k, -1);
    }
  };
  with_width(t.indices, [&](const auto* indices) {
    const auto read = [&](size_t begin, size_t end) {  // the neighbours there
      for (int64_t* cell = out + begin * k; cell < out + end * k; ++cell) {
        if (cell + kAhead < out + end * k && cell[kAhead] >= 0) __builtin_prefetch(indices + cell[kAhead]);
        if (*cell < 0) continue;
        const auto v = static_cast<uint64_t>(indices[*cell]);
        if (v >= t.num_other) [[unlikely]]
          t.damaged_index(static_cast<uint64_t>(*cell));
        *cell = static_cast<int64_t>(v);
      }
    };
    const auto place = [&](size_t i) { return indices + std::max<int64_t>(0, out[i]); };
    const auto list = [&](size_t i) { return indices + t.indptr[nodes[i]]; };
    if (!t.cold(num_starts, list)) {
      parallel_for(num_starts, kChunk, [&](size_t begin, size_t end) {
        choose(begin, end);
        read(begin, end);
      });
      return;
    }
    parallel_for(num_starts, kChunk, choose);
    t.fetch(result.size(), place, sizeof *indices);
    parallel_for(num_starts, kChunk, read);
  });
  return result;
}

}  // namespace gz
