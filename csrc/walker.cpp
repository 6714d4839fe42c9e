// A step of a walk is two dependent reads (the list's bounds, then one entry), each likely to miss the cache.
// One walk at a time would wait for both; here every thread keeps kInFlight walks going, so their misses
// overlap.
#include "walker.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "pick.h"
#include "rng.h"
#include "threads.h"

namespace gz {
namespace {

constexpr size_t kInFlight = 64;
constexpr size_t kWalksPerTask = kInFlight * 16;

Rng walk_rng(uint64_t rng_seed, size_t index, int64_t start) {
  return Rng(fold(fold(fold(1, rng_seed), index), static_cast<uint64_t>(start)));
}

// The offset that one 64-bit draw selects: high bits a slot, and with weights the low 32 bits against its
// threshold.
struct Draw {
  uint64_t slot;
  uint32_t low;
};

Draw draw(Rng& rng, uint64_t degree) {
  const uint64_t slot = rng.below(degree);
  return {slot, 0};
}

Draw draw_alias(Rng& rng, uint64_t degree) {
  const uint64_t slot = rng.below(degree);
  return {slot, static_cast<uint32_t>(rng.next() >> 32)};
}

// Where the alias table sends a draw: a slot, or degree when the list has no weight at all.
uint64_t resolve(const AliasEntry& entry, const Draw& d, uint64_t degree) {
  if (d.low < entry.threshold || entry.threshold == 0xFFFFFFFF) return d.slot;
  if (entry.partner == d.slot) return degree;  // how a list without weight is written; docs/format.md
  return std::min<uint64_t>(entry.partner, degree - 1);
}

template <class Id>
int64_t neighbour_at(const Topology& t, const Id* indices, uint64_t position) {
  const auto v = static_cast<uint64_t>(indices[position]);
  if (v >= t.num_other || v >= t.num_nodes) [[unlikely]]
    t.damaged_index(position);
  return static_cast<int64_t>(v);
}

// First-order walks, kInFlight of them in step.
template <class Id, bool kWeighted>
void walk_group(const Topology& t, const Id* indices, const int64_t* starts, size_t first, size_t count,
                size_t length, uint64_t rng_seed, int64_t* out) {
  struct Walk {
    Rng rng{0};
    int64_t node;
    Topology::Range list;
    Draw draw;
    uint64_t position;
    int64_t* out;
  } walks[kInFlight];
  for (size_t w = 0; w < count; ++w) {
    const int64_t start = starts[first + w];
    walks[w] = {walk_rng(rng_seed, first + w, start), start, {}, {}, 0, out + (first + w) * (length + 1)};
    walks[w].out[0] = start;
    __builtin_prefetch(t.indptr + start);
  }
  size_t alive = count;
  for (size_t step = 1; step <= length && alive; ++step) {
    for (size_t w = 0; w < alive;) {
      Walk& walk = walks[w];
      walk.list = t.edges_of(static_cast<uint64_t>(walk.node));
      if (walk.list.size() == 0) {
        std::fill(walk.out + step, walk.out + length + 1, -1);
        walk = walks[--alive];
        continue;
      }
      walk.draw = kWeighted ? draw_alias(walk.rng, walk.list.size()) : draw(walk.rng, walk.list.size());
      walk.position = walk.list.begin + walk.draw.slot;
      if constexpr (kWeighted)
        __builtin_prefetch(t.alias + walk.position);
      else
        __builtin_prefetch(indices + walk.position);
      ++w;
    }
    if constexpr (kWeighted) {
      for (size_t w = 0; w < alive;) {
        Walk& walk = walks[w];
        const uint64_t slot = resolve(t.alias[walk.position], walk.draw, walk.list.size());
        if (slot == walk.list.size()) {
          std::fill(walk.out + step, walk.out + length + 1, -1);
          walk = walks[--alive];
          continue;
        }
        walk.position = walk.list.begin + slot;
        __builtin_prefetch(indices + walk.position);
        ++w;
      }
    }
    for (size_t w = 0; w < alive; ++w) {
      Walk& walk = walks[w];
      walk.node = neighbour_at(t, indices, walk.position);
      walk.out[step] = walk.node;
      __builtin_prefetch(t.indptr + walk.node);
    }
  }
}

// Second-order walks by rejection: propose a neighbour by weight, accept it with probability bias / largest
// bias. Only a draw that falls between the biases needs to know whether the proposal is a neighbour of the
// previous node. Every walk is a small state machine; one visit makes one read that was prefetched at the
// visit before.
template <class Id>
class Node2Vec {
 public:
  Node2Vec(const Topology& t, const Id* indices, double p, double q)
      : t_(t),
        indices_(indices),
        back_(1 / p),
        away_(1 / q),
        largest_(std::max({1.0, back_, away_})),
        sure_(std::min(1.0, away_)),
        hopeless_(std::max(1.0, away_)) {}

