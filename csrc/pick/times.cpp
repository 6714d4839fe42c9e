#include "pick/times.h"

#include <atomic>

#include "base/threads.h"
#include "memory/governor.h"

namespace gz {
namespace {
constexpr size_t kGrain = 1 << 14;  // nodes
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
  std::atomic<bool> ascend{true};
  parallel_for(t.num_nodes, kGrain, [&](size_t from, size_t to) {
    for (size_t v = from; v < to && ascend.load(std::memory_order_relaxed); ++v) {
      const auto list = t.edges_of(v);
      for (uint64_t e = list.begin + 1; e < list.end; ++e)
        if (times[e - 1] > times[e]) {
          ascend.store(false, std::memory_order_relaxed);
          break;
        }
    }
  });
  return ascend.load();
}

}  // namespace gz
