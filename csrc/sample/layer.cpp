#include "sample/layer.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <unordered_set>

#include "base/rng.h"
#include "base/threads.h"
#include "read/check.h"
#include "sample/node_table.h"

namespace gz {
namespace {

constexpr size_t kGrain = 8192;

template <class T>
void keep_only(PooledArray<T>& array, const std::vector<size_t>& kept) {
  if (array.size() == 0) return;
  for (size_t i = 0; i < kept.size(); ++i) array[i] = array[kept[i]];
  array.resize(kept.size());
}

// owners ascends: where each owner's edges begin.
void group_by_owner(const PooledArray<int64_t>& owners, size_t num_owners, PooledArray<int64_t>& indptr) {
  indptr.resize(num_owners + 1);
  const size_t n = owners.size();
  parallel_for(n, kGrain, [&](size_t begin, size_t end) {
    for (size_t e = begin; e < end; ++e) {
      const int64_t before = e ? owners[e - 1] : -1;
      for (int64_t i = before + 1; i <= owners[e]; ++i)
        indptr[static_cast<size_t>(i)] = static_cast<int64_t>(e);
    }
  });
  for (size_t i = n ? static_cast<size_t>(owners[n - 1]) + 1 : 0; i <= num_owners; ++i)
    indptr[i] = static_cast<int64_t>(n);
}

// Numbers the nodes of one type: the seeds by their place (a seed given twice keeps both places, edges lead
// from the first), then what comes in.
template <class Key>
class Numbering {
 public:
  Numbering(const LayerSeeds& seeds, PooledArray<int64_t>& nodes) : nodes_(nodes) {
    nodes_.resize(seeds.size);
    std::copy(seeds.nodes, seeds.nodes + seeds.size, nodes_.begin());
    if (seeds.size == 0) return;
    Distinct places{seeds.nodes};
    table_.number(seeds.size, 0, false, places);
    if (places.count == seeds.size) return;
    table_ = NodeTable<Key>();
    for (size_t i = 0; i < seeds.size; ++i)
      table_.insert_one(static_cast<Key>(seeds.nodes[i]), static_cast<uint32_t>(i));
  }

  void number(PooledArray<int64_t>& ids, bool last) {
    if (ids.size() == 0) return;
    table_.number(ids.size(), static_cast<uint32_t>(nodes_.size()), last,
                  IdsToNumber<Key>{ids.data(), nodes_});
  }

 private:
  // Seeds that are numbered by their places, which is right where none is given twice.
  struct Distinct {
    const int64_t* nodes;
    size_t count = 0;

    Key key(size_t i) const { return static_cast<Key>(nodes[i]); }
    void allocate(size_t distinct) { count = distinct; }
    void append(uint32_t, size_t) const {}
    void number(size_t, uint32_t) const {}
    uint32_t number_of(size_t i) const { return static_cast<uint32_t>(i); }
  };

  PooledArray<int64_t>& nodes_;
  NodeTable<Key> table_;
};

template <class Key>
void number_type(size_t type, const LayerSeeds& seeds, const std::vector<LayerEdgeType>& edge_types,
                 Layer& layer) {
  size_t last = edge_types.size();
  for (size_t e = 0; e < edge_types.size(); ++e)
    if (edge_types[e].type.neighbour_type == type && layer.edges[e].neighbour.size()) last = e;
  Numbering<Key> numbering(seeds, layer.nodes[type]);
  for (size_t e = 0; e < edge_types.size(); ++e)
    if (edge_types[e].type.neighbour_type == type) numbering.number(layer.edges[e].neighbour, e == last);
}

}  // namespace

OwnSeeds check_layer(const std::vector<uint64_t>& num_nodes, const std::vector<LayerEdgeType>& edge_types,
                     const std::vector<LayerSeeds>& seeds) {
  if (seeds.size() != num_nodes.size())
    throw std::invalid_argument("seeds must be given for every node type, empty where there are none");
  OwnSeeds own;
  for (size_t t = 0; t < seeds.size(); ++t) {
    own.ids.push_back(checked_copy(seeds[t].nodes, seeds[t].size, num_nodes[t], "seed"));
    own.seeds.push_back({own.ids[t].data(), own.ids[t].size()});
  }
  for (const LayerEdgeType& e : edge_types) check_edge_types(num_nodes, {e.type}, 1);
  return own;
}

PooledArray<int32_t> narrowed(const PooledArray<int64_t>& ids) {
  PooledArray<int32_t> out(ids.size());
  parallel_for(ids.size(), kGrain * 4, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) out[i] = static_cast<int32_t>(ids[i]);
  });
  return out;
}

void take_out_excluded(const LayerEdgeType& type, LayerEdges& edges) {
  if (type.num_exclude == 0) return;
  const std::unordered_set<int64_t> excluded(type.exclude, type.exclude + type.num_exclude);
  const auto& ids = edges.ids.size() ? edges.ids : edges.rows;
  std::vector<size_t> kept;
  kept.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i)
    if (!excluded.contains(ids[i])) kept.push_back(i);
  if (kept.size() == ids.size()) return;
  keep_only(edges.neighbour, kept);
  keep_only(edges.frontier, kept);
  keep_only(edges.importance, kept);
  keep_only(edges.ids, kept);
  keep_only(edges.rows, kept);
}

Layer sample_layer(const std::vector<uint64_t>& num_nodes, const std::vector<LayerEdgeType>& edge_types,
                   const std::vector<LayerSeeds>& given, const LayerOptions& options) {
  const OwnSeeds own = check_layer(num_nodes, edge_types, given);
  const std::vector<LayerSeeds>& seeds = own.seeds;
  Layer layer;
  layer.edges.resize(edge_types.size());
  PooledArray<int64_t> places;
  if (options.by_place) {
    size_t most = 0;
    for (const auto& s : seeds) most = std::max(most, s.size);
    places.resize(most);
    std::iota(places.begin(), places.end(), int64_t{0});
  }
  for (size_t e = 0; e < edge_types.size(); ++e) {
    const LayerEdgeType& type = edge_types[e];
    const LayerSeeds& from = seeds[type.type.frontier_type];
    LayerEdges& out = layer.edges[e];
    // All edges of weight above 0: a fanout no list can exceed makes the weighted pick take just those.
    const bool all_weighted = type.type.columns.weights && type.fanout() < 0;
    const PickOptions pick_options{
        .fanout = all_weighted ? std::numeric_limits<int64_t>::max() : type.fanout(),
        .replace = options.replace && type.fanout() >= 0,
        .stream = fold(fold(0, options.rng_seed), e),
        .most = options.numbered ? NodeTable<uint64_t>::kMost : UINT64_MAX,
    };
    const Frontier frontier{
        .nodes = from.nodes, .size = from.size, .batch = options.by_place ? places.data() : nullptr};
    expand(type.type, frontier, 0, pick_options, true, out);
    take_out_excluded(type, out);
    if (options.numbered) {
      group_by_owner(out.frontier, from.size, out.indptr);
    } else {
      parallel_for(out.frontier.size(), kGrain, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) out.frontier[i] = from.nodes[out.frontier[i]];
      });
    }
  }
  if (!options.numbered) return layer;
  layer.nodes.resize(num_nodes.size());
  for (size_t t = 0; t < num_nodes.size(); ++t)
    fits_32_bits(num_nodes[t]) ? number_type<uint32_t>(t, seeds[t], edge_types, layer)
                               : number_type<uint64_t>(t, seeds[t], edge_types, layer);
  return layer;
}

}  // namespace gz
