#include "column/verify_ids.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "memory/memory.h"
#include "memory/pool.h"

namespace gz {
namespace {

constexpr uint64_t kLeastWindow = 1 << 20;

// A bit for each id of a window, set by any thread.
class Bits {
 public:
  explicit Bits(uint64_t count) : words_((count + 63) / 64) { std::fill(words_.begin(), words_.end(), 0); }
  bool set(uint64_t i) {  // whether it was set before
    const uint64_t bit = uint64_t{1} << (i % 64);
    return __atomic_fetch_or(&words_[i / 64], bit, __ATOMIC_RELAXED) & bit;
  }
  bool get(uint64_t i) const { return words_[i / 64] >> (i % 64) & 1; }

 private:
  PooledArray<uint64_t> words_;
};

// The ids of one window as they occur in edge_ids.
struct Window {
  uint64_t begin, end;
  uint64_t size() const { return end - begin; }
};

// Calls fn(window) for windows of so many ids that bits_each bits an id are a quarter of the free memory.
template <class Fn>
void each_window(uint64_t num_ids, uint64_t bits_each, Fn&& fn) {
  const uint64_t window = std::max(kLeastWindow, available_memory() / 4 / bits_each * 8);
  for (uint64_t begin = 0; begin < num_ids; begin += window)
    fn(Window{begin, begin + std::min(window, num_ids - begin)});
}

// Calls fn(position, id - window.begin) for all edges with an id in the window, from all threads.
template <class Fn>
void each_edge(const Topology& t, const Window& w, Fn&& fn) {
  with_width(t.edge_ids, [&](const auto* ids) {
    parallel_for(t.num_edges, 1 << 16, [&](size_t begin, size_t end) {
      for (uint64_t e = begin; e < end; ++e)
        if (ids[e] >= w.begin && ids[e] < w.end) fn(e, ids[e] - w.begin);
    });
  });
}

// The smallest of what threads find; the first error is the same in every run.
class Least {
 public:
  void offer(uint64_t v) {
    for (uint64_t seen = least_.load(); v < seen && !least_.compare_exchange_weak(seen, v);) {
    }
  }
  bool any() const { return least_ != UINT64_MAX; }
  uint64_t get() const { return least_; }

 private:
  std::atomic<uint64_t> least_{UINT64_MAX};
};

[[noreturn]] void fail(const Topology& t, uint64_t id, const std::string& rule) {
  throw FormatError(t.name, rule + " (first broken at edge id " + std::to_string(id) + ")");
}

}  // namespace

void verify_distinct_ids(const Topology& t) {
  each_window(t.num_edge_ids, 1, [&](const Window& w) {
    Bits seen(w.size());
    Least twice;
    each_edge(t, w, [&](uint64_t, uint64_t id) {
      if (seen.set(id)) twice.offer(w.begin + id);
    });
    if (twice.any()) fail(t, twice.get(), "every row of the 'in' topology must occur once");
  });
}

void verify_positions(const Topology& t) {
  const uint64_t none = t.edge_positions.wide ? ~uint64_t{0} : 0xFFFFFFFFu;
  const uint64_t wild = first_wrong(t.num_edge_ids, [&](uint64_t id) {
    const uint64_t at = t.edge_positions[id];
    return at != none && at >= t.num_edges;
  });
  if (wild < t.num_edge_ids)
    fail(t, wild, "every edge position must be below the number of edges, or all ones");
  // An id occurs at its position and, where an undirected ingest added the reverse of its edge, once more.
  each_window(t.num_edge_ids, t.edge_positions.wide ? 66 : 34, [&](const Window& w) {
    Bits home(w.size()), elsewhere(w.size());
    Least thrice;
    each_edge(t, w, [&](uint64_t e, uint64_t id) {
      if (t.edge_positions[w.begin + id] == e)
        home.set(id);
      else if (elsewhere.set(id))
        thrice.offer(w.begin + id);
    });
    if (thrice.any()) fail(t, thrice.get(), "an edge id occurs more often than twice");
    const uint64_t lost =
        first_wrong(w.size(), [&](uint64_t id) { return elsewhere.get(id) && !home.get(id); });
    if (lost < w.size())
      fail(t, w.begin + lost, "the position of an edge id is not where an edge with it lies");
  });
}

}  // namespace gz
