#include "column/topology.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/error.h"
#include "base/threads.h"
#include "memory/memory.h"
#include "read/check.h"

namespace gz {
namespace {

IdArray ids_of(const Mapping& m, const Section& s) {
  if (s.dtype == DType::kNone) return {};
  return {m.data() + s.offset, s.dtype == DType::kInt64};
}

}  // namespace

std::shared_ptr<Topology> Topology::open(const std::string& path, int opened) {
  auto mapping = open_checked(path, Kind::kTopology, opened);
  const Header& h = header_of(*mapping);
  auto t = std::make_shared<Topology>();
  t->num_nodes = h.topology.num_nodes;
  t->num_other = h.topology.num_other;
  t->num_edges = h.topology.num_edges;
  t->num_edge_ids = h.topology.num_edge_ids;
  t->direction = h.topology.direction;
  t->sorted = h.flags & kSortedLists;
  t->ids_are_in_rows = h.flags & kIdsAreInRows;
  t->indptr = reinterpret_cast<const uint64_t*>(mapping->data() + h.sections[kIndptr].offset);
  t->indices = ids_of(*mapping, h.sections[kIndices]);
  t->edge_ids = ids_of(*mapping, h.sections[kEdgeIds]);
  t->edge_positions = ids_of(*mapping, h.sections[kEdgePositions]);
  if (h.sections[kWeights].dtype != DType::kNone) {
    t->weights = reinterpret_cast<const float*>(mapping->data() + h.sections[kWeights].offset);
    t->alias = reinterpret_cast<const AliasEntry*>(mapping->data() + h.sections[kAlias].offset);
  }
  t->name = path;
  t->owner = mapping;
  t->mapping = mapping;
  if (t->indptr[0] != 0 || t->indptr[t->num_nodes] != t->num_edges)
    throw FormatError(path, "indptr does not run from 0 to the number of edges");
  t->residency = std::make_shared<Residency>(mapping);
  const Section &starts = h.sections[kIndptr], &lists = h.sections[kIndices];
  t->held = HeldCopy::of(mapping, starts.offset, lists.offset + lists.bytes - starts.offset);
  // Lists are short and far apart: read-ahead around them would only evict what is useful.
  for (size_t s : {size_t{kIndptr}, size_t{kIndices}, size_t{kEdgeIds}, size_t{kEdgePositions},
                   size_t{kWeights}, size_t{kAlias}})
    if (h.sections[s].bytes) mapping->advise(h.sections[s].offset, h.sections[s].bytes, Advice::kRandom);
  return t;
}

void Topology::use(std::shared_ptr<HotLists> lists) {
  hot = std::move(lists);
  if (residency && !edge_ids && !weights) residency->claim_no_pages();
}

void Topology::fetch_starts(const int64_t* nodes, size_t count) const {
  fetch_missing(count, [&](size_t i) { return std::pair(indptr + nodes[i], 2 * sizeof(uint64_t)); });
}

void Topology::fetch_lists(const int64_t* nodes, size_t count) const {
  if (!residency) return;
  fetch_starts(nodes, count);
  fetch_missing(count, [&](size_t i) {
    const Range r = edges_of(static_cast<uint64_t>(nodes[i]));
    return std::pair(indices.address(r.begin), r.size() * (indices.wide ? 8 : 4));
  });
}

void Topology::ids_at(const int64_t* positions, size_t count, int64_t* out) const {
  constexpr size_t kAhead = 32;
  const auto place = [&](size_t i) { return edge_ids.address(static_cast<uint64_t>(positions[i])); };
  if (cold(count, place)) fetch(count, place, edge_ids.wide ? 8 : 4);
  with_width(edge_ids, [&](const auto* ids) {
    parallel_for(count, 8192, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        if (i + kAhead < end) __builtin_prefetch(ids + positions[i + kAhead]);
        const uint64_t id = ids[positions[i]];
        if (id >= num_edge_ids) [[unlikely]]
          damaged_edge_id(static_cast<uint64_t>(positions[i]));
        out[i] = static_cast<int64_t>(id);
      }
    });
  });
}

