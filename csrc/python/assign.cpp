// Binding of the streaming partitioner.
#include <algorithm>

#include "assign/fennel.h"
#include "python/bindings.h"

namespace gz {
namespace {

using Parts = nb::ndarray<uint16_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void add(Fennel& fennel, size_t first, const Array1<uint8_t>& classes, const Ids& edges, const Ids& indptr,
         const Ids& neighbours, const Parts& parts) {
  const size_t count = classes.shape(0);
  if (edges.shape(0) != count || indptr.shape(0) != count + 1)
    throw std::invalid_argument("classes, edges and indptr differ in length");
  if (indptr.data()[0] < 0 || indptr.data()[count] > static_cast<int64_t>(neighbours.shape(0)) ||
      !std::is_sorted(indptr.data(), indptr.data() + count + 1))
    throw std::invalid_argument("indptr does not ascend within the neighbours");
  const StreamNodes nodes{first, count, classes.data(), edges.data(), indptr.data(), neighbours.data()};
  without_gil([&] { fennel.add(nodes, parts.data(), parts.shape(0)); });
}

}  // namespace

void bind_assign(nb::module_& m) {
  nb::class_<Fennel>(m, "Fennel", "Assigns nodes to parts as they stream by.")
      .def(nb::init<size_t, const std::vector<int64_t>&, int64_t, double, double>(), "num_parts"_a,
           "class_sizes"_a, "num_edges"_a, "degree"_a, "slack"_a)
      .def("add", &add, "first"_a, "classes"_a, "edges"_a, "indptr"_a, "neighbours"_a, "parts"_a);
}

}  // namespace gz
