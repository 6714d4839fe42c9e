#include "bindings.h"

#include <optional>
#include <tuple>

#include "check.h"
#include "device.h"
#include "error.h"
#include "feature.h"
#include "gather.h"
#include "hash.h"
#include "sampler.h"
#include "threads.h"
#include "topology.h"
#include "verify.h"
#include "walker.h"

namespace gz {
namespace {

using Ids = Array1<int64_t>;
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;
using ReadOnlyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Column1 = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void bind_errors(nb::module_& m) {
  nb::exception<FormatError>(m, "FormatError", PyExc_ValueError);
  nb::exception<InputError>(m, "InputError", PyExc_ValueError);
  // OSError built from (errno, text, path) becomes FileNotFoundError, PermissionError, ... by itself.
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const IoError& e) {
      PyObject* args = Py_BuildValue("(iss)", e.code(), e.what(), e.path().c_str());
      if (args) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
      }
    }
  });
}

// A view of mapped memory as bytes; Python gives it its dtype and shape.
NumpyArray<uint8_t> mapped_bytes(const void* data, uint64_t bytes, const std::shared_ptr<Mapping>& mapping) {
  const size_t shape[1] = {bytes};
  return NumpyArray<uint8_t>(const_cast<void*>(data), 1, shape, keep_alive(mapping));
}

// ---- topology ----

nb::object section(const Topology& t, size_t index) {
  if (!t.mapping) return nb::none();
  const Section& s = header_of(*t.mapping).sections[index];
  if (s.dtype == DType::kNone) return nb::none();
  const auto seen = t.tensors.of(*t.mapping);
  return nb::make_tuple(dtype_name(s.dtype), mapped_bytes(seen->data() + s.offset, s.bytes, seen));
}

IdArray ids_from(const Column1& a, const char* what) {
  const auto type = a.dtype();
  const bool integer =
      type.code == uint8_t(nb::dlpack::dtype_code::Int) || type.code == uint8_t(nb::dlpack::dtype_code::UInt);
  if (!integer || (type.bits != 32 && type.bits != 64))
    throw std::invalid_argument(std::string(what) + " must be 32- or 64-bit integers");
  return {a.data(), type.bits == 64};
}

// Arrays stay alive with the topology; letting them go needs the GIL.
std::shared_ptr<const void> hold(nb::object objects) {
  return {new nb::object(std::move(objects)), [](nb::object* p) {
            nb::gil_scoped_acquire gil;
            delete p;
          }};
}

std::shared_ptr<Topology> topology_from_arrays(Array1<int64_t> indptr, Column1 indices, uint64_t num_other,
                                               bool out, std::optional<Column1> edge_ids,
                                               uint64_t num_edge_ids, bool sorted_lists, std::string name) {
  auto t = std::make_shared<Topology>();
  if (indptr.shape(0) == 0)
    throw std::invalid_argument("indptr is empty; it needs one entry more than there are nodes");
  t->num_nodes = indptr.shape(0) - 1;
  t->num_other = num_other;
  t->num_edges = indices.shape(0);
  t->num_edge_ids = edge_ids ? num_edge_ids : t->num_edges;
  t->direction = out ? Direction::kOut : Direction::kIn;
  t->sorted = sorted_lists;
  t->indptr = reinterpret_cast<const uint64_t*>(indptr.data());
  t->indices = ids_from(indices, "indices");
  if (edge_ids) {
    if (edge_ids->shape(0) != t->num_edges)
      throw std::invalid_argument("edge_ids and indices differ in length");
    t->edge_ids = ids_from(*edge_ids, "edge_ids");
  }
  if (t->indptr[0] != 0 || t->indptr[t->num_nodes] != t->num_edges)
    throw std::invalid_argument("indptr must run from 0 to the number of edges (" +
                                std::to_string(t->num_edges) + ")");
  t->name = std::move(name);
  t->owner = hold(nb::make_tuple(nb::cast(indptr), nb::cast(indices), nb::cast(edge_ids)));
  return t;
}

NumpyArray<int64_t> degree(const Topology& t, const Ids& nodes) {
  PooledArray<int64_t> out(nodes.shape(0));
  {
    nb::gil_scoped_release release;
    t.degrees(nodes.data(), nodes.shape(0), out.data());
  }
  return to_numpy(std::move(out));
}

nb::tuple neighbors(const Topology& t, int64_t node) {
  PooledArray<int64_t> ids, positions;
  {
    nb::gil_scoped_release release;
    t.list(node, ids, positions);
  }
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(positions)));
}

