#include "pick/times.h"

#include <algorithm>
#include <atomic>

#include "base/threads.h"
#include "memory/governor.h"
#include "pick/edge_values.h"

namespace gz {
namespace {
constexpr size_t kGrain = 1 << 14;  // nodes
constexpr size_t kProbes = 32;
constexpr size_t kBlock = 1 << 16;  // nodes whose lists are brought in together

// Brings in all lists of nodes [from, to).
void fetch_block(const Topology& t, const PickedBy& by, uint64_t from, uint64_t to) {
  if (t.residency) t.fetch(1, [&](size_t) { return t.indptr + from; }, (to - from + 1) * sizeof(uint64_t));
  const Topology::Range all{t.edges_of(from).begin, t.edges_of(to - 1).end};
  if (all.begin <= all.end) by.fetch_lists(&all, 1);
}

}  // namespace

void EdgeTimes::search(Topology::Range* lists, const int64_t* now, size_t count) const {
  const auto middle = [](const Topology::Range& r) { return r.begin + r.size() / 2; };
  for (size_t i = 0; i < count; ++i) __builtin_prefetch(address(middle(lists[i])));
  for (bool going = true; going;) {
    going = false;
    for (size_t i = 0; i < count; ++i) {
      Topology::Range& r = lists[i];
      if (r.begin == r.end) continue;
      const uint64_t at = middle(r);
      if ((*this)[at] <= now[i])
        r.begin = at + 1;
      else
        r.end = at;
      if (r.begin == r.end) continue;
      __builtin_prefetch(address(middle(r)));
      going = true;
    }
  }
}

bool lists_ascend(const Topology& t, const EdgeColumns& columns) {
  const Column& column = columns.edge_time ? columns.edge_time : columns.node_time;
  const uint64_t bytes = column.size * sizeof(int64_t) + t.num_edges * sizeof(int64_t);
  if (t.mapping && bytes > governor::free_memory() / 2) return false;
  const EdgeTimes times(t, columns);
  const PickedBy by(t, {.edge_time = columns.edge_time, .node_time = columns.node_time}, true);
  std::atomic<bool> ascend{true};
  const auto look = [&](uint64_t from, uint64_t to) {
    for (uint64_t v = from; v < to && ascend.load(std::memory_order_relaxed); ++v) {
      const auto list = t.edges_of(v);
      for (uint64_t e = list.begin + 1; e < list.end; ++e)
        if (times[e - 1] > times[e]) {
          ascend.store(false, std::memory_order_relaxed);
          break;
        }
    }
  };
  const bool cold = t.num_edges && by.cold(kProbes, [&](size_t i) { return t.num_edges / kProbes * i; });
  const uint64_t block = cold ? kBlock : t.num_nodes;
  for (uint64_t first = 0; first < t.num_nodes && ascend; first += block) {
    const uint64_t last = std::min(t.num_nodes, first + block);
    if (cold) fetch_block(t, by, first, last);
    parallel_for(last - first, kGrain, [&](size_t from, size_t to) { look(first + from, first + to); });
  }
  return ascend;
}

}  // namespace gz
