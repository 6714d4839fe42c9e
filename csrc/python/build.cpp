// What writes a store: columns, edges grouped in files, dense ids for keys.
#include "build/builder.h"
#include "build/id_map.h"
#include "file/encoding.h"
#include "file/writer.h"
#include "python/bindings.h"

namespace gz {
namespace {

EdgeBatch edge_batch(const ReadOnlyArray& src, const ReadOnlyArray& dst,
                     const std::optional<ReadOnlyArray>& payload, size_t row) {
  if (src.ndim() != 1 || dst.ndim() != 1 || src.size() != dst.size() || src.itemsize() != dst.itemsize() ||
      (src.itemsize() != 4 && src.itemsize() != 8))
    throw std::invalid_argument("src and dst must be arrays of equal length and of 4 or 8-byte ids");
  if ((payload ? payload->nbytes() : 0) != src.size() * row)
    throw std::invalid_argument("the payload does not have one row per edge");
  return {.count = src.size(),
          .wide = src.itemsize() == 8,
          .src = src.data(),
          .dst = dst.data(),
          .payload = payload ? static_cast<const char*>(payload->data()) : nullptr};
}

template <class Hash>
Field<uint64_t> hash_array(size_t n, Hash&& hash) {
  PooledArray<uint64_t> out(n);
  without_gil([&] {
    for (size_t i = 0; i < n; ++i) out[i] = hash(i);
  });
  return to_numpy(std::move(out));
}

std::string_view text(const Array1<uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct PyOffender {
  uint64_t place;
  std::string key;
};

std::optional<PyOffender> offender(const IdAssigner& ids) {
  if (ids.offender() == UINT64_MAX) return {};
  return PyOffender{ids.offender(), ids.offending_key()};
}

Field<uint64_t> read_ids(const IdAssigner& ids, uint64_t first, size_t count) {
  PooledArray<uint64_t> out(count);
  without_gil([&] { ids.read_ids(first, count, out.data()); });
  return to_numpy(std::move(out));
}

DType dtype_or_none(const std::optional<std::string>& name) {
  return name ? dtype_from_name(*name) : DType::kNone;
}

struct PyEncodedRows {
  Field<uint8_t> rows;
  EncodedRows found;
};

PyEncodedRows encode_rows(const Array1<float>& values, size_t row_values) {
  const size_t count = row_values ? values.size() / row_values : 0;
  if (count * row_values != values.size()) throw std::invalid_argument("the values are no whole rows");
  PooledArray<uint8_t> out(count * RowFormat(DType::kInt8, DType::kFloat32, row_values).stored_bytes);
  EncodedRows found;
  without_gil(
      [&] { found = encode_int8(values.data(), count, row_values, reinterpret_cast<char*>(out.data())); });
  return {to_numpy(std::move(out)), found};
}

Field<uint8_t> decoded_rows(const Array1<uint8_t>& rows, const std::string& dtype, size_t row_values,
                            bool vector) {
  const RowFormat format(dtype_from_name(dtype), DType::kFloat32, row_values);
  if (!known_encoding(format.stored, format.shown) || rows.size() % format.stored_bytes)
    throw std::invalid_argument("these are no whole rows of " + dtype);
  const size_t count = rows.size() / format.stored_bytes;
  PooledArray<uint8_t> out(count * format.shown_bytes);
  without_gil([&] {
    decode_rows(format, reinterpret_cast<const char*>(rows.data()), count,
                reinterpret_cast<char*>(out.data()), vector ? DecodeBy::kVector : DecodeBy::kScalar);
  });
  return to_numpy(std::move(out));
}

void bind_encoding(nb::module_& m) {
  nb::class_<PyEncodedRows>(m, "EncodedRows",
                            "Rows as int8 with a scale each, and what became of their values.")
      .def_ro("rows", &PyEncodedRows::rows)
      .def_prop_ro(
          "wrong",
          [](const PyEncodedRows& e) {
            return e.found.wrong == UINT64_MAX ? std::optional<uint64_t>() : e.found.wrong;
          },
          "The first row that holds what is not finite, if any: the rows are of no use then.")
      .def_prop_ro("nonzero", [](const PyEncodedRows& e) { return e.found.nonzero; })
      .def_prop_ro(
          "vanished", [](const PyEncodedRows& e) { return e.found.vanished; },
          "Values that are not 0 and are read as 0.");
  m.def("encode_int8", &encode_rows, "values"_a, "row_values"_a);
  m.def("decode_rows", &decoded_rows, "rows"_a, "dtype"_a, "row_values"_a, "vector"_a = true,
        "Stored rows of float16, bfloat16 or int8 as the bytes of float32 rows.");
}

void bind_columns(nb::module_& m) {
  nb::class_<ColumnWriter>(m, "ColumnWriter", "Writes a .gd file row by row.")
      .def(
          "__init__",
          [](ColumnWriter* self, const std::string& path, const std::string& dtype,
             std::vector<uint64_t> row_shape, const std::optional<std::string>& shown) {
            new (self) ColumnWriter(path, dtype_from_name(dtype), std::move(row_shape), dtype_or_none(shown));
          },
          "path"_a, "dtype"_a, "row_shape"_a, "shown"_a = nb::none())
      .def(
          "append",
          [](ColumnWriter& self, const ReadOnlyArray& rows) {
            const void* data = rows.data();
            const size_t bytes = rows.nbytes();
            without_gil([&] { self.append(data, bytes); });
          },
          "rows"_a)
      .def("finish", released(&ColumnWriter::finish), "zero_byte_rows"_a = 0)
      .def_prop_ro("row_bytes", &ColumnWriter::row_bytes);

  m.def(
      "seal_column",
      [](const std::string& path, const std::string& dtype, const std::vector<uint64_t>& shape) {
        without_gil([&] { seal_column(path, dtype_from_name(dtype), shape); });
      },
      "path"_a, "dtype"_a, "shape"_a);
}

void bind_builder(nb::module_& m) {
  nb::class_<EdgeColumn>(m, "EdgeColumn",
                         "A column to write beside a topology, from the payload of its edges.")
      .def(
          "__init__",
          [](EdgeColumn* self, const std::string& path, const std::string& dtype,
             std::vector<uint64_t> row_shape, size_t offset, const std::optional<std::string>& shown) {
            new (self)
                EdgeColumn{path, dtype_from_name(dtype), std::move(row_shape), offset, dtype_or_none(shown)};
          },
          "path"_a, "dtype"_a, "row_shape"_a, "offset"_a, "shown"_a = nb::none());

  nb::class_<Builder>(m, "Builder",
                      "Groups edges by one end within a budget of memory and writes a .gl file.")
      .def(
          "__init__",
          [](Builder* self, const std::string& directory, bool out, size_t payload, bool keep_ids,
             bool positions, bool ids_are_in_rows, bool arrives_sorted, bool sort_by_id, bool coalesce,
             bool undirected, const std::string& self_loops, const nb::bytes& loop_payload,
             std::optional<size_t> weight_offset, uint64_t memory, uint64_t expected_nodes) {
            BuildOptions o;
            o.directory = directory;
            o.direction = out ? Direction::kOut : Direction::kIn;
            o.payload = payload;
            o.keep_ids = keep_ids;
            o.positions = positions;
            o.ids_are_in_rows = ids_are_in_rows;
            o.arrives_sorted = arrives_sorted;
            o.rules.sort_by_id = sort_by_id;
            o.rules.coalesce = coalesce;
            o.rules.undirected = undirected;
            o.rules.self_loops = self_loops == "add"      ? SelfLoops::kAdd
                                 : self_loops == "remove" ? SelfLoops::kRemove
                                                          : SelfLoops::kKeep;
            o.rules.loop_payload.assign(loop_payload.c_str(), loop_payload.c_str() + loop_payload.size());
            o.weight_offset = weight_offset;
            o.memory = memory;
            o.expected_nodes = expected_nodes;
            new (self) Builder(std::move(o));
          },
          "directory"_a, nb::kw_only(), "out"_a = false, "payload"_a = 0, "keep_ids"_a = false,
          "positions"_a = false, "ids_are_in_rows"_a = false, "arrives_sorted"_a = false,
          "sort_by_id"_a = true, "coalesce"_a = false, "undirected"_a = false, "self_loops"_a = "keep",
          "loop_payload"_a = nb::bytes("", 0), "weight_offset"_a = nb::none(), "memory"_a = uint64_t{1} << 30,
          "expected_nodes"_a = 0)
      .def(
          "add",
          [](Builder& self, const ReadOnlyArray& src, const ReadOnlyArray& dst,
             std::optional<ReadOnlyArray> payload, uint64_t src_limit, uint64_t dst_limit) {
            EdgeBatch batch = edge_batch(src, dst, payload, self.payload());
            batch.src_limit = src_limit;
            batch.dst_limit = dst_limit;
            without_gil([&] { self.add(batch); });
          },
          "src"_a, "dst"_a, "payload"_a = nb::none(), "src_limit"_a = UINT64_MAX, "dst_limit"_a = UINT64_MAX)
      .def("begin", released(&Builder::begin), "path"_a, "num_nodes"_a, "num_other"_a, "columns"_a)
      .def("step", released(&Builder::step))
      .def_prop_ro("progress", &Builder::progress)
      .def_prop_ro("num_input_edges", &Builder::num_input_edges)
      .def_prop_ro("nodes_seen", &Builder::nodes_seen)
      .def_prop_ro("others_seen", &Builder::others_seen)
      .def_prop_ro("num_edges", &Builder::num_edges)
      .def_prop_ro("num_edge_ids", &Builder::num_edge_ids)
      .def_prop_ro("spilled_bytes", &Builder::spilled_bytes);
  m.def("add_transposed", released(&add_transposed), "out"_a, "in_path"_a, "begin"_a, "memory"_a);
}

void bind_ids(nb::module_& m) {
  nb::class_<PyOffender>(m, "OffendingKey", "A key, and its place in the sequence of keys.")
      .def_ro("place", &PyOffender::place)
      .def_ro("key", &PyOffender::key);
  nb::class_<IdAssigner>(m, "IdAssigner", "Dense ids for keys, in the order of first appearance.")
      .def(nb::init<const std::string&, bool, uint64_t>(), "directory"_a, "text"_a, "memory"_a)
      .def("add_integers",
           [](IdAssigner& self, const Ids& keys) {
             without_gil([&] { self.add_integers(keys.data(), keys.size()); });
           })
      .def("add_text",
           [](IdAssigner& self, const Array1<uint64_t>& offsets, const Array1<uint8_t>& bytes) {
             without_gil([&] {
               self.add_text(offsets.data(), std::max<size_t>(offsets.size(), 1) - 1, text(bytes));
             });
           })
      .def("add_text_pairs",
           [](IdAssigner& self, const Array1<uint64_t>& a, const Array1<uint8_t>& a_bytes,
              const Array1<uint64_t>& b, const Array1<uint8_t>& b_bytes) {
             if (a.size() != b.size()) throw std::invalid_argument("an edge has two ends");
             without_gil([&] {
               self.add_text_pairs(a.data(), text(a_bytes), b.data(), text(b_bytes),
                                   std::max<size_t>(a.size(), 1) - 1);
             });
           })
      .def("close_keys", &IdAssigner::close_keys)
      .def("begin", &IdAssigner::begin, "prefix"_a)
      .def("begin_lookup", &IdAssigner::begin_lookup)
      .def("step", released(&IdAssigner::step))
      .def_prop_ro("num_ids", &IdAssigner::num_ids)
      .def_prop_ro("num_added", &IdAssigner::num_added)
      .def_prop_ro("offender", &offender, "A key that broke the rule of close_keys(), if any.")
      .def("read_ids", &read_ids, "first"_a, "count"_a);
  m.def("hash_integers", [](const Ids& keys) {
    return hash_array(keys.size(),
                      [&](size_t i) { return hash_integer(static_cast<uint64_t>(keys.data()[i])); });
  });
  m.def("hash_text", [](const Array1<uint64_t>& offsets, const Array1<uint8_t>& bytes) {
    return hash_array(std::max<size_t>(offsets.size(), 1) - 1,
                      [&](size_t i) { return hash_text(text_key(offsets.data(), i, text(bytes))); });
  });
}

}  // namespace

void bind_build(nb::module_& m) {
  bind_encoding(m);
  bind_columns(m);
  bind_builder(m);
  bind_ids(m);
}

}  // namespace gz
