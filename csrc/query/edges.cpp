#include "query/edges.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "base/threads.h"
#include "read/check.h"

namespace gz {
namespace {

template <class Id>
int64_t find_in_list(const Topology& t, const Id* indices, Topology::Range range, uint64_t wanted) {
  const Id *begin = indices + range.begin, *end = indices + range.end;
  const Id* at = t.sorted ? std::lower_bound(begin, end, static_cast<Id>(wanted))
                          : std::find(begin, end, static_cast<Id>(wanted));
  return at != end && *at == wanted ? at - indices : -1;
}

// Whether locate_edges() would wait for the disk: at the edges, or somewhere in the starts of lists.
bool ends_are_cold(const Topology& t, const int64_t* positions, size_t count) {
  constexpr size_t kStarts = 32;
  return t.cold(count, [&](size_t i) { return t.indices.address(static_cast<uint64_t>(positions[i])); }) ||
         t.cold(kStarts, [&](size_t i) { return t.indptr + t.num_nodes / kStarts * i; });
}

// Brings in what locate_edges() reads. The searches of all edges are made step by step, as std::upper_bound
// makes each, so that the reads of a step are made together.
void fetch_ends(const Topology& t, const PooledArray<int64_t>& positions) {
  struct Search {
    uint64_t begin, left;
  };
  const size_t count = positions.size(), width = t.indices.wide ? 8 : 4;
  t.fetch_missing(count, [&](size_t i) {
    return std::pair(t.indices.address(static_cast<uint64_t>(positions[i])), width);
  });
  PooledArray<Search> searches(count);
  std::fill(searches.begin(), searches.end(), Search{0, t.num_nodes + 1});
  for (bool going = true; going; poll()) {
    const auto middle = [&](size_t i) {
      const Search& s = searches[i];
      return t.indptr + std::min(s.begin + s.left / 2, t.num_nodes);
    };
    t.fetch_missing(count, [&](size_t i) { return std::pair(middle(i), sizeof(uint64_t)); });
    going = false;
    for (size_t i = 0; i < count; ++i) {
      Search& s = searches[i];
      if (s.left == 0) continue;
      const uint64_t half = s.left / 2;
      if (*middle(i) <= static_cast<uint64_t>(positions[i]))
        s = {s.begin + half + 1, s.left - half - 1};
      else
        s.left = half;
      going |= s.left > 0;
    }
  }
}

}  // namespace

void locate_edges(const Topology& t, const int64_t* positions, size_t count, int64_t* grouped,
                  int64_t* neighbour) {
  check_ids(positions, count, t.num_edges, "edge");
  if (ends_are_cold(t, positions, count)) fetch_ends(t, checked_copy(positions, count, t.num_edges, "edge"));
  parallel_for(count, 256, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const auto p = static_cast<uint64_t>(checked_id(positions, i, t.num_edges, "edge"));
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
  if (t.residency) t.fetch_lists(checked_copy(grouped, count, t.num_nodes, "node").data(), count);
  with_width(t.indices, [&](const auto* indices) {
    parallel_for(count, 256, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        const int64_t node = checked_id(grouped, i, t.num_nodes, "node");
        const int64_t other = checked_id(neighbour, i, t.num_other, "node");
        positions[i] =
            find_in_list(t, indices, t.edges_of(static_cast<uint64_t>(node)), static_cast<uint64_t>(other));
      }
    });
  });
}

namespace {

void fetch_lists(const Topology& t, const ChosenNodes& nodes) {
  PooledArray<int64_t> known(nodes.size);
  size_t n = 0;
  for (size_t i = 0; i < nodes.size; ++i)
    if (static_cast<uint64_t>(nodes.ids[i]) < t.num_nodes) known[n++] = nodes.ids[i];
  t.fetch_lists(known.data(), n);
}

}  // namespace

std::vector<SubgraphEdges> subgraph_edges(const std::vector<uint64_t>& num_nodes,
                                          const std::vector<SubgraphEdgeType>& edge_types,
                                          const std::vector<ChosenNodes>& given) {
  constexpr size_t kChunk = 64;
  if (given.size() != num_nodes.size())
    throw std::invalid_argument("nodes must be given for every node type, empty where there are none");
  std::vector<PooledArray<int64_t>> copies;
  std::vector<ChosenNodes> nodes;
  std::vector<PlaceTable> places;
  places.reserve(given.size());
  for (size_t t = 0; t < given.size(); ++t) {
    copies.push_back(checked_copy(given[t].ids, given[t].size, num_nodes[t], "node"));
    nodes.push_back({copies[t].data(), nullptr, copies[t].size()});
    places.emplace_back(nodes[t]);
  }
  std::vector<SubgraphEdges> result(edge_types.size());
  for (size_t e = 0; e < edge_types.size(); ++e) {
    const SubgraphEdgeType& type = edge_types[e];
    const Topology& t = *type.topology;
    if (type.frontier_type >= nodes.size() || type.neighbour_type >= nodes.size())
      throw std::invalid_argument("an edge type names a node type that is not there");
    const ChosenNodes& list = nodes[type.frontier_type];
    fetch_lists(t, list);
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
            if (t.indices[p] >= t.num_other) [[unlikely]]
              t.damaged_index(p);
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
