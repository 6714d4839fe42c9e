#include "walk/node2vec.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kTries = 32;  // at least, before a step is drawn from the exact rates
constexpr uint64_t kPollEvery = 1 << 14;

// One task's walks. Those of a file that is not in memory are many, and what all of them read next is fetched
// at once; others are as many as a thread can have reads in flight for.
template <class Id>
class Node2Vec {
 public:
  Node2Vec(const Topology& t, const Id* indices, double p, double q, size_t in_flight, bool cold)
      : t_(t),
        indices_(indices),
        cold_(cold),
        walks_(in_flight),
        back_(1 / p),
        away_(1 / q),
        largest_(std::max({1.0, back_, away_})),
        sure_(std::min(1.0, away_)),
        hopeless_(std::max(1.0, away_)) {}

  void run(const WalkRequest& request, size_t first, size_t last) {
    if (request.length == 0) {
      for (size_t i = first; i < last; ++i) request.out[i] = request.starts[i];
      return;
    }
    request_ = request;
    next_ = first;
    last_ = last;
    size_t active = 0;
    while (active < walks_.size() && begin_walk(walks_[active])) ++active;
    for (uint64_t round = 1; active; ++round) {
      if (cold_) t_.fetch_missing(active, [&](size_t w) { return next_read(walks_[w]); });
      for (size_t w = 0; w < active;) {
        if (visit(walks_[w]))
          ++w;
        else
          std::swap(walks_[w], walks_[--active]);
      }
      if (cold_ || round % kPollEvery == 0) poll();
    }
  }

