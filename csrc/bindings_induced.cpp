#include <optional>

#include "bindings.h"
#include "induced.h"

namespace gz {
namespace {

using Ids = Array1<int64_t>;

NumpyArray<int64_t> to_numpy(PooledArray<int64_t>&& array) {
  auto* owner = new PooledArray<int64_t>(std::move(array));
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<PooledArray<int64_t>*>(p); });
  const size_t shape[1] = {owner->size()};
  return NumpyArray<int64_t>(owner->data(), 1, shape, capsule);
}

ChosenNodes chosen(const Ids& ids, const std::optional<Ids>& batch) {
  if (batch && batch->shape(0) != ids.shape(0))
    throw std::invalid_argument("nodes and batch differ in length");
  return {ids.data(), batch ? batch->data() : nullptr, ids.shape(0)};
}

nb::tuple induced_binding(const Topology& topology, const Ids& frontier, const Ids& neighbours,
                          const std::optional<Ids>& frontier_batch,
                          const std::optional<Ids>& neighbours_batch) {
  const ChosenNodes near = chosen(frontier, frontier_batch), far = chosen(neighbours, neighbours_batch);
  InducedEdges out;
  {
    nb::gil_scoped_release release;
    out = induced_edges(topology, near, far);
  }
  return nb::make_tuple(to_numpy(std::move(out.neighbour)), to_numpy(std::move(out.frontier)),
                        to_numpy(std::move(out.rows)));
}

}  // namespace

void bind_induced(nb::module_& m) {
  m.def("induced_edges", &induced_binding, nb::arg("topology"), nb::arg("frontier"), nb::arg("neighbours"),
        nb::arg("frontier_batch") = nb::none(), nb::arg("neighbours_batch") = nb::none());
}

}  // namespace gz