void Topology::degrees(const int64_t* nodes, size_t count, int64_t* out) const {
  constexpr size_t kAhead = 16;
  check_ids(nodes, count, num_nodes, "node");
  if (cold(count, [&](size_t i) { return indptr + nodes[i]; })) {
    const PooledArray<int64_t> own = checked_copy(nodes, count, num_nodes, "node");
    fetch_starts(own.data(), count);
  }
  parallel_for(count, 4096, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) __builtin_prefetch(indptr + nodes[i + kAhead]);
      const int64_t node = checked_id(nodes, i, num_nodes, "node");
      out[i] = static_cast<int64_t>(edges_of(static_cast<uint64_t>(node)).size());
    }
  });
}

void Topology::list(int64_t node, PooledArray<int64_t>& neighbours, PooledArray<int64_t>& positions) const {
  check_ids(&node, 1, num_nodes, "node");
  const Range range = edges_of(static_cast<uint64_t>(node));
  neighbours.resize(range.size());
  positions.resize(range.size());
  for (uint64_t i = 0; i < range.size(); ++i) {
    if (indices[range.begin + i] >= num_other) damaged_index(range.begin + i);
    neighbours[i] = static_cast<int64_t>(indices[range.begin + i]);
    positions[i] = static_cast<int64_t>(range.begin + i);
  }
}

void Topology::lists(const int64_t* nodes, size_t count, PooledArray<int64_t>& begins,
                     PooledArray<char>& ids) const {
  const PooledArray<int64_t> own = checked_copy(nodes, count, num_nodes, "node");
  fetch_lists(own.data(), count);
  const size_t width = indices.wide ? 8 : 4;
  begins.resize(count);
  PooledArray<uint64_t> places(count + 1);  // entries before each list
  places[0] = 0;
  for (size_t i = 0; i < count; ++i) {
    const Range r = edges_of(static_cast<uint64_t>(own[i]));
    begins[i] = static_cast<int64_t>(r.begin);
    places[i + 1] = places[i] + r.size();
  }
  require_memory(places[count], width, "lists of these nodes");
  ids.resize(places[count] * width);
  parallel_for(count, 512, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i)
      std::memcpy(ids.data() + places[i] * width, indices.address(static_cast<uint64_t>(begins[i])),
                  (places[i + 1] - places[i]) * width);
  });
}

uint64_t Topology::max_degree() const {
  std::atomic<uint64_t> largest{0};
  parallel_for(num_nodes, 1 << 16, [&](size_t begin, size_t end) {
    uint64_t most = 0;
    for (uint64_t v = begin; v < end; ++v) most = std::max(most, edges_of(v).size());
    for (uint64_t seen = largest.load(); most > seen && !largest.compare_exchange_weak(seen, most);) {
    }
  });
  return largest.load();
}

void Topology::damaged_indptr(uint64_t v) const {
  throw FormatError(name, "indptr of node " + std::to_string(v) + " is damaged (" +
                              std::to_string(indptr[v]) + " to " + std::to_string(indptr[v + 1]) + " of " +
                              std::to_string(num_edges) + " edges); run `gz verify`");
}

void Topology::damaged_index(uint64_t position) const {
  throw FormatError(name, "the neighbour at position " + std::to_string(position) + " is node " +
                              std::to_string(indices[position]) + ", but there are " +
                              std::to_string(num_other) + "; run `gz verify`");
}

void Topology::damaged_edge_id(uint64_t position) const {
  throw FormatError(name, "the edge id at position " + std::to_string(position) + " is " +
                              std::to_string(edge_ids[position]) + ", but there are " +
                              std::to_string(num_edge_ids) + "; run `gz verify`");
}

void Topology::damaged_alias(uint64_t position) const {
  throw FormatError(name, "the alias entry at position " + std::to_string(position) + " points to slot " +
                              std::to_string(alias[position].partner) +
                              ", past the end of its list; run `gz verify`");
}

void Topology::damaged_weight(uint64_t position) const {
  throw FormatError(name, "the weight at position " + std::to_string(position) + " is " +
                              std::to_string(weights[position]) + "; run `gz verify`");
}

}  // namespace gz