 private:
  enum class Stage { kList, kAlias, kCandidate, kSearch };
  // What a neighbour is to the previous node, which decides its bias.
  enum Kind { kBack, kNear, kAway };
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
    uint64_t tries;
    int64_t* out;
  };
  struct Rates {
    double sum[3] = {};  // weight of the neighbours of each kind
  };

  static constexpr uint64_t kScan = 64 / sizeof(Id);  // the rest of a search lies in a cache line or two

  bool begin_walk(Walk& w) {
    if (next_ == last_) return false;
    const int64_t start = request_.starts[next_];
    w = {.rng = walk_rng(request_.rng_seed, next_, start),
         .stage = Stage::kList,
         .step = 1,
         .node = start,
         .previous = -1,
         .candidate = -1,
         .list = {},
         .previous_list = {},
         .draw = {},
         .position = 0,
         .low = 0,
         .size = 0,
         .level = 0,
         .tries = 0,
         .out = request_.out + next_ * (request_.length + 1)};
    w.out[0] = start;
    ++next_;
    __builtin_prefetch(t_.indptr + start);
    return true;
  }

  bool end_walk(Walk& w) {
    std::fill(w.out + w.step, w.out + request_.length + 1, -1);
    return begin_walk(w);
  }

  // What the next visit reads. Steps from the exact rates, which read whole lists, are few.
  std::pair<const void*, size_t> next_read(const Walk& w) const {
    switch (w.stage) {
      case Stage::kList:
        return {t_.indptr + w.node, 2 * sizeof(uint64_t)};
      case Stage::kAlias:
        return {t_.alias + w.position, sizeof(AliasEntry)};
      case Stage::kCandidate:
        return {indices_ + w.position, sizeof(Id)};
      case Stage::kSearch:
        break;
    }
    if (halves(w)) return {indices_ + w.low + w.size / 2, sizeof(Id)};
    return {indices_ + w.low, w.size * sizeof(Id)};
  }

  // False when the walk is over and there is no other to take its place.
  bool visit(Walk& w) {
    switch (w.stage) {
      case Stage::kList:
        w.list = t_.edges_of(static_cast<uint64_t>(w.node));
        if (w.list.size() == 0) return end_walk(w);
        w.tries = 0;
        propose(w);
        return true;
      case Stage::kAlias: {
        const uint64_t slot = resolve(t_, w.list, w.draw);
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

  bool propose_again(Walk& w) {
    if (++w.tries >= kTries && w.tries >= cost_of_looking(w)) return draw_exactly(w);
    propose(w);
    return true;
  }

  bool judge(Walk& w) {
    w.candidate = neighbour_at(t_, indices_, w.position);
    if (w.previous < 0) return accept(w);
    w.level = w.rng.unit() * largest_;
    if (w.candidate == w.previous) return w.level < back_ ? accept(w) : propose_again(w);
    if (w.level < sure_) return accept(w);
    if (w.level >= hopeless_) return propose_again(w);
    w.low = w.previous_list.begin;
    w.size = w.previous_list.size();
    prefetch_middle(w);
    w.stage = Stage::kSearch;
    return true;
  }

  bool halves(const Walk& w) const { return t_.sorted && w.size > kScan; }

  void prefetch_middle(const Walk& w) const {
    __builtin_prefetch(indices_ + w.low + (halves(w) ? w.size / 2 : 0));
  }

  bool search(Walk& w) {
    if (halves(w)) {
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
    return w.level < (near ? 1.0 : away_) ? accept(w) : propose_again(w);
  }

  bool accept(Walk& w) {
    w.out[w.step] = w.candidate;
    if (w.step == request_.length) return begin_walk(w);
    ++w.step;
    w.previous = w.node;
    w.previous_list = w.list;
    w.node = w.candidate;
    __builtin_prefetch(t_.indptr + w.node);
    w.stage = Stage::kList;
    return true;
  }

  // ---- a step from the exact rates ----

  // Without weights, sorted lists tell how many neighbours there are of each kind by their shorter one.
  bool by_counting() const { return t_.sorted && !t_.weights; }

  uint64_t cost_of_looking(const Walk& w) const {
    if (by_counting()) return std::min(w.list.size(), w.previous_list.size());
    return w.list.size() + (t_.sorted ? 0 : w.previous_list.size());
  }

  bool draw_exactly(Walk& w) {
    if (!t_.sorted) sort_previous(w);
    const Rates r = rates(w);
    // Against the largest bias that occurs: the others may be as small as they like, the sum is not.
    const double bias[3] = {back_, 1.0, away_};
    double most = 0, mass[3], total = 0;
    for (int k : {kBack, kNear, kAway})
      if (r.sum[k] > 0) most = std::max(most, bias[k]);
    if (most == 0) return end_walk(w);  // a list without weight
    for (int k : {kBack, kNear, kAway}) total += mass[k] = r.sum[k] * (bias[k] / most);
    double x = w.rng.unit() * total;
    Kind kind = kBack;
    for (int k : {kBack, kNear, kAway}) {
      if (mass[k] == 0) continue;
      kind = static_cast<Kind>(k);
      if (x < mass[k]) break;
      x -= mass[k];
    }
    w.candidate = neighbour_at(t_, indices_, pick(w, kind, r.sum[kind]));
    return accept(w);
  }

  double weight(uint64_t position) const {
    if (!t_.weights) return 1;
    const double weight = t_.weights[position];
    if (!(weight >= 0) || std::isinf(weight)) [[unlikely]]
      t_.damaged_weight(position);
    return weight;
  }

  void sort_previous(const Walk& w) {
    previous_.assign(indices_ + w.previous_list.begin, indices_ + w.previous_list.end);
    std::sort(previous_.begin(), previous_.end());
  }

  Kind kind_of(const Walk& w, Id neighbour) const {
    if (static_cast<int64_t>(neighbour) == w.previous) return kBack;
    const Id* begin = t_.sorted ? indices_ + w.previous_list.begin : previous_.data();
    return std::binary_search(begin, begin + w.previous_list.size(), neighbour) ? kNear : kAway;
  }

  Topology::Range equal(const Topology::Range& list, Id id) const {
    const auto [begin, end] = std::equal_range(indices_ + list.begin, indices_ + list.end, id);
    return {static_cast<uint64_t>(begin - indices_), static_cast<uint64_t>(end - indices_)};
  }

  // fn(positions in the list) for each neighbour that both lists hold, through the shorter list. fn returns
  // whether to go on.
  template <class Fn>
  void each_near(const Walk& w, Fn&& fn) const {
    const bool through_own = w.list.size() < w.previous_list.size();
    const Topology::Range& from = through_own ? w.list : w.previous_list;
    for (uint64_t at = from.begin, next; at < from.end; at = next) {
      const Id id = indices_[at];
      next = at + 1;
      while (next < from.end && indices_[next] == id) ++next;
      if (static_cast<int64_t>(id) == w.previous) continue;
      if (through_own && kind_of(w, id) != kNear) continue;
      const Topology::Range found = through_own ? Topology::Range{at, next} : equal(w.list, id);
      if (found.size() && !fn(found)) return;
    }
  }

  Rates rates(const Walk& w) const {
    Rates r;
    if (by_counting()) {
      uint64_t near = 0;
      each_near(w, [&](const Topology::Range& found) {
        near += found.size();
        return true;
      });
      const uint64_t back = equal(w.list, static_cast<Id>(w.previous)).size();
      near = std::min(near, w.list.size() - back);  // more only where a damaged list does not ascend
      r.sum[kBack] = static_cast<double>(back);
      r.sum[kNear] = static_cast<double>(near);
      r.sum[kAway] = static_cast<double>(w.list.size() - back - near);
      return r;
    }
    for (uint64_t at = w.list.begin; at < w.list.end; ++at) {
      r.sum[kind_of(w, indices_[at])] += weight(at);
      if (at % kPollEvery == 0) poll();
    }
    return r;
  }

  // The position of a neighbour of `kind`, whose weights sum up to `sum`, drawn by weight.
  uint64_t pick(Walk& w, Kind kind, double sum) const {
    const bool counting = by_counting();
    if (counting && kind == kBack) return equal(w.list, static_cast<Id>(w.previous)).begin;
    if (counting && kind == kNear) {
      uint64_t left = w.rng.below(static_cast<uint64_t>(sum)), chosen = w.list.begin;
      each_near(w, [&](const Topology::Range& found) {
        chosen = found.begin + std::min(left, found.size() - 1);
        if (left < found.size()) return false;
        left -= found.size();
        return true;
      });
      return chosen;
    }
    // Where most of the list is of the kind, a few tries find one; each is as good as any.
    if (counting && sum * 2 >= static_cast<double>(w.list.size()))
      for (uint64_t i = 0; i < kTries; ++i) {
        const uint64_t at = w.list.begin + w.rng.below(w.list.size());
        if (kind_of(w, indices_[at]) == kind) return at;
      }
    double left = w.rng.unit() * sum;
    uint64_t chosen = w.list.begin;
    for (uint64_t at = w.list.begin; at < w.list.end; ++at) {
      if (kind_of(w, indices_[at]) != kind || weight(at) == 0) continue;
      chosen = at;
      left -= weight(at);
      if (left < 0) break;
    }
    return chosen;
  }

  const Topology& t_;
  const Id* indices_;
  const bool cold_;
  std::vector<Walk> walks_;
  double back_, away_, largest_, sure_, hopeless_;
  WalkRequest request_{};
  size_t next_ = 0, last_ = 0;
  std::vector<Id> previous_;  // its neighbours, sorted, where the file's lists are not
};

}  // namespace

void node2vec_walks(const Topology& t, double p, double q, const WalkRequest& request, size_t num_starts) {
  with_width(t.indices, [&](const auto* indices) {
    using Id = std::remove_cvref_t<decltype(*indices)>;
    if (walks_are_cold(t, request.starts, num_starts))
      return Node2Vec<Id>(t, indices, p, q, std::min(num_starts, kColdWalks), true)
          .run(request, 0, num_starts);
    parallel_for(num_starts, kWalksPerTask, [&](size_t begin, size_t end) {
      Node2Vec<Id>(t, indices, p, q, kWalksInFlight, false).run(request, begin, end);
    });
  });
}

}  // namespace gz