  void run(const int64_t* starts, size_t first, size_t last, size_t length, uint64_t rng_seed, int64_t* out) {
    if (length == 0) {
      for (size_t i = first; i < last; ++i) out[i] = starts[i];
      return;
    }
    starts_ = starts;
    next_ = first;
    last_ = last;
    length_ = length;
    rng_seed_ = rng_seed;
    out_ = out;
    size_t active = 0;
    while (active < kInFlight && begin_walk(walks_[active])) ++active;
    while (active) {
      for (size_t w = 0; w < active;) {
        if (visit(walks_[w]))
          ++w;
        else
          std::swap(walks_[w], walks_[--active]);
      }
    }
  }

 private:
  enum class Stage { kList, kAlias, kCandidate, kSearch };
  struct Walk {
    Rng rng{0};
    Stage stage;
    size_t step;
    int64_t node, previous, candidate;
    Topology::Range list, previous_list;
    Draw draw;
    uint64_t position;
    uint64_t low, size;  // what is left of the search in previous_list
    double level;        // the acceptance draw, in units of bias
    int64_t* out;
  };

  bool begin_walk(Walk& w) {
    if (next_ == last_) return false;
    const int64_t start = starts_[next_];
    w = {walk_rng(rng_seed_, next_, start), Stage::kList, 1, start, -1, -1, {}, {}, {}, 0, 0, 0, 0,
         out_ + next_ * (length_ + 1)};
    w.out[0] = start;
    ++next_;
    __builtin_prefetch(t_.indptr + start);
    return true;
  }

  bool end_walk(Walk& w) {
    std::fill(w.out + w.step, w.out + length_ + 1, -1);
    return begin_walk(w);
  }

  // False when the walk is over and there is no other to take its place.
  bool visit(Walk& w) {
    switch (w.stage) {
      case Stage::kList:
        w.list = t_.edges_of(static_cast<uint64_t>(w.node));
        if (w.list.size() == 0) return end_walk(w);
        propose(w);
        return true;
      case Stage::kAlias: {
        const uint64_t slot = resolve(t_.alias[w.position], w.draw, w.list.size());
        if (slot == w.list.size()) return end_walk(w);
        w.position = w.list.begin + slot;
        __builtin_prefetch(indices_ + w.position);
        w.stage = Stage::kCandidate;
        return true;
      }
      case Stage::kCandidate:
        return judge(w);
      case Stage::kSearch:
        return search(w);
    }
    return false;
  }

  void propose(Walk& w) {
    if (t_.alias) {
      w.draw = draw_alias(w.rng, w.list.size());
      w.position = w.list.begin + w.draw.slot;
      __builtin_prefetch(t_.alias + w.position);
      w.stage = Stage::kAlias;
    } else {
      w.position = w.list.begin + draw(w.rng, w.list.size()).slot;
      __builtin_prefetch(indices_ + w.position);
      w.stage = Stage::kCandidate;
    }
  }

  bool judge(Walk& w) {
    w.candidate = neighbour_at(t_, indices_, w.position);
    if (w.previous < 0) return accept(w);
    w.level = w.rng.unit() * largest_;
    if (w.candidate == w.previous) return w.level < back_ ? accept(w) : (propose(w), true);
    if (w.level < sure_) return accept(w);
    if (w.level >= hopeless_) return propose(w), true;
    w.low = w.previous_list.begin;
    w.size = w.previous_list.size();
    prefetch_middle(w);
    w.stage = Stage::kSearch;
    return true;
  }

  static constexpr uint64_t kScan = 64 / sizeof(Id);  // the rest of a search lies in a cache line or two

  void prefetch_middle(const Walk& w) const {
    __builtin_prefetch(indices_ + w.low + (w.size > kScan && t_.sorted ? w.size / 2 : 0));
  }

