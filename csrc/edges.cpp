#include "edges.h"

#include <algorithm>
#include <stdexcept>

#include "check.h"
#include "threads.h"

namespace gz {
namespace {

template <class Id>
int64_t find_in_list(const Topology& t, const Id* indices, Topology::Range range, uint64_t wanted) {
  const Id *begin = indices + range.begin, *end = indices + range.end;
  const Id* at = t.sorted ? std::lower_bound(begin, end, static_cast<Id>(wanted))
                          : std::find(begin, end, static_cast<Id>(wanted));
  return at != end && *at == wanted ? at - indices : -1;
}

}  // namespace

void locate_edges(const Topology& t, const int64_t* positions, size_t count, int64_t* grouped,
                  int64_t* neighbour) {
  check_ids(positions, count, t.num_edges, "edge");
  parallel_for(count, 256, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const auto p = static_cast<uint64_t>(positions[i]);
      const uint64_t* after = std::upper_bound(t.indptr, t.indptr + t.num_nodes + 1, p);
      if (after == t.indptr || after > t.indptr + t.num_nodes) t.damaged_indptr(0);
      const uint64_t other = t.indices[p];
      if (other >= t.num_other) t.damaged_index(p);
      grouped[i] = after - t.indptr - 1;
      neighbour[i] = static_cast<int64_t>(other);
    }
  });
}

void match_edges(const Topology& t, const int64_t* grouped, const int64_t* neighbour, size_t count,
                 int64_t* positions) {
  check_ids(grouped, count, t.num_nodes, "node");
  check_ids(neighbour, count, t.num_other, "node");
  with_width(t.indices, [&](const auto* indices) {
    parallel_for(count, 256, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i)
        positions[i] = find_in_list(t, indices, t.edges_of(static_cast<uint64_t>(grouped[i])),
                                    static_cast<uint64_t>(neighbour[i]));
    });
  });
}

std::shared_ptr<Topology> invert(const Topology& in) {
  struct Arrays {
    std::vector<uint64_t> indptr, wide_indices, wide_rows;
    std::vector<uint32_t> indices, rows;
  };
  auto a = std::make_shared<Arrays>();
  const bool wide_ids = !fits_32_bits(in.num_nodes), wide_rows = !fits_32_bits(in.num_edges);
  wide_ids ? a->wide_indices.resize(in.num_edges) : a->indices.resize(in.num_edges);
  wide_rows ? a->wide_rows.resize(in.num_edges) : a->rows.resize(in.num_edges);
  a->indptr.assign(in.num_other + 2, 0);  // one more: counts are shifted twice, so that filling sets the ends
  for (uint64_t p = 0; p < in.num_edges; ++p) {
    if (in.indices[p] >= in.num_other) in.damaged_index(p);
    ++a->indptr[in.indices[p] + 2];
  }
  for (uint64_t v = 0; v < in.num_other; ++v) a->indptr[v + 2] += a->indptr[v + 1];
  for (uint64_t v = 0; v < in.num_nodes; ++v) {
    const auto range = in.edges_of(v);
    for (uint64_t p = range.begin; p < range.end; ++p) {
      const uint64_t at = a->indptr[in.indices[p] + 1]++;
      wide_ids ? void(a->wide_indices[at] = v) : void(a->indices[at] = static_cast<uint32_t>(v));
      wide_rows ? void(a->wide_rows[at] = p) : void(a->rows[at] = static_cast<uint32_t>(p));
    }
  }
  auto t = std::make_shared<Topology>();
  t->num_nodes = in.num_other;
  t->num_other = in.num_nodes;
  t->num_edges = t->num_edge_ids = in.num_edges;
  t->direction = in.direction == Direction::kIn ? Direction::kOut : Direction::kIn;
  t->sorted = true;
  t->ids_are_in_rows = true;
  t->indptr = a->indptr.data();
  t->indices = wide_ids ? IdArray{a->wide_indices.data(), true} : IdArray{a->indices.data(), false};
  t->edge_ids = wide_rows ? IdArray{a->wide_rows.data(), true} : IdArray{a->rows.data(), false};
  t->name = in.name + " (inverted)";
  t->owner = a;
  return t;
}

std::vector<SubgraphEdges> subgraph_edges(const std::vector<uint64_t>& num_nodes,
                                          const std::vector<SubgraphEdgeType>& edge_types,
                                          const std::vector<ChosenNodes>& nodes) {
  constexpr size_t kChunk = 64;
  if (nodes.size() != num_nodes.size())
    throw std::invalid_argument("nodes must be given for every node type, empty where there are none");
  std::vector<PlaceTable> places;
  places.reserve(nodes.size());
  for (size_t t = 0; t < nodes.size(); ++t) {
    check_ids(nodes[t].ids, nodes[t].size, num_nodes[t], "node");
    places.emplace_back(nodes[t]);
  }
  std::vector<SubgraphEdges> result(edge_types.size());
  for (size_t e = 0; e < edge_types.size(); ++e) {
    const SubgraphEdgeType& type = edge_types[e];
    const Topology& t = *type.topology;
    const ChosenNodes& list = nodes[type.frontier_type];
    const PlaceTable& own = places[type.frontier_type];
    const PlaceTable& other = places[type.neighbour_type];
    const size_t chunks = (list.size + kChunk - 1) / kChunk;
    struct Found {
      int64_t frontier, neighbour, position;
    };
    std::vector<std::vector<Found>> found(chunks);
    parallel_for(chunks, 1, [&](size_t begin, size_t end) {
      for (size_t c = begin; c < end; ++c)
        for (size_t i = c * kChunk; i < std::min(list.size, (c + 1) * kChunk); ++i) {
          if (own.place(list.ids[i]) != static_cast<int64_t>(i)) continue;  // given before
          if (static_cast<uint64_t>(list.ids[i]) >= t.num_nodes) continue;
          const auto range = t.edges_of(static_cast<uint64_t>(list.ids[i]));
          for (uint64_t p = range.begin; p < range.end; ++p) {
            const int64_t place = other.place(static_cast<int64_t>(t.indices[p]));
            if (place >= 0) found[c].push_back({static_cast<int64_t>(i), place, static_cast<int64_t>(p)});
          }
        }
    });
    size_t total = 0;
    for (const auto& f : found) total += f.size();
    SubgraphEdges& out = result[e];
    out.frontier.resize(total);
    out.neighbour.resize(total);
    out.positions.resize(total);
    size_t at = 0;
    for (const auto& chunk : found)
      for (const Found& f : chunk) {
        out.frontier[at] = f.frontier;
        out.neighbour[at] = f.neighbour;
        out.positions[at++] = f.position;
      }
  }
  return result;
}

}  // namespace gz
