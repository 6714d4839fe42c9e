// Topologies and features: columns in mapped files, or arrays in memory.
#include "column/feature.h"
#include "column/shown_file.h"
#include "column/verify.h"
#include "hot/lists.h"
#include "hot/rows.h"
#include "python/bindings.h"
#include "read/check.h"

namespace gz {

Column column_from(const std::optional<AnyColumn>& array, std::initializer_list<DType> allowed,
                   const char* what) {
  if (!array) return {};
  const auto dtype = array->dtype();
  const DType given = dtype == nb::dtype<uint8_t>()   ? DType::kUInt8
                      : dtype == nb::dtype<int32_t>() ? DType::kInt32
                      : dtype == nb::dtype<int64_t>() ? DType::kInt64
                      : dtype == nb::dtype<float>()   ? DType::kFloat32
                      : dtype == nb::dtype<double>()  ? DType::kFloat64
                                                      : DType::kNone;
  std::string names;
  for (DType ok : allowed) {
    if (ok == given)
      return {array->data(), given, array->shape(0), ArrayPlace::of(array->data(), array->nbytes())};
    names += std::string(names.empty() ? "" : " or ") + dtype_name(ok);
  }
  throw std::invalid_argument(std::string(what) + " must be " + names);
}

namespace {

using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

// Mapped memory as bytes; Python gives it its dtype and shape.
Field<uint8_t> shown_bytes(const std::shared_ptr<ShownFile>& file, uint64_t offset, size_t bytes) {
  auto* data = reinterpret_cast<uint8_t*>(file->mapping().data() + offset);
  return array_over(data, {bytes}, new std::shared_ptr<ShownFile>(file));
}

// ---- topology ----

struct PySection {
  const char* dtype;
  Field<uint8_t> bytes;
};

struct PyNeighbors {
  Field<int64_t> ids, positions;
};

struct PyLists {
  Field<int64_t> begins;
  Field<char> ids;
};

template <TopologySection index>
std::optional<PySection> section(const Topology& t) {
  if (!t.mapping) return {};
  const Section s = guarded([&] { return header_of(*t.mapping).sections[index]; });
  if (s.dtype == DType::kNone) return {};
  return PySection{dtype_name(s.dtype), shown_bytes(t.tensors.of(t.residency), s.offset, s.bytes)};
}

IdArray ids_from(const AnyColumn& a, const char* what) {
  const auto type = a.dtype();
  const bool integer =
      type.code == uint8_t(nb::dlpack::dtype_code::Int) || type.code == uint8_t(nb::dlpack::dtype_code::UInt);
  if (!integer || (type.bits != 32 && type.bits != 64))
    throw std::invalid_argument(std::string(what) + " must be 32- or 64-bit integers");
  return {a.data(), type.bits == 64};
}

TopologyPtr topology_from_arrays(const Ids& indptr, const AnyColumn& indices, uint64_t num_other, bool out,
                                 const std::optional<AnyColumn>& edge_ids, uint64_t num_edge_ids,
                                 bool sorted_lists, std::string name) {
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
  if (guarded([&] { return t->indptr[0] != 0 || t->indptr[t->num_nodes] != t->num_edges; }))
    throw std::invalid_argument("indptr must run from 0 to the number of edges (" +
                                std::to_string(t->num_edges) + ")");
  t->name = std::move(name);
  std::vector<nb::ndarray<>> arrays{nb::ndarray<>(indptr), nb::ndarray<>(indices)};
  if (edge_ids) arrays.emplace_back(*edge_ids);
  t->owner = std::make_shared<std::vector<nb::ndarray<>>>(std::move(arrays));
  return t;
}

Field<int64_t> degree(const Topology& t, const Ids& nodes) {
  PooledArray<int64_t> out(nodes.shape(0));
  without_gil([&] { t.degrees(nodes.data(), nodes.shape(0), out.data()); });
  return to_numpy(std::move(out));
}

PyNeighbors neighbors(const Topology& t, int64_t node) {
  PooledArray<int64_t> ids, positions;
  without_gil([&] { t.list(node, ids, positions); });
  return {to_numpy(std::move(ids)), to_numpy(std::move(positions))};
}

PyLists lists(const Topology& t, const Ids& nodes) {
  PooledArray<int64_t> begins;
  PooledArray<char> ids;
  without_gil([&] { t.lists(nodes.data(), nodes.shape(0), begins, ids); });
  return {to_numpy(std::move(begins)), to_numpy(std::move(ids))};
}

nb::dict topology_stats(const Topology& t) {
  nb::dict d;
  const ReadCounts* counts = t.residency ? &t.residency->counts() : nullptr;
  const HotLists::Stats hot = t.hot ? t.hot->stats() : HotLists::Stats{};
  d["hot"] = hot.found;
  d["reads"] = hot.reads + (counts ? counts->reads.load() : 0);
  d["bytes_read"] = hot.bytes + (counts ? counts->bytes.load() : 0);
  d["read_seconds"] = hot.seconds + (counts ? counts->seconds() : 0.0);
  d["held"] = t.held && t.held->held() ? t.held->bytes() : 0;
  return d;
}

void bind_topology(nb::module_& m) {
  nb::class_<PySection>(m, "Section", "A part of a mapped file: its dtype by name, and its bytes in place.")
      .def_ro("dtype", &PySection::dtype)
      .def_ro("bytes", &PySection::bytes);
  nb::class_<PyNeighbors>(m, "Neighbors", "The neighbours of a node and the positions of its edges.")
      .def_ro("ids", &PyNeighbors::ids)
      .def_ro("positions", &PyNeighbors::positions);
  nb::class_<PyLists>(m, "Lists", "Lists of some nodes, one after the other, as they lie in the file.")
      .def_ro("begins", &PyLists::begins, "Where each begins in the topology.")
      .def_ro("ids", &PyLists::ids, "The bytes of all.");
  nb::class_<Topology>(m, "Topology", "Who is joined to whom, grouped by one end.")
      .def_static("open", released(&Topology::open), "path"_a, "opened"_a = -1)
      .def_static("from_arrays", &topology_from_arrays, "indptr"_a, "indices"_a, "num_other"_a,
                  "out"_a = false, "edge_ids"_a = nb::none(), "num_edge_ids"_a = 0, "sorted_lists"_a = false,
                  "name"_a = "arrays in memory")
      .def_ro("num_nodes", &Topology::num_nodes, "Nodes at the grouped end.")
      .def_ro("num_other", &Topology::num_other, "Nodes at the other end.")
      .def_ro("num_edges", &Topology::num_edges)
      .def_ro("num_edge_ids", &Topology::num_edge_ids)
      .def_ro("sorted", &Topology::sorted, "Every list ascends.")
      .def_prop_ro(
          "checksum", [](const Topology& t) { return header_of(*t.mapping).checksum; },
          "Of the header, and so of all data. Of a file only.")
      .def_ro("ids_are_in_rows", &Topology::ids_are_in_rows,
              "edge_ids are rows of the edge columns: this is the `out` file of a store.")
      .def_prop_ro("out", [](const Topology& t) { return t.direction == Direction::kOut; })
      .def_prop_ro("weighted", [](const Topology& t) { return t.weights != nullptr; })
      .def_prop_ro("has_edge_ids", [](const Topology& t) { return bool(t.edge_ids); })
      .def_prop_ro(
          "writable",
          [](const Topology& t) { return !t.mapping || t.tensors.of(t.residency)->mapping().writable(); })
      .def_prop_ro("indptr", &section<kIndptr>)
      .def_prop_ro("indices", &section<kIndices>)
      .def_prop_ro("edge_ids", &section<kEdgeIds>)
      .def_prop_ro("edge_positions", &section<kEdgePositions>)
      .def_prop_ro("weights", &section<kWeights>)
      .def(
          "allow_loading",
          [](const Topology& t, bool allowed) {
            if (t.residency) t.residency->allow_loading(allowed);
          },
          "allowed"_a)
      .def(
          "allow_copy",
          [](const Topology& t, bool allowed) {
            if (t.held) t.held->allow(allowed);
          },
          "allowed"_a, "Whether reading may make a copy of the lists in huge pages, beside the page cache.")
      .def(
          "use_hot",
          [](Topology& t, std::shared_ptr<Feature> ids, std::shared_ptr<Feature> starts,
             std::shared_ptr<Feature> copies) {
            t.use(std::make_shared<HotLists>(t, std::move(ids), std::move(starts), std::move(copies)));
          },
          "ids"_a, "starts"_a, "lists"_a,
          "Files that hold lists which are sampled often, once more. Before the first sample.")
      .def("lists", &lists, "nodes"_a)
      .def("stats", &topology_stats)
      .def("degree", &degree, "nodes"_a)
      .def("neighbors", &neighbors, "node"_a)
      .def("max_degree", released(&Topology::max_degree));
  m.def("verify_topology", released(&verify_topology), "path"_a, "opened"_a = -1);
  m.def("verify_pair", released(&verify_pair), "in_path"_a, "out_path"_a, "in_opened"_a = -1,
        "out_opened"_a = -1);
}

// ---- features ----

size_t checked_output_bytes(const AnyArray& out, size_t expected) {
  if (out.nbytes() != expected)
    throw std::invalid_argument("out holds " + std::to_string(out.nbytes()) + " bytes, the rows need " +
                                std::to_string(expected));
  return expected;
}

RowFormat read_as(const Feature& f, const std::optional<std::string>& dtype) {
  return f.format(dtype ? dtype_from_name(*dtype) : f.shown);
}

void gather_into(const Feature& f, const Ids& ids, const AnyArray& out,
                 const std::optional<std::string>& dtype) {
  const RowFormat format = read_as(f, dtype);
  checked_output_bytes(out, checked_product(ids.shape(0), format.shown_bytes));
  without_gil([&] { f.gather(ids.data(), ids.shape(0), out.data(), format); });
}

Field<uint8_t> gather_new(const Feature& f, const Ids& ids, const std::optional<std::string>& dtype) {
  const RowFormat format = read_as(f, dtype);
  PooledArray<uint8_t> out(checked_product(ids.shape(0), format.shown_bytes));
  without_gil([&] { f.gather(ids.data(), ids.shape(0), out.data(), format); });
  return to_numpy(std::move(out));
}

void gather_rows_of_array(const ReadOnlyArray& rows, const Ids& ids, const AnyArray& out) {
  const size_t num_rows = rows.ndim() ? rows.shape(0) : 0;
  const size_t row_bytes = num_rows ? rows.nbytes() / num_rows : 0;
  checked_output_bytes(out, checked_product(ids.shape(0), row_bytes));
  without_gil([&] { gather_array(rows.data(), num_rows, row_bytes, ids.data(), ids.shape(0), out.data()); });
}

nb::dict feature_stats(const Feature& f) {
  const RowSource::Stats s = f.source->stats();
  nb::dict d;
  d["mapped"] = s.mapped;
  d["hot"] = s.near;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["reads"] = s.reads;
  d["bytes_read"] = s.bytes_read;
  d["read_seconds"] = s.read_seconds;
  d["queue_depth"] = s.queue_depth;
  d["cache_bytes"] = s.cache_bytes;
  d["cache_rows"] = s.cache_rows;
  d["cached_rows"] = s.cached_rows;
  d["cache_most"] = s.cache_most;
  d["cache_why"] = s.cache_why;
  d["loaded"] = s.loaded;
  return d;
}

void bind_feature(nb::module_& m) {
  nb::class_<Feature>(m, "Feature", "Rows of one dtype and shape in a mapped file.")
      .def_static("open", released(&Feature::open), "path"_a, "opened"_a = -1)
      .def_static(
          "adopt",
          [](const std::string& path, uint64_t offset, const std::string& dtype,
             std::vector<uint64_t> shape) {
            return Feature::adopt(path, offset, dtype_from_name(dtype), std::move(shape));
          },
          "path"_a, "offset"_a, "dtype"_a, "shape"_a)
      .def_prop_ro(
          "dtype", [](const Feature& f) { return dtype_name(f.shown); }, "As rows are read.")
      .def_prop_ro(
          "stored", [](const Feature& f) { return dtype_name(f.dtype); }, "As they are stored.")
      .def_ro("shape", &Feature::shape)
      .def_ro("row_bytes", &Feature::row_bytes, "Of a row in the file.")
      .def_prop_ro(
          "checksum", [](const Feature& f) { return header_of(*f.mapping).checksum; },
          "Of the header, and so of all data. Of a .gd file only.")
      .def_ro("offset", &Feature::offset)
      .def_prop_ro("writable",
                   [](const Feature& f) { return f.tensor.of(f.source->residency())->mapping().writable(); })
      .def(
          "bytes",
          [](const Feature& f) {
            return shown_bytes(f.tensor.of(f.source->residency()), f.offset, f.bytes());
          },
          "All rows as they are stored, in place.")
      .def(
          "configure", [](const Feature& f, uint64_t cache, bool load) { f.source->configure(cache, load); },
          "cache"_a, "load"_a)
      .def(
          "use_hot",
          [](const Feature& f, std::shared_ptr<Feature> ids, std::vector<std::shared_ptr<Feature>> tiers,
             size_t held) {
            f.source->use(std::make_shared<HotRows>(f, std::move(ids), std::move(tiers), held));
          },
          "ids"_a, "tiers"_a, "held"_a,
          "Files that hold rows which are read often, once more; so many of them are held in memory. Before "
          "the first gather.")
      .def("stats", &feature_stats)
      .def("resident_bytes",
           [](const Feature& f) {
             return without_gil([&] { return f.mapping->resident_bytes(f.offset, f.bytes()); });
           })
      .def("gather", &gather_new, "ids"_a, "dtype"_a = nb::none())
      .def("gather_into", &gather_into, "ids"_a, "out"_a.noconvert(),  // a copy of it would be filled
           "dtype"_a = nb::none());
  m.def("gather_array", &gather_rows_of_array, "rows"_a, "ids"_a, "out"_a.noconvert(),
        "Copies rows of an array, in memory or shown of a file.");
  m.def("verify_feature", released(&verify_feature), "path"_a, "opened"_a = -1);
}

}  // namespace

void bind_column(nb::module_& m) {
  bind_topology(m);
  bind_feature(m);
}

}  // namespace gz