  bool search(Walk& w) {
    if (t_.sorted && w.size > kScan) {
      const uint64_t half = w.size / 2;
      if (static_cast<int64_t>(indices_[w.low + half]) <= w.candidate) {
        w.low += half;
        w.size -= half;
      } else {
        w.size = half;
      }
      prefetch_middle(w);
      return true;
    }
    const Id* list = indices_ + w.low;
    bool near = false;
    for (uint64_t i = 0; i < w.size; ++i) near |= static_cast<int64_t>(list[i]) == w.candidate;
    const double bias = near ? 1.0 : away_;
    if (w.level < bias) return accept(w);
    propose(w);
    return true;
  }

  bool accept(Walk& w) {
    w.out[w.step] = w.candidate;
    if (w.step == length_) return begin_walk(w);
    ++w.step;
    w.previous = w.node;
    w.previous_list = w.list;
    w.node = w.candidate;
    __builtin_prefetch(t_.indptr + w.node);
    w.stage = Stage::kList;
    return true;
  }

  const Topology& t_;
  const Id* indices_;
  double back_, away_, largest_, sure_, hopeless_;
  const int64_t* starts_ = nullptr;
  size_t next_ = 0, last_ = 0, length_ = 0;
  uint64_t rng_seed_ = 0;
  int64_t* out_ = nullptr;
  Walk walks_[kInFlight];
};

void check_bias(double value, const char* name) {
  if (!(value > 0) || std::isinf(value))
    throw std::invalid_argument(std::string(name) + " is " + std::to_string(value) +
                                "; it must be finite and greater than 0");
}

}  // namespace

void random_walk(const Topology& t, const int64_t* starts, size_t num_starts, size_t length, double p,
                 double q, uint64_t rng_seed, int64_t* out) {
  check_bias(p, "p");
  check_bias(q, "q");
  if (t.num_nodes != t.num_other)
    throw std::invalid_argument(t.name + ": a walk needs one node type at both ends, here " +
                                std::to_string(t.num_nodes) + " and " + std::to_string(t.num_other) +
                                " nodes");
  check_ids(starts, num_starts, t.num_nodes, "start node");
  with_width(t.indices, [&](const auto* indices) {
    using Id = std::remove_cvref_t<decltype(*indices)>;
    parallel_for(num_starts, kWalksPerTask, [&](size_t begin, size_t end) {
      if (p != 1 || q != 1) {
        Node2Vec<Id>(t, indices, p, q).run(starts, begin, end, length, rng_seed, out);
        return;
      }
      for (size_t first = begin; first < end; first += kInFlight) {
        const size_t count = std::min(kInFlight, end - first);
        if (t.alias)
          walk_group<Id, true>(t, indices, starts, first, count, length, rng_seed, out);
        else
          walk_group<Id, false>(t, indices, starts, first, count, length, rng_seed, out);
      }
    });
  });
}

void random_fanout(const Topology& t, const int64_t* starts, size_t num_starts, size_t k, bool replace,
                   uint64_t rng_seed, int64_t* out) {
  constexpr size_t kAhead = 16, kBlock = 32;
  check_ids(starts, num_starts, t.num_nodes, "start node");
  with_width(t.indices, [&](const auto* indices) {
    parallel_for(num_starts, 512, [&](size_t begin, size_t end) {
      for (size_t first = begin; first < end; first += kBlock) {
        const size_t last = std::min(end, first + kBlock);
        for (size_t i = first; i < last; ++i) {  // offsets first, so that the reads below overlap
          if (i + kAhead < end) __builtin_prefetch(t.indptr + starts[i + kAhead]);
          const auto list = t.edges_of(static_cast<uint64_t>(starts[i]));
          Rng rng = walk_rng(rng_seed, i, starts[i]);
          int64_t* const row = out + i * k;
          const size_t count = list.size() == 0 ? 0 : replace ? k : std::min<uint64_t>(k, list.size());
          if (replace)
            for (size_t j = 0; j < count; ++j) row[j] = static_cast<int64_t>(rng.below(list.size()));
          else
            choose_without_replacement(rng, list.size(), count, row);
          for (size_t j = 0; j < count; ++j) {
            row[j] += static_cast<int64_t>(list.begin);
            __builtin_prefetch(indices + row[j]);
          }
          std::fill(row + count, row + k, -1);
        }
        for (int64_t* cell = out + first * k; cell < out + last * k; ++cell)
          if (*cell >= 0) {
            const auto v = static_cast<uint64_t>(indices[*cell]);
            if (v >= t.num_other) [[unlikely]]
              t.damaged_index(static_cast<uint64_t>(*cell));
            *cell = static_cast<int64_t>(v);
          }
      }
    });
  });
}

}  // namespace gz
