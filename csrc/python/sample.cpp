// Neighbourhoods, walks and negatives.
#include "pick/times.h"
#include "python/bindings.h"
#include "sample/hgt.h"
#include "sample/labor.h"
#include "sample/negatives.h"
#include "sample/sampler.h"
#include "walk/walker.h"

namespace gz {
namespace {

using OptionalColumn = std::optional<AnyColumn>;
using OptionalIds = std::optional<Ids>;
using BoundEdgeType = Bound<EdgeType>;
using Seeds = Bound<SampleSeeds>;

struct PySampledNodes {
  Field<int64_t> ids;
  std::optional<Field<int64_t>> batch;
  std::vector<int64_t> per_hop;
};

struct PySampledEdges {
  Field<int64_t> neighbour, frontier, rows;
  std::optional<Field<int64_t>> ids;
  std::vector<int64_t> per_hop;
};

struct PySample {
  nb::typed<nb::list, PySampledNodes> nodes;
  nb::typed<nb::list, PySampledEdges> edges;
};

struct PyLaborSample {
  PySample sample;
  nb::typed<nb::list, Field<float>> importance;
};

struct PyHgtSample {
  nb::typed<nb::list, Field<int64_t>> nodes;
  nb::typed<nb::list, PyInducedEdges> edges;
};

void init_edge_type(BoundEdgeType* self, TopologyPtr topology, size_t frontier_type, size_t neighbour_type,
                    std::vector<int64_t> fanouts, TopologyPtr names, const OptionalColumn& weights,
                    const OptionalColumn& edge_time, const OptionalColumn& node_time) {
  BoundEdgeType type{
      {.topology = std::move(topology),
       .frontier_type = frontier_type,
       .neighbour_type = neighbour_type,
       .fanouts = std::move(fanouts),
       .ids = std::move(names),
       .columns = {.weights = column_from(weights, {DType::kFloat32, DType::kFloat64}, "weights"),
                   .edge_time = column_from(edge_time, {DType::kInt32, DType::kInt64}, "edge times"),
                   .node_time = column_from(node_time, {DType::kInt32, DType::kInt64}, "node times")}}};
  for (const auto* array : {&weights, &edge_time, &node_time}) type.keep(*array);
  EdgeColumns& columns = type.columns;
  if (columns.edge_time || columns.node_time) {
    check_columns(type);
    columns.ascending = without_gil([&] { return lists_ascend(*type.topology, columns); });
  }
  new (self) BoundEdgeType(std::move(type));
}

void init_seeds(Seeds* self, size_t type, const Ids& nodes, const OptionalIds& times) {
  if (times && times->shape(0) != nodes.shape(0))
    throw std::invalid_argument("there are " + std::to_string(nodes.shape(0)) + " seeds but " +
                                std::to_string(times->shape(0)) + " seed times");
  new (self) Seeds{{type, nodes.data(), nodes.shape(0), times ? times->data() : nullptr}};
  self->keep(OptionalIds(nodes));
  self->keep(times);
}

PySample to_python(Sample&& result, const std::vector<EdgeType>& types, bool disjoint, bool edge_ids) {
  PySample out;
  for (auto& n : result.nodes) {
    PySampledNodes nodes{to_numpy(std::move(n.ids)), {}, std::move(n.per_hop)};
    if (disjoint) nodes.batch = to_numpy(std::move(n.batch));
    out.nodes.append(std::move(nodes));
  }
  for (size_t e = 0; e < result.edges.size(); ++e) {
    SampledEdges& s = result.edges[e];
    PySampledEdges edges{to_numpy(std::move(s.neighbour)),
                         to_numpy(std::move(s.frontier)),
                         to_numpy(std::move(s.rows)),
                         {},
                         std::move(s.per_hop)};
    if (edge_ids && types[e].ids) edges.ids = to_numpy(std::move(s.ids));
    out.edges.append(std::move(edges));
  }
  return out;
}

PySample sample_binding(const std::vector<uint64_t>& num_nodes, const std::vector<BoundEdgeType>& edge_types,
                        const std::vector<Seeds>& seeds, bool replace, bool disjoint, bool last,
                        uint64_t rng_seed, bool edge_ids) {
  const auto types = plain<EdgeType>(edge_types);
  const SampleOptions options{.replace = replace,
                              .disjoint = disjoint,
                              .strategy = last ? TemporalStrategy::kLast : TemporalStrategy::kUniform,
                              .rng_seed = rng_seed,
                              .want_edge_ids = edge_ids};
  return to_python(without_gil([&] { return sample(num_nodes, types, plain<SampleSeeds>(seeds), options); }),
                   types, disjoint, edge_ids);
}

PyLaborSample labor_binding(const std::vector<uint64_t>& num_nodes,
                            const std::vector<BoundEdgeType>& edge_types, const std::vector<Seeds>& seeds,
                            bool layer_dependency, uint64_t random_seed, uint64_t second_seed,
                            double second_share, bool edge_ids) {
  const auto types = plain<EdgeType>(edge_types);
  const LaborHops options{.layer_dependency = layer_dependency,
                          .random_seed = random_seed,
                          .second_seed = second_seed,
                          .second_share = second_share,
                          .want_edge_ids = edge_ids};
  LaborSample result =
      without_gil([&] { return labor_sample(num_nodes, types, plain<SampleSeeds>(seeds), options); });
  PyLaborSample out;
  for (auto& i : result.importance) out.importance.append(to_numpy(std::move(i)));
  out.sample = to_python(std::move(result), types, false, edge_ids);
  return out;
}

PyHgtSample hgt_binding(const std::vector<uint64_t>& num_nodes, const std::vector<BoundEdgeType>& edge_types,
                        const std::vector<Seeds>& seeds, const std::vector<std::vector<int64_t>>& num_samples,
                        int64_t most_neighbours, uint64_t rng_seed) {
  const HgtOptions options{.most_neighbours = most_neighbours, .rng_seed = rng_seed};
  HgtSample result = without_gil([&] {
    return hgt_sample(num_nodes, plain<EdgeType>(edge_types), plain<SampleSeeds>(seeds), num_samples,
                      options);
  });
  PyHgtSample out;
  for (auto& ids : result.nodes) out.nodes.append(to_numpy(std::move(ids)));
  for (auto& edges : result.edges) out.edges.append(to_python(std::move(edges)));
  return out;
}

void bind_hgt(nb::module_& m) {
  nb::class_<PyHgtSample>(m, "HgtSample",
                          "A sample by budget: global node ids by node type, seeds first, then as drawn; all "
                          "edges among them by edge type.")
      .def_ro("nodes", &PyHgtSample::nodes)
      .def_ro("edges", &PyHgtSample::edges);
  m.def("hgt_sample", &hgt_binding, "num_nodes"_a, "edge_types"_a, "seeds"_a, "num_samples"_a, nb::kw_only(),
        "most_neighbours"_a = HgtOptions().most_neighbours, "rng_seed"_a = 0,
        "Draws nodes of every type hop by hop, more likely those that lead to many sampled ones. num_nodes, "
        "num_samples (per hop): by node type; edge types have no fanouts. most_neighbours: of a node, along "
        "an edge type, that count.");
}

void bind_neighbourhoods(nb::module_& m) {
  nb::class_<BoundEdgeType>(
      m, "SampleEdgeType",
      "An edge type to sample over: its topology, the numbers of the node types at its grouped "
      "end and at the other, neighbours per hop (-1: all). weights and edge_time go by row of "
      "the edge columns, node_time by neighbour; names: whose edge ids name the rows. Looks "
      "through times once: lists that ascend by them are searched, and may not change after that.")
      .def("__init__", &init_edge_type, "topology"_a, "frontier_type"_a, "neighbour_type"_a, "fanouts"_a,
           "names"_a.none() = nb::none(), "weights"_a = nb::none(), "edge_time"_a = nb::none(),
           "node_time"_a = nb::none())
      .def_ro("frontier_type", &BoundEdgeType::frontier_type)
      .def_ro("neighbour_type", &BoundEdgeType::neighbour_type)
      .def_ro("fanouts", &BoundEdgeType::fanouts)
      .def_prop_ro(
          "ascending", [](const BoundEdgeType& e) { return e.columns.ascending; },
          "Every list ascends by time.");
  nb::class_<Seeds>(m, "SampleSeeds", "Where a sample starts: nodes of one type, each with a time or none.")
      .def("__init__", &init_seeds, "type"_a, "nodes"_a, "times"_a = nb::none())
      .def_ro("type", &Seeds::type)
      .def("__len__", [](const Seeds& s) { return s.size; });
  nb::class_<PySampledNodes>(
      m, "SampledNodes",
      "Nodes of one type. ids: global ids, seeds first, then in the order first seen; "
      "batch: of a disjoint sample, the seed each belongs to; per_hop: how many, seeds first.")
      .def_ro("ids", &PySampledNodes::ids)
      .def_ro("batch", &PySampledNodes::batch)
      .def_ro("per_hop", &PySampledNodes::per_hop);
  nb::class_<PySampledEdges>(
      m, "SampledEdges",
      "Edges of one type, by hop. neighbour, frontier: local ids of their ends; rows: of the "
      "edge columns; ids: original ids, None where they are the rows or not asked for; "
      "per_hop: how many.")
      .def_ro("neighbour", &PySampledEdges::neighbour)
      .def_ro("frontier", &PySampledEdges::frontier)
      .def_ro("rows", &PySampledEdges::rows)
      .def_ro("ids", &PySampledEdges::ids)
      .def_ro("per_hop", &PySampledEdges::per_hop);
  nb::class_<PySample>(m, "Sample", "A neighbourhood: nodes by node type, edges by edge type.")
      .def_ro("nodes", &PySample::nodes)
      .def_ro("edges", &PySample::edges);
  m.def("sample", &sample_binding, "num_nodes"_a, "edge_types"_a, "seeds"_a, nb::kw_only(),
        "replace"_a = false, "disjoint"_a = false, "last"_a = false, "rng_seed"_a = 0, "edge_ids"_a = true,
        "Samples the neighbourhood of seeds hop by hop. num_nodes: by node type. last: by time, take the "
        "latest neighbours instead of any.");
  nb::class_<PyLaborSample>(m, "LaborSample",
                            "A neighbourhood by LABOR. importance: by edge type, one weight per edge; empty "
                            "where edges have no weights.")
      .def_ro("sample", &PyLaborSample::sample)
      .def_ro("importance", &PyLaborSample::importance);
  m.def("labor_sample", &labor_binding, "num_nodes"_a, "edge_types"_a, "seeds"_a, nb::kw_only(),
        "layer_dependency"_a = false, "random_seed"_a = 0, "second_seed"_a = 0, "second_share"_a = 0.0,
        "edge_ids"_a = true,
        "As sample(), by LABOR: all nodes of a hop, or of all hops with layer_dependency, share one random "
        "number per neighbour. second_share of it, from 0 to 1, comes from second_seed.");
}

// ---- walks and negatives ----

Field<int64_t> walk_binding(const Topology& t, const Ids& starts, size_t length, double p, double q,
                            uint64_t rng_seed) {
  PooledArray<int64_t> out;
  without_gil([&] { out = random_walk(t, starts.data(), starts.shape(0), length, p, q, rng_seed); });
  return to_numpy(std::move(out), {starts.shape(0), length + 1});
}

Field<int64_t> fanout_binding(const Topology& t, const Ids& starts, size_t k, bool replace,
                              uint64_t rng_seed) {
  PooledArray<int64_t> out;
  without_gil([&] { out = random_fanout(t, starts.data(), starts.shape(0), k, replace, rng_seed); });
  return to_numpy(std::move(out), {starts.shape(0), k});
}

Field<int64_t> negatives_binding(size_t count, uint64_t num_nodes, const NodeWeights* weights,
                                 const OptionalColumn& times, const OptionalIds& not_after,
                                 uint64_t rng_seed) {
  const NegativeOptions options{.num_nodes = num_nodes,
                                .weights = weights,
                                .times = column_from(times, {DType::kInt32, DType::kInt64}, "times"),
                                .not_after = not_after ? not_after->data() : nullptr,
                                .num_not_after = not_after ? not_after->shape(0) : 0,
                                .rng_seed = rng_seed};
  PooledArray<int64_t> out;
  without_gil([&] { out = draw_negatives(options, count); });
  return to_numpy(std::move(out));
}

void bind_draws(nb::module_& m) {
  m.def("random_walk", &walk_binding, "topology"_a, "starts"_a, "length"_a, "p"_a, "q"_a, "rng_seed"_a,
        "Walks [n, length + 1], start first, -1 after a dead end.");
  m.def("random_fanout", &fanout_binding, "topology"_a, "starts"_a, "k"_a, "replace"_a, "rng_seed"_a,
        "k neighbours of each start [n, k], -1 where there are fewer.");
  nb::class_<NodeWeights>(m, "NodeWeights", "A table for drawing nodes by weight.")
      .def(
          "__init__",
          [](NodeWeights* self, const Array1<float>& weights) {
            without_gil([&] { new (self) NodeWeights(weights.data(), weights.shape(0)); });
          },
          "weights"_a)
      .def("__len__", &NodeWeights::size);
  m.def("draw_negatives", &negatives_binding, "count"_a, "num_nodes"_a, "weights"_a.none() = nb::none(),
        "times"_a = nb::none(), "not_after"_a = nb::none(), "rng_seed"_a = 0,
        "Nodes drawn as negatives; -1 where five draws were all later than not_after allows.");
}

}  // namespace

void bind_sample(nb::module_& m) {
  bind_neighbourhoods(m);
  bind_hgt(m);
  bind_draws(m);
}

}  // namespace gz
