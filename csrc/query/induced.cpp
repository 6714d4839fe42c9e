#include "query/induced.h"

#include <algorithm>
#include <vector>

#include "base/threads.h"
#include "read/check.h"

namespace gz {
namespace {

constexpr size_t kChunk = 32;   // frontier nodes per task
constexpr size_t kBlock = 256;  // neighbours whose slots are in flight together

struct Found {
  std::vector<int64_t> neighbour, frontier, positions;
};

template <class Id>
void scan(const Topology& t, const Id* indices, const ChosenNodes& frontier, size_t i,
          const PlaceTable& table, Found& out) {
  const auto range = t.edges_of(static_cast<uint64_t>(frontier.ids[i]));
  const int64_t tree = frontier.batch ? frontier.batch[i] : 0;
  for (uint64_t at = range.begin; at < range.end; at += kBlock) {
    const uint64_t end = std::min<uint64_t>(range.end, at + kBlock);
    for (uint64_t e = at; e < end; ++e) table.prefetch(static_cast<int64_t>(indices[e]), tree);
    for (uint64_t e = at; e < end; ++e) {
      if (indices[e] >= t.num_other) [[unlikely]]
        t.damaged_index(e);
      const int64_t place = table.place(static_cast<int64_t>(indices[e]), tree);
      if (place < 0) continue;
      out.neighbour.push_back(place);
      out.frontier.push_back(static_cast<int64_t>(i));
      out.positions.push_back(static_cast<int64_t>(e));
    }
  }
}

}  // namespace

InducedEdges induced_edges(const Topology& topology, const ChosenNodes& near, const ChosenNodes& far) {
  const auto near_ids = checked_copy(near.ids, near.size, topology.num_nodes, "node");
  const auto far_ids = checked_copy(far.ids, far.size, topology.num_other, "node");
  const ChosenNodes frontier{near_ids.data(), near.batch, near.size};
  topology.fetch_lists(frontier.ids, frontier.size);
  const PlaceTable table({far_ids.data(), far.batch, far.size});
  const size_t chunks = (frontier.size + kChunk - 1) / kChunk;
  std::vector<Found> found(chunks);
  with_width(topology.indices, [&](const auto* indices) {
    parallel_for(chunks, 1, [&](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c)
        for (size_t i = c * kChunk; i < std::min(frontier.size, (c + 1) * kChunk); ++i)
          scan(topology, indices, frontier, i, table, found[c]);
    });
  });
  size_t total = 0;
  for (const Found& f : found) total += f.positions.size();
  InducedEdges out{PooledArray<int64_t>(total), PooledArray<int64_t>(total), PooledArray<int64_t>(total)};
  size_t at = 0;
  for (const Found& f : found) {
    std::copy(f.neighbour.begin(), f.neighbour.end(), out.neighbour.data() + at);
    std::copy(f.frontier.begin(), f.frontier.end(), out.frontier.data() + at);
    std::copy(f.positions.begin(), f.positions.end(), out.rows.data() + at);
    at += f.positions.size();
  }
  if (topology.ids_are_in_rows) topology.ids_at(out.rows.data(), total, out.rows.data());
  return out;
}

}  // namespace gz