void bind_topology(nb::module_& m) {
  nb::class_<Topology>(m, "Topology")
      .def_static("open", &Topology::open, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>())
      .def_static("from_arrays", &topology_from_arrays, nb::arg("indptr"), nb::arg("indices"),
                  nb::arg("num_other"), nb::arg("out") = false, nb::arg("edge_ids") = nb::none(),
                  nb::arg("num_edge_ids") = 0, nb::arg("sorted_lists") = false,
                  nb::arg("name") = "arrays in memory")
      .def_ro("num_nodes", &Topology::num_nodes)
      .def_ro("num_other", &Topology::num_other)
      .def_ro("num_edges", &Topology::num_edges)
      .def_ro("num_edge_ids", &Topology::num_edge_ids)
      .def_ro("sorted", &Topology::sorted)
      .def_ro("ids_are_in_rows", &Topology::ids_are_in_rows)
      .def_prop_ro("out", [](const Topology& t) { return t.direction == Direction::kOut; })
      .def_prop_ro("weighted", [](const Topology& t) { return t.weights != nullptr; })
      .def_prop_ro("has_edge_ids", [](const Topology& t) { return bool(t.edge_ids); })
      .def_prop_ro("writable",
                   [](const Topology& t) { return !t.mapping || t.tensors.of(*t.mapping)->writable(); })
      .def(
          "allow_loading",
          [](const Topology& t, bool allowed) {
            if (t.residency) t.residency->allow_loading(allowed);
          },
          nb::arg("allowed"))
      .def("stats",
           [](const Topology& t) {
             nb::dict d;
             d["reads"] = t.counts.reads.load();
             d["bytes_read"] = t.counts.bytes.load();
             return d;
           })
      .def("section", &section, nb::arg("index"))
      .def("degree", &degree, nb::arg("nodes"))
      .def("neighbors", &neighbors, nb::arg("node"))
      .def("max_degree", &Topology::max_degree, nb::call_guard<nb::gil_scoped_release>());
}

// ---- sampling ----

Column column_from(const std::optional<Column1>& a, std::initializer_list<DType> allowed, const char* what) {
  if (!a) return {};
  const auto type = a->dtype();
  const bool is_float = type.code == uint8_t(nb::dlpack::dtype_code::Float);
  const bool is_int = type.code == uint8_t(nb::dlpack::dtype_code::Int);
  DType dtype = DType::kNone;
  if (is_float && (type.bits == 32 || type.bits == 64))
    dtype = type.bits == 32 ? DType::kFloat32 : DType::kFloat64;
  if (is_int && (type.bits == 32 || type.bits == 64)) dtype = type.bits == 32 ? DType::kInt32 : DType::kInt64;
  for (DType ok : allowed)
    if (ok == dtype) return {a->data(), dtype, a->shape(0)};
  std::string names;
  for (DType ok : allowed) names += std::string(names.empty() ? "" : " or ") + dtype_name(ok);
  throw std::invalid_argument(std::string(what) + " must be " + names);
}

using OptionalColumn = std::optional<Column1>;
using EdgeTypeArgs =
    std::tuple<std::shared_ptr<Topology>, size_t, size_t, std::vector<int64_t>,
               std::optional<std::shared_ptr<Topology>>, OptionalColumn, OptionalColumn, OptionalColumn>;
using SeedArgs = std::tuple<size_t, Ids, std::optional<Ids>>;

SampleEdgeType edge_type_from(const EdgeTypeArgs& a) {
  const auto& [topology, frontier, neighbour, fanouts, ids, weights, edge_time, node_time] = a;
  return {.topology = topology,
          .frontier_type = frontier,
          .neighbour_type = neighbour,
          .fanouts = fanouts,
          .row_ids = ids ? (*ids)->edge_ids : IdArray{},
          .weights = column_from(weights, {DType::kFloat32, DType::kFloat64}, "weights"),
          .edge_time = column_from(edge_time, {DType::kInt32, DType::kInt64}, "edge times"),
          .node_time = column_from(node_time, {DType::kInt32, DType::kInt64}, "node times")};
}

nb::object numpy_or_none(PooledArray<int64_t>&& array, bool present) {
  return present ? nb::cast(to_numpy(std::move(array))) : nb::none();
}

