// Questions about edges: among chosen nodes, in both directions, by position, by their ends.
#include "python/bindings.h"
#include "query/edges.h"
#include "query/induced.h"
#include "query/two_way.h"

namespace gz {
namespace {

using OptionalIds = std::optional<Ids>;

struct PyTwoWayEdges {
  Field<int64_t> row, col;
  std::optional<Field<int64_t>> ids;
};

struct PyEdgeEnds {
  Field<int64_t> grouped, neighbour;
};

struct PySubgraphEdges {
  Field<int64_t> frontier, neighbour, positions;
};

ChosenNodes chosen(const Ids& ids, const OptionalIds& batch) {
  if (batch && batch->shape(0) != ids.shape(0))
    throw std::invalid_argument("nodes and batch differ in length");
  return {ids.data(), batch ? batch->data() : nullptr, ids.shape(0)};
}

PyInducedEdges induced_binding(const Topology& topology, const Ids& frontier, const Ids& neighbours,
                               const OptionalIds& frontier_batch, const OptionalIds& neighbours_batch) {
  const ChosenNodes near = chosen(frontier, frontier_batch), far = chosen(neighbours, neighbours_batch);
  return to_python(without_gil([&] { return induced_edges(topology, near, far); }));
}

EdgeList edge_list(const Ids& row, const Ids& col, const OptionalIds& ids) {
  if (row.shape(0) != col.shape(0) || (ids && ids->shape(0) != row.shape(0)))
    throw std::invalid_argument("rows, columns and ids of edges differ in length");
  return {row.data(), col.data(), ids ? ids->data() : nullptr, row.shape(0)};
}

PyTwoWayEdges two_way_binding(const Ids& row, const Ids& col, const OptionalIds& ids, const Ids& back_row,
                              const Ids& back_col, const OptionalIds& back_ids, size_t num_rows,
                              size_t num_cols) {
  const EdgeList forward = edge_list(row, col, ids), backward = edge_list(back_row, back_col, back_ids);
  TwoWayEdges found = without_gil([&] { return two_way_edges(forward, backward, num_rows, num_cols); });
  PyTwoWayEdges out{to_numpy(std::move(found.row)), to_numpy(std::move(found.col)), {}};
  if (ids && back_ids) out.ids = to_numpy(std::move(found.ids));
  return out;
}

PyEdgeEnds locate_binding(const Topology& t, const Ids& positions) {
  PooledArray<int64_t> grouped(positions.shape(0)), neighbour(positions.shape(0));
  without_gil(
      [&] { locate_edges(t, positions.data(), positions.shape(0), grouped.data(), neighbour.data()); });
  return {to_numpy(std::move(grouped)), to_numpy(std::move(neighbour))};
}

Field<int64_t> match_binding(const Topology& t, const Ids& grouped, const Ids& neighbour) {
  if (grouped.shape(0) != neighbour.shape(0)) throw std::invalid_argument("the ends differ in length");
  PooledArray<int64_t> positions(grouped.shape(0));
  without_gil([&] { match_edges(t, grouped.data(), neighbour.data(), grouped.shape(0), positions.data()); });
  return to_numpy(std::move(positions));
}

nb::typed<nb::list, PySubgraphEdges> subgraph_binding(const std::vector<uint64_t>& num_nodes,
                                                      const std::vector<SubgraphEdgeType>& edge_types,
                                                      const std::vector<Ids>& nodes) {
  std::vector<ChosenNodes> lists;
  for (const Ids& n : nodes) lists.push_back({n.data(), nullptr, n.shape(0)});
  std::vector<SubgraphEdges> result =
      without_gil([&] { return subgraph_edges(num_nodes, edge_types, lists); });
  nb::typed<nb::list, PySubgraphEdges> out;
  for (auto& e : result)
    out.append(PySubgraphEdges{to_numpy(std::move(e.frontier)), to_numpy(std::move(e.neighbour)),
                               to_numpy(std::move(e.positions))});
  return out;
}

}  // namespace

void bind_query(nb::module_& m) {
  nb::class_<PyInducedEdges>(
      m, "InducedEdges",
      "Edges among chosen nodes: places of their ends in the lists of nodes, and their "
      "rows of the edge columns.")
      .def_ro("neighbour", &PyInducedEdges::neighbour)
      .def_ro("frontier", &PyInducedEdges::frontier)
      .def_ro("rows", &PyInducedEdges::rows);
  m.def("induced_edges", &induced_binding, "topology"_a, "frontier"_a, "neighbours"_a,
        "frontier_batch"_a = nb::none(), "neighbours_batch"_a = nb::none(),
        "Every edge from a node of neighbours to one of frontier of the same tree.");

  nb::class_<PyTwoWayEdges>(m, "TwoWayEdges",
                            "Edges in both directions, sorted by col and row; ids where both lists had them.")
      .def_ro("row", &PyTwoWayEdges::row)
      .def_ro("col", &PyTwoWayEdges::col)
      .def_ro("ids", &PyTwoWayEdges::ids);
  m.def("two_way_edges", &two_way_binding, "row"_a, "col"_a, "ids"_a.none(), "back_row"_a, "back_col"_a,
        "back_ids"_a.none(), "num_rows"_a, "num_cols"_a,
        "Edges, and others turned round, each pair of ends once.");

  nb::class_<PyEdgeEnds>(m, "EdgeEnds",
                         "The nodes that own the lists of edges, and those that stand in them.")
      .def_ro("grouped", &PyEdgeEnds::grouped)
      .def_ro("neighbour", &PyEdgeEnds::neighbour);
  m.def("locate_edges", &locate_binding, "topology"_a, "positions"_a, "The ends of edges by position.");
  m.def("match_edges", &match_binding, "topology"_a, "grouped"_a, "neighbour"_a,
        "Positions of the first edge between two nodes each, -1 where there is none.");
  m.def("invert", released(&invert), "topology"_a, "The same edges grouped by the other end, in memory.");

  nb::class_<SubgraphEdgeType>(
      m, "SubgraphEdgeType",
      "An edge type and the numbers of the node types at its grouped end and at the other.")
      .def(
          "__init__",
          [](SubgraphEdgeType* self, TopologyPtr topology, size_t frontier_type, size_t neighbour_type) {
            new (self) SubgraphEdgeType{std::move(topology), frontier_type, neighbour_type};
          },
          "topology"_a, "frontier_type"_a, "neighbour_type"_a)
      .def_ro("frontier_type", &SubgraphEdgeType::frontier_type)
      .def_ro("neighbour_type", &SubgraphEdgeType::neighbour_type);
  nb::class_<PySubgraphEdges>(m, "SubgraphEdges",
                              "Edges of one type: places of their ends in the lists of nodes, and positions.")
      .def_ro("frontier", &PySubgraphEdges::frontier)
      .def_ro("neighbour", &PySubgraphEdges::neighbour)
      .def_ro("positions", &PySubgraphEdges::positions);
  m.def("subgraph_edges", &subgraph_binding, "num_nodes"_a, "edge_types"_a, "nodes"_a,
        "The edges with both ends among nodes, by edge type. num_nodes, nodes: by node type.");
}

}  // namespace gz
