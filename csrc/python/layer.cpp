// One layer of sampling.
#include "sample/layer.h"

#include "python/bindings.h"

namespace gz {
namespace {

using BoundEdgeType = Bound<LayerEdgeType>;

// Ids are in 64 bits, or in 32 where those are asked for; rows always in 64, for they index columns.
struct PyLayerEdges {
  Field<> indptr, neighbour, frontier;
  Field<int64_t> rows;
  Field<> ids;
  Field<float> importance;
};

struct PyLayer {
  nb::typed<nb::list, Field<>> nodes;
  nb::typed<nb::list, PyLayerEdges> edges;
};

void init_edge_type(BoundEdgeType* self, TopologyPtr topology, size_t frontier_type, size_t neighbour_type,
                    int64_t fanout, TopologyPtr names, const std::optional<AnyColumn>& weights,
                    const std::optional<Ids>& exclude) {
  new (self) BoundEdgeType{
      {.type = {.topology = std::move(topology),
                .frontier_type = frontier_type,
                .neighbour_type = neighbour_type,
                .fanouts = {fanout},
                .ids = std::move(names),
                .columns = {.weights = column_from(weights, {DType::kFloat32, DType::kFloat64, DType::kUInt8},
                                                   "weights")}},
       .exclude = exclude ? exclude->data() : nullptr,
       .num_exclude = exclude ? exclude->shape(0) : 0}};
  self->keep(weights);
  self->keep(exclude);
}

std::vector<LayerSeeds> seeds_from(const std::vector<Ids>& seeds) {
  std::vector<LayerSeeds> out;
  for (const Ids& s : seeds) out.push_back({s.data(), s.shape(0)});
  return out;
}

Field<> narrowed_to_numpy(const PooledArray<int64_t>& ids) {
  PooledArray<int32_t> out = without_gil([&] { return narrowed(ids); });
  return nb::borrow<Field<>>(to_numpy(std::move(out)));
}

Field<> ids_to_numpy(PooledArray<int64_t>&& ids, bool narrow) {
  return narrow ? narrowed_to_numpy(ids) : nb::borrow<Field<>>(to_numpy(std::move(ids)));
}

PyLayerEdges edges_to_python(LayerEdges&& e, bool narrow) {
  PyLayerEdges out;
  out.indptr = ids_to_numpy(std::move(e.indptr), narrow);
  out.neighbour = ids_to_numpy(std::move(e.neighbour), narrow);
  out.frontier = ids_to_numpy(std::move(e.frontier), narrow);
  out.importance = to_numpy(std::move(e.importance));
  const bool named = e.ids.size() != 0;
  if (narrow)
    out.ids = narrowed_to_numpy(named ? e.ids : e.rows);
  else if (named)
    out.ids = ids_to_numpy(std::move(e.ids), false);
  out.rows = to_numpy(std::move(e.rows));
  if (!named && !narrow) out.ids = nb::borrow<Field<>>(out.rows);
  return out;
}

PyLayer layer_to_python(Layer&& layer, bool narrow) {
  PyLayer out;
  for (auto& n : layer.nodes) out.nodes.append(ids_to_numpy(std::move(n), narrow));
  for (auto& e : layer.edges) out.edges.append(edges_to_python(std::move(e), narrow));
  return out;
}

PyLayer sample_binding(const std::vector<uint64_t>& num_nodes, const std::vector<BoundEdgeType>& edge_types,
                       const std::vector<Ids>& seeds, bool replace, bool numbered, bool by_place,
                       uint64_t rng_seed, bool narrow) {
  const LayerOptions options{
      .replace = replace, .numbered = numbered, .by_place = by_place, .rng_seed = rng_seed};
  Layer layer = without_gil(
      [&] { return sample_layer(num_nodes, plain<LayerEdgeType>(edge_types), seeds_from(seeds), options); });
  return layer_to_python(std::move(layer), narrow);
}

PyLayer labor_binding(const std::vector<uint64_t>& num_nodes, const std::vector<BoundEdgeType>& edge_types,
                      const std::vector<Ids>& seeds, int importance, uint64_t random_seed,
                      uint64_t second_seed, double second_share, bool narrow) {
  const LaborOptions options{.importance = importance,
                             .random_seed = random_seed,
                             .second_seed = second_seed,
                             .second_share = second_share};
  Layer layer = without_gil(
      [&] { return labor_layer(num_nodes, plain<LayerEdgeType>(edge_types), seeds_from(seeds), options); });
  return layer_to_python(std::move(layer), narrow);
}

}  // namespace

void bind_layer(nb::module_& m) {
  nb::class_<BoundEdgeType>(
      m, "LayerEdgeType",
      "An edge type to sample a layer over: its topology, the numbers of the node types at its "
      "grouped end and at the other, neighbours per seed (-1: all). weights go by row of the "
      "edge columns; names: whose edge ids name the rows; exclude: ids of edges to leave out.")
      .def("__init__", &init_edge_type, "topology"_a, "frontier_type"_a, "neighbour_type"_a, "fanout"_a,
           "names"_a.none() = nb::none(), "weights"_a = nb::none(), "exclude"_a = nb::none())
      .def_prop_ro("frontier_type", [](const BoundEdgeType& e) { return e.type.frontier_type; })
      .def_prop_ro("neighbour_type", [](const BoundEdgeType& e) { return e.type.neighbour_type; })
      .def_prop_ro("fanout", [](const BoundEdgeType& e) { return e.fanout(); });
  nb::class_<PyLayerEdges>(
      m, "LayerEdges",
      "Edges of one type. Numbered: indptr groups them by seed, neighbour holds local ids; "
      "else neighbour and frontier hold global ids. rows: of the edge columns; ids: original "
      "ids, or the rows; importance: of LABOR, empty where all are 1.")
      .def_ro("indptr", &PyLayerEdges::indptr)
      .def_ro("neighbour", &PyLayerEdges::neighbour)
      .def_ro("frontier", &PyLayerEdges::frontier)
      .def_ro("rows", &PyLayerEdges::rows)
      .def_ro("ids", &PyLayerEdges::ids)
      .def_ro("importance", &PyLayerEdges::importance);
  nb::class_<PyLayer>(m, "Layer", "A layer: numbered, global node ids by node type; edges by edge type.")
      .def_ro("nodes", &PyLayer::nodes)
      .def_ro("edges", &PyLayer::edges);
  m.def("sample_layer", &sample_binding, "num_nodes"_a, "edge_types"_a, "seeds"_a, nb::kw_only(),
        "replace"_a = false, "numbered"_a = false, "by_place"_a = false, "rng_seed"_a = 0, "narrow"_a = false,
        "Expands every seed once. num_nodes, seeds: by node type. narrow: ids in 32 bits.");
  m.def("labor_layer", &labor_binding, "num_nodes"_a, "edge_types"_a, "seeds"_a, nb::kw_only(),
        "importance"_a, "random_seed"_a, "second_seed"_a, "second_share"_a, "narrow"_a = false,
        "A layer by LABOR, whose seeds share one random number per neighbour.");
}

}  // namespace gz
