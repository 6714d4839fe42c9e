// What only gz_pyg asks of the engine.
#include <optional>

#include "bindings.h"
#include "induced.h"
#include "negatives.h"
#include "two_way.h"

namespace gz {
namespace {

using Ids = Array1<int64_t>;
using OptionalIds = std::optional<Ids>;
using Times = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

ChosenNodes chosen(const Ids& ids, const OptionalIds& batch) {
  if (batch && batch->shape(0) != ids.shape(0))
    throw std::invalid_argument("nodes and batch differ in length");
  return {ids.data(), batch ? batch->data() : nullptr, ids.shape(0)};
}

nb::tuple induced_binding(const Topology& topology, const Ids& frontier, const Ids& neighbours,
                          const OptionalIds& frontier_batch, const OptionalIds& neighbours_batch) {
  const ChosenNodes near = chosen(frontier, frontier_batch), far = chosen(neighbours, neighbours_batch);
  InducedEdges out;
  {
    nb::gil_scoped_release release;
    out = induced_edges(topology, near, far);
  }
  return nb::make_tuple(to_numpy(std::move(out.neighbour)), to_numpy(std::move(out.frontier)),
                        to_numpy(std::move(out.rows)));
}

EdgeList edge_list(const Ids& row, const Ids& col, const OptionalIds& ids) {
  if (row.shape(0) != col.shape(0) || (ids && ids->shape(0) != row.shape(0)))
    throw std::invalid_argument("rows, columns and ids of edges differ in length");
  return {row.data(), col.data(), ids ? ids->data() : nullptr, row.shape(0)};
}

nb::tuple two_way_binding(const Ids& row, const Ids& col, const OptionalIds& ids, const Ids& back_row,
                          const Ids& back_col, const OptionalIds& back_ids, size_t num_rows,
                          size_t num_cols) {
  const EdgeList forward = edge_list(row, col, ids), backward = edge_list(back_row, back_col, back_ids);
  TwoWayEdges out;
  {
    nb::gil_scoped_release release;
    out = two_way_edges(forward, backward, num_rows, num_cols);
  }
  nb::object names = ids && back_ids ? nb::cast(to_numpy(std::move(out.ids))) : nb::none();
  return nb::make_tuple(to_numpy(std::move(out.row)), to_numpy(std::move(out.col)), names);
}

Column times_from(const std::optional<Times>& times) {
  if (!times) return {};
  const bool narrow = times->dtype() == nb::dtype<int32_t>();
  if (!narrow && times->dtype() != nb::dtype<int64_t>())
    throw std::invalid_argument("times must be int32 or int64");
  return {times->data(), narrow ? DType::kInt32 : DType::kInt64, times->shape(0)};
}

NumpyArray<int64_t> negatives_binding(size_t count, uint64_t num_nodes, const NodeWeights* weights,
                                      const std::optional<Times>& times, const OptionalIds& not_after,
                                      uint64_t rng_seed) {
  const NegativeOptions options{.num_nodes = num_nodes,
                                .weights = weights,
                                .times = times_from(times),
                                .not_after = not_after ? not_after->data() : nullptr,
                                .num_not_after = not_after ? not_after->shape(0) : 0,
                                .rng_seed = rng_seed};
  PooledArray<int64_t> out(count);
  {
    nb::gil_scoped_release release;
    draw_negatives(options, count, out.data());
  }
  return to_numpy(std::move(out));
}

}  // namespace

void bind_pyg(nb::module_& m) {
  m.def("induced_edges", &induced_binding, nb::arg("topology"), nb::arg("frontier"), nb::arg("neighbours"),
        nb::arg("frontier_batch") = nb::none(), nb::arg("neighbours_batch") = nb::none());
  m.def("two_way_edges", &two_way_binding, nb::arg("row"), nb::arg("col"), nb::arg("ids").none(),
        nb::arg("back_row"), nb::arg("back_col"), nb::arg("back_ids").none(), nb::arg("num_rows"),
        nb::arg("num_cols"));
  nb::class_<NodeWeights>(m, "NodeWeights")
      .def(
          "__init__",
          [](NodeWeights* self, const Array1<float>& weights) {
            nb::gil_scoped_release release;
            new (self) NodeWeights(weights.data(), weights.shape(0));
          },
          nb::arg("weights"))
      .def("__len__", &NodeWeights::size);
  m.def("draw_negatives", &negatives_binding, nb::arg("count"), nb::arg("num_nodes"),
        nb::arg("weights").none() = nb::none(), nb::arg("times") = nb::none(),
        nb::arg("not_after") = nb::none(), nb::arg("rng_seed") = 0);
}

}  // namespace gz
