#include "pick/scan_fetch.h"

#include <algorithm>

#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kAtOnce = 1 << 16;  // edges that are looked at, or lists that are searched

uint64_t middle(const Topology::Range& list) {
  return list.begin + list.size() / 2;
}

}  // namespace

ScanFetch::ScanFetch(const ScanRequest& r)
    : r_(r), times_(r.topology, r.columns), by_(r.topology, r.columns, r.temporal()) {
  const Topology& t = r.topology;
  t.fetch_starts(r.frontier.nodes, r.frontier.size);
  cold_ = t.num_edges && by_.cold(r.frontier.size, [&](size_t i) {
    const auto list = t.edges_of(static_cast<uint64_t>(r.frontier.nodes[i]));
    return std::min(r.searches() ? middle(list) : list.begin, t.num_edges - 1);
  });
}

size_t ScanFetch::bring_in(size_t from, size_t unit) {
  const Frontier& f = r_.frontier;
  if (!cold_) return f.size;
  lists_.clear();
  nows_.clear();
  size_t to = from;
  for (uint64_t edges = 0; to < f.size && edges < kAtOnce;)
    for (const size_t end = std::min(f.size, to + unit); to < end; ++to) {
      lists_.push_back(r_.topology.edges_of(static_cast<uint64_t>(f.nodes[to])));
      edges += r_.searches() ? 1 : lists_.back().size() + 1;
    }
  if (!r_.searches()) {
    by_.fetch_lists(lists_.data(), lists_.size());
    return to;
  }
  for (size_t i = from; i < to; ++i) nows_.push_back(f.seed_time[f.batch[i]]);
  fetch_searched();
  return to;
}

// The searches of all lists step by step, as EdgeTimes::search() makes them, so that the reads of a step are
// made together.
void ScanFetch::fetch_searched() {
  PooledArray<int64_t> at(lists_.size());
  for (size_t going = lists_.size();;) {
    for (size_t i = 0; i < going;) {
      if (lists_[i].size() == 0) {
        --going;
        lists_[i] = lists_[going];
        nows_[i] = nows_[going];
        continue;
      }
      at[i] = static_cast<int64_t>(middle(lists_[i]));
      ++i;
    }
    if (going == 0) return;
    by_.fetch(at.data(), going);
    for (size_t i = 0; i < going; ++i) {
      const auto here = static_cast<uint64_t>(at[i]);
      if (times_[here] <= nows_[i])
        lists_[i].begin = here + 1;
      else
        lists_[i].end = here;
    }
    poll();
  }
}

}  // namespace gz
