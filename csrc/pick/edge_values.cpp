#include "pick/edge_values.h"

#include <algorithm>

#include "base/threads.h"

namespace gz {
namespace {

// Edges whose values are fetched together: as many reads as keep a deep queue busy. Where each may lie on a
// page of its own this is 256 MiB, and where they lie side by side it is 4 or 8.
constexpr size_t kScattered = 1 << 16, kTogether = 1 << 20;

}  // namespace

void EdgeValues::fetch(const int64_t* positions, size_t count) const {
  if (!direct()) {
    const IdArray& ids = go_by();
    t_.fetch_missing(count, [&](size_t i) {
      return std::pair(ids.address(static_cast<uint64_t>(positions[i])), size_t{ids.wide ? 8u : 4u});
    });
  }
  column_.fetch_missing(count, [&](size_t i) { return place(static_cast<uint64_t>(positions[i])); });
}

PickedBy::PickedBy(const Topology& t, const EdgeColumns& columns, bool temporal) {
  if (columns.weights) values_.emplace_back(t, columns.weights, EdgeValues::By::kRow);
  if (!temporal) return;
  if (columns.edge_time)
    values_.emplace_back(t, columns.edge_time, EdgeValues::By::kRow);
  else if (columns.node_time)
    values_.emplace_back(t, columns.node_time, EdgeValues::By::kNeighbour);
}

void PickedBy::fetch(const int64_t* positions, size_t count) const {
  for (const EdgeValues& v : values_) v.fetch(positions, count);
}

void PickedBy::fetch_lists(const Topology::Range* lists, size_t count) const {
  const bool scattered = std::any_of(values_.begin(), values_.end(), [](auto& v) { return v.scattered(); });
  const size_t most = scattered ? kScattered : kTogether;
  PooledArray<int64_t> positions(most);
  size_t n = 0;
  const auto flush = [&] {
    fetch(positions.data(), n);
    n = 0;
    poll();
  };
  for (size_t i = 0; i < count; ++i)
    for (uint64_t p = lists[i].begin; p < lists[i].end; ++p) {
      positions[n++] = static_cast<int64_t>(p);
      if (n == most) flush();
    }
  if (n) flush();
}

}  // namespace gz