nb::tuple sample_binding(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeTypeArgs>& edge_types,
                         const std::vector<SeedArgs>& seeds, bool replace, bool disjoint, bool last,
                         uint64_t rng_seed, bool edge_ids) {
  std::vector<SampleEdgeType> types;
  for (const auto& e : edge_types) types.push_back(edge_type_from(e));
  std::vector<SampleSeeds> starts;
  for (const auto& [type, nodes, times] : seeds) {
    if (times && times->shape(0) != nodes.shape(0))
      throw std::invalid_argument("there are " + std::to_string(nodes.shape(0)) + " seeds but " +
                                  std::to_string(times->shape(0)) + " seed times");
    starts.push_back({type, nodes.data(), nodes.shape(0), times ? times->data() : nullptr});
  }
  const SampleOptions options{.replace = replace,
                              .disjoint = disjoint,
                              .strategy = last ? TemporalStrategy::kLast : TemporalStrategy::kUniform,
                              .rng_seed = rng_seed,
                              .want_edge_ids = edge_ids};
  Sample result;
  {
    nb::gil_scoped_release release;
    result = sample(num_nodes, types, starts, options);
  }
  nb::list nodes, edges;
  for (auto& n : result.nodes)
    nodes.append(
        nb::make_tuple(to_numpy(std::move(n.ids)), numpy_or_none(std::move(n.batch), disjoint), n.per_hop));
  for (size_t e = 0; e < result.edges.size(); ++e) {
    auto& s = result.edges[e];
    edges.append(nb::make_tuple(to_numpy(std::move(s.neighbour)), to_numpy(std::move(s.frontier)),
                                to_numpy(std::move(s.rows)),
                                numpy_or_none(std::move(s.ids), edge_ids && types[e].row_ids), s.per_hop));
  }
  return nb::make_tuple(nodes, edges);
}

NumpyArray<int64_t> walk_binding(const Topology& t, const Ids& starts, size_t length, double p, double q,
                                 uint64_t rng_seed) {
  PooledArray<int64_t> out(checked_product(starts.shape(0), length + 1));
  {
    nb::gil_scoped_release release;
    random_walk(t, starts.data(), starts.shape(0), length, p, q, rng_seed, out.data());
  }
  return to_numpy(std::move(out), {starts.shape(0), length + 1});
}

NumpyArray<int64_t> fanout_binding(const Topology& t, const Ids& starts, size_t k, bool replace,
                                   uint64_t rng_seed) {
  PooledArray<int64_t> out(checked_product(starts.shape(0), k));
  {
    nb::gil_scoped_release release;
    random_fanout(t, starts.data(), starts.shape(0), k, replace, rng_seed, out.data());
  }
  return to_numpy(std::move(out), {starts.shape(0), k});
}

void bind_sampling(nb::module_& m) {
  m.def("sample", &sample_binding, nb::arg("num_nodes"), nb::arg("edge_types"), nb::arg("seeds"),
        nb::arg("replace") = false, nb::arg("disjoint") = false, nb::arg("last") = false,
        nb::arg("rng_seed") = 0, nb::arg("edge_ids") = true);
  m.def("random_walk", &walk_binding, nb::arg("topology"), nb::arg("starts"), nb::arg("length"), nb::arg("p"),
        nb::arg("q"), nb::arg("rng_seed"));
  m.def("random_fanout", &fanout_binding, nb::arg("topology"), nb::arg("starts"), nb::arg("k"),
        nb::arg("replace"), nb::arg("rng_seed"));
}

// ---- features ----

size_t checked_output_bytes(const AnyArray& out, size_t expected) {
  if (out.nbytes() != expected)
    throw std::invalid_argument("out holds " + std::to_string(out.nbytes()) + " bytes, the rows need " +
                                std::to_string(expected));
  return expected;
}

void gather_into(const Feature& f, const Ids& ids, AnyArray out) {
  checked_output_bytes(out, checked_product(ids.shape(0), f.row_bytes));
  nb::gil_scoped_release release;
  f.gather(ids.data(), ids.shape(0), out.data());
}

NumpyArray<uint8_t> gather_new(const Feature& f, const Ids& ids) {
  PooledArray<uint8_t> out(checked_product(ids.shape(0), f.row_bytes));
  {
    nb::gil_scoped_release release;
    f.gather(ids.data(), ids.shape(0), out.data());
  }
  return to_numpy(std::move(out));
}

