// What only gz_dgl asks of the engine.
#include "bindings.h"
#include "edges.h"
#include "layer.h"

namespace gz {
namespace {

using Ids = Array1<int64_t>;
using Column1 = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using TopologyPtr = std::shared_ptr<Topology>;

Column weights_from(const std::optional<Column1>& a) {
  if (!a) return {};
  const auto type = a->dtype();
  DType dtype = DType::kNone;
  if (type == nb::dtype<float>()) dtype = DType::kFloat32;
  if (type == nb::dtype<double>()) dtype = DType::kFloat64;
  if (type == nb::dtype<uint8_t>() || type == nb::dtype<bool>()) dtype = DType::kUInt8;
  if (dtype == DType::kNone) throw std::invalid_argument("weights must be float32, float64, uint8 or bool");
  return {a->data(), dtype, a->shape(0)};
}

// (topology, frontier type, neighbour type, fanout, topology whose edge_ids translate rows, weights,
// excluded)
using EdgeTypeArgs = std::tuple<TopologyPtr, size_t, size_t, int64_t, std::optional<TopologyPtr>,
                                std::optional<Column1>, std::optional<Ids>>;

std::vector<LayerEdgeType> edge_types_from(const std::vector<EdgeTypeArgs>& args) {
  std::vector<LayerEdgeType> types;
  for (const auto& [topology, frontier, neighbour, fanout, ids, weights, exclude] : args)
    types.push_back({.topology = topology,
                     .frontier_type = frontier,
                     .neighbour_type = neighbour,
                     .fanout = fanout,
                     .row_ids = ids ? (*ids)->edge_ids : IdArray{},
                     .weights = weights_from(weights),
                     .exclude = exclude ? exclude->data() : nullptr,
                     .num_exclude = exclude ? exclude->shape(0) : 0});
  return types;
}

std::vector<LayerSeeds> seeds_from(const std::vector<Ids>& seeds) {
  std::vector<LayerSeeds> out;
  for (const Ids& s : seeds) out.push_back({s.data(), s.shape(0)});
  return out;
}

nb::object narrowed_to_numpy(const PooledArray<int64_t>& ids) {
  PooledArray<int32_t> out;
  {
    nb::gil_scoped_release release;
    out = narrowed(ids);
  }
  return nb::cast(to_numpy(std::move(out)));
}

// Ids leave in 64 bits, or in 32 where DGL wants those; rows always in 64, for they index columns.
nb::object ids_to_numpy(PooledArray<int64_t>&& ids, bool narrow) {
  return narrow ? narrowed_to_numpy(ids) : nb::cast(to_numpy(std::move(ids)));
}

nb::tuple layer_to_python(Layer&& layer, bool narrow) {
  nb::list nodes, edges;
  for (auto& n : layer.nodes) nodes.append(ids_to_numpy(std::move(n), narrow));
  for (auto& e : layer.edges) {
    nb::object ids = nb::none();
    if (e.ids.size())
      ids = ids_to_numpy(std::move(e.ids), narrow);
    else if (narrow)
      ids = narrowed_to_numpy(e.rows);
    nb::object rows = nb::cast(to_numpy(std::move(e.rows)));
    if (ids.is_none()) ids = rows;
    edges.append(nb::make_tuple(
        ids_to_numpy(std::move(e.indptr), narrow), ids_to_numpy(std::move(e.neighbour), narrow),
        ids_to_numpy(std::move(e.frontier), narrow), rows, ids, to_numpy(std::move(e.importance))));
  }
  return nb::make_tuple(nodes, edges);
}

nb::tuple sample_binding(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeTypeArgs>& edge_types,
                         const std::vector<Ids>& seeds, bool replace, bool numbered, bool by_place,
                         uint64_t rng_seed, bool narrow) {
  const auto types = edge_types_from(edge_types);
  const auto starts = seeds_from(seeds);
  Layer layer;
  {
    nb::gil_scoped_release release;
    layer =
        sample_layer(num_nodes, types, starts,
                     {.replace = replace, .numbered = numbered, .by_place = by_place, .rng_seed = rng_seed});
  }
  return layer_to_python(std::move(layer), narrow);
}

nb::tuple labor_binding(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeTypeArgs>& edge_types,
                        const std::vector<Ids>& seeds, int importance, uint64_t random_seed,
                        uint64_t second_seed, double second_share, bool narrow) {
  const auto types = edge_types_from(edge_types);
  const auto starts = seeds_from(seeds);
  Layer layer;
  {
    nb::gil_scoped_release release;
    layer = labor_layer(num_nodes, types, starts,
                        {.importance = importance,
                         .random_seed = random_seed,
                         .second_seed = second_seed,
                         .second_share = second_share});
  }
  return layer_to_python(std::move(layer), narrow);
}

nb::tuple locate_binding(const Topology& t, const Ids& positions) {
  PooledArray<int64_t> grouped(positions.shape(0)), neighbour(positions.shape(0));
  {
    nb::gil_scoped_release release;
    locate_edges(t, positions.data(), positions.shape(0), grouped.data(), neighbour.data());
  }
  return nb::make_tuple(to_numpy(std::move(grouped)), to_numpy(std::move(neighbour)));
}

NumpyArray<int64_t> match_binding(const Topology& t, const Ids& grouped, const Ids& neighbour) {
  if (grouped.shape(0) != neighbour.shape(0)) throw std::invalid_argument("the ends differ in length");
  PooledArray<int64_t> positions(grouped.shape(0));
  {
    nb::gil_scoped_release release;
    match_edges(t, grouped.data(), neighbour.data(), grouped.shape(0), positions.data());
  }
  return to_numpy(std::move(positions));
}

nb::list subgraph_binding(const std::vector<uint64_t>& num_nodes,
                          const std::vector<std::tuple<TopologyPtr, size_t, size_t>>& edge_types,
                          const std::vector<Ids>& nodes) {
  std::vector<SubgraphEdgeType> types;
  for (const auto& [topology, frontier, neighbour] : edge_types)
    types.push_back({topology, frontier, neighbour});
  std::vector<ChosenNodes> lists;
  for (const Ids& n : nodes) lists.push_back({n.data(), nullptr, n.shape(0)});
  std::vector<SubgraphEdges> result;
  {
    nb::gil_scoped_release release;
    result = subgraph_edges(num_nodes, types, lists);
  }
  nb::list out;
  for (auto& e : result)
    out.append(nb::make_tuple(to_numpy(std::move(e.frontier)), to_numpy(std::move(e.neighbour)),
                              to_numpy(std::move(e.positions))));
  return out;
}

}  // namespace

void bind_dgl(nb::module_& m) {
  m.def("sample_layer", &sample_binding, nb::arg("num_nodes"), nb::arg("edge_types"), nb::arg("seeds"),
        nb::arg("replace"), nb::arg("numbered"), nb::arg("by_place"), nb::arg("rng_seed"),
        nb::arg("narrow") = false);
  m.def("labor_layer", &labor_binding, nb::arg("num_nodes"), nb::arg("edge_types"), nb::arg("seeds"),
        nb::arg("importance"), nb::arg("random_seed"), nb::arg("second_seed"), nb::arg("second_share"),
        nb::arg("narrow") = false);
  m.def("locate_edges", &locate_binding, nb::arg("topology"), nb::arg("positions"));
  m.def("match_edges", &match_binding, nb::arg("topology"), nb::arg("grouped"), nb::arg("neighbour"));
  m.def("invert", &invert, nb::arg("topology"), nb::call_guard<nb::gil_scoped_release>());
  m.def("subgraph_edges", &subgraph_binding, nb::arg("num_nodes"), nb::arg("edge_types"), nb::arg("nodes"));
}

}  // namespace gz