void gather_array(const ReadOnlyArray& rows, const Ids& ids, AnyArray out) {
  const size_t num_rows = rows.ndim() ? rows.shape(0) : 0;
  const size_t row_bytes = num_rows ? rows.nbytes() / num_rows : 0;
  checked_output_bytes(out, checked_product(ids.shape(0), row_bytes));
  nb::gil_scoped_release release;
  gather(rows.data(), num_rows, row_bytes, ids.data(), ids.shape(0), out.data());
}

nb::dict feature_stats(const Feature& f) {
  const RowSource::Stats s = f.source->stats();
  nb::dict d;
  d["mapped"] = s.mapped;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["reads"] = s.reads;
  d["bytes_read"] = s.bytes_read;
  d["queue_depth"] = s.queue_depth;
  d["cache_bytes"] = s.cache_bytes;
  d["cache_rows"] = s.cache_rows;
  d["cached_rows"] = s.cached_rows;
  d["loaded"] = s.loaded;
  return d;
}

void bind_features(nb::module_& m) {
  nb::class_<Feature>(m, "Feature")
      .def_static("open", &Feature::open, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>())
      .def_static(
          "adopt",
          [](const std::string& path, uint64_t offset, const std::string& dtype,
             std::vector<uint64_t> shape) {
            return Feature::adopt(path, offset, dtype_from_name(dtype), std::move(shape));
          },
          nb::arg("path"), nb::arg("offset"), nb::arg("dtype"), nb::arg("shape"))
      .def_prop_ro("dtype", [](const Feature& f) { return dtype_name(f.dtype); })
      .def_ro("shape", &Feature::shape)
      .def_ro("row_bytes", &Feature::row_bytes)
      .def_ro("offset", &Feature::offset)
      .def_prop_ro("writable", [](const Feature& f) { return f.tensor.of(*f.mapping)->writable(); })
      .def("bytes",
           [](const Feature& f) {
             const auto seen = f.tensor.of(*f.mapping);
             return mapped_bytes(seen->data() + f.offset, f.bytes(), seen);
           })
      .def(
          "configure", [](const Feature& f, uint64_t cache, bool load) { f.source->configure(cache, load); },
          nb::arg("cache"), nb::arg("load"))
      .def("stats", &feature_stats)
      .def(
          "resident_bytes", [](const Feature& f) { return f.mapping->resident_bytes(f.offset, f.bytes()); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("gather", &gather_new, nb::arg("ids"))
      .def("gather_into", &gather_into, nb::arg("ids"), nb::arg("out"));
  m.def("gather_array", &gather_array, nb::arg("rows"), nb::arg("ids"), nb::arg("out"));
  m.def(
      "empty", [](size_t bytes) { return to_numpy(PooledArray<uint8_t>(bytes)); }, nb::arg("bytes"),
      "Uninitialised bytes from the pool of output buffers.");
}

}  // namespace
}  // namespace gz

NB_MODULE(_engine, m) {
  using namespace gz;
  m.doc() = "gz's C++ engine. Use the package `gz`, not this module.";
  bind_errors(m);
  bind_topology(m);
  bind_sampling(m);
  bind_features(m);
  bind_ingest(m);
  bind_pyg(m);
  bind_dgl(m);
  m.def(
      "read_path",
      [] {
        if (only_mapping()) return nb::make_tuple("map", "GZ_IO=map");
        const ReadChoice& c = read_choice();
        return nb::make_tuple(c.path == ReadPath::kRing ? "ring" : "threads", c.why);
      },
      "How rows that are not in memory are read, and why.");
  m.def("random_reads_per_second", &random_reads_per_second, nb::arg("path"), nb::arg("bytes"),
        nb::arg("depth"), nb::arg("threads"), nb::arg("count"), nb::arg("rng_seed") = 0,
        nb::call_guard<nb::gil_scoped_release>(), "What the disk under a file gives; for benchmarks.");
  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads, nb::arg("n"));
  m.def("pool_limit", &pool_limit);
  m.def("pool_bytes", &pool_bytes);
  m.def("set_pool_limit", &set_pool_limit, nb::arg("bytes"));
  m.def("verify_topology", &verify_topology, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>());
  m.def("verify_feature", &verify_feature, nb::arg("path"), nb::call_guard<nb::gil_scoped_release>());
  m.def(
      "tree_hash",
      [](ReadOnlyArray data) {
        nb::gil_scoped_release release;
        return tree_hash(data.data(), data.nbytes());
      },
      nb::arg("data"));
}
