#include "bindings.h"
#include "builder.h"
#include "csv_source.h"
#include "id_map.h"
#include "writer.h"

namespace gz {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

size_t bytes_of(const AnyArray& a) {
  return a.size() * a.itemsize();
}

EdgeBatch edge_batch(const AnyArray& src, const AnyArray& dst, const std::optional<AnyArray>& payload,
                     size_t row) {
  if (src.ndim() != 1 || dst.ndim() != 1 || src.size() != dst.size() || src.itemsize() != dst.itemsize() ||
      (src.itemsize() != 4 && src.itemsize() != 8))
    throw std::invalid_argument("src and dst must be arrays of equal length and of 4 or 8-byte ids");
  if ((payload ? bytes_of(*payload) : 0) != src.size() * row)
    throw std::invalid_argument("the payload does not have one row per edge");
  return {.count = src.size(),
          .wide = src.itemsize() == 8,
          .src = src.data(),
          .dst = dst.data(),
          .payload = payload ? static_cast<const char*>(payload->data()) : nullptr};
}

template <class T>
nb::object own_array(std::shared_ptr<CsvRows> owner, T* data, size_t n) {
  return nb::cast(NumpyArray<T>(data, {n}, keep_alive(std::move(owner))));
}

// A piece of rows as numpy arrays over its own memory: (keys..., payload bytes or None).
nb::tuple rows_to_python(CsvRows&& moved, const CsvFormat& f) {
  auto r = std::make_shared<CsvRows>(std::move(moved));
  nb::list keys;
  for (size_t k = 0; k < f.keys.size(); ++k) {
    if (f.text_keys)
      keys.append(nb::make_tuple(
          own_array(r, r->text[k].offsets.data(), r->count + 1),
          own_array(r, reinterpret_cast<uint8_t*>(r->text[k].bytes.data()), r->text[k].bytes.size())));
    else if (r->wide)
      keys.append(own_array(r, r->keys[k].as<int64_t>(), r->count));
    else
      keys.append(own_array(r, r->keys[k].as<uint32_t>(), r->count));
  }
  nb::object payload = own_array(r, r->payload.as<uint8_t>(), r->count * f.payload);
  return nb::make_tuple(r->count, keys, payload);
}

nb::list rows_list(std::vector<CsvRows>& rows, const CsvFormat& f) {
  nb::list out;
  for (CsvRows& r : rows)
    if (r.count) out.append(rows_to_python(std::move(r), f));
  return out;
}

template <class Hash>
nb::object hash_array(size_t n, Hash&& hash) {
  auto out = std::make_shared<std::vector<uint64_t>>(n);
  {
    nb::gil_scoped_release release;
    for (size_t i = 0; i < n; ++i) (*out)[i] = hash(i);
  }
  uint64_t* data = out->data();
  return nb::cast(NumpyArray<uint64_t>(data, {n}, keep_alive(std::move(out))));
}

struct PyCsv {
  CsvFormat format;
  CsvSource source;
};

}  // namespace

void bind_ingest(nb::module_& m) {
  nb::class_<ColumnWriter>(m, "ColumnWriter")
      .def(
          "__init__",
          [](ColumnWriter* self, const std::string& path, const std::string& dtype,
             std::vector<uint64_t> row_shape) {
            new (self) ColumnWriter(path, dtype_from_name(dtype), std::move(row_shape));
          },
          nb::arg("path"), nb::arg("dtype"), nb::arg("row_shape"))
      .def(
          "append",
          [](ColumnWriter& self, const AnyArray& rows) {
            const void* data = rows.data();
            const size_t bytes = bytes_of(rows);
            nb::gil_scoped_release release;
            self.append(data, bytes);
          },
          nb::arg("rows"))
      .def("finish", &ColumnWriter::finish, nb::arg("zero_byte_rows") = 0,
           nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("row_bytes", &ColumnWriter::row_bytes);

  m.def(
      "seal_column",
      [](const std::string& path, const std::string& dtype, const std::vector<uint64_t>& shape) {
        nb::gil_scoped_release release;
        seal_column(path, dtype_from_name(dtype), shape);
      },
      nb::arg("path"), nb::arg("dtype"), nb::arg("shape"));

  nb::class_<EdgeColumn>(m, "EdgeColumn")
      .def(
          "__init__",
          [](EdgeColumn* self, const std::string& path, const std::string& dtype,
             std::vector<uint64_t> row_shape, size_t offset) {
            new (self) EdgeColumn{path, dtype_from_name(dtype), std::move(row_shape), offset};
          },
          nb::arg("path"), nb::arg("dtype"), nb::arg("row_shape"), nb::arg("offset"));

  nb::class_<Builder>(m, "Builder")
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
          nb::arg("directory"), nb::kw_only(), nb::arg("out") = false, nb::arg("payload") = 0,
          nb::arg("keep_ids") = false, nb::arg("positions") = false, nb::arg("ids_are_in_rows") = false,
          nb::arg("arrives_sorted") = false, nb::arg("sort_by_id") = true, nb::arg("coalesce") = false,
          nb::arg("undirected") = false, nb::arg("self_loops") = "keep",
          nb::arg("loop_payload") = nb::bytes("", 0), nb::arg("weight_offset") = nb::none(),
          nb::arg("memory") = uint64_t{1} << 30, nb::arg("expected_nodes") = 0)
      .def(
          "add",
          [](Builder& self, const AnyArray& src, const AnyArray& dst, std::optional<AnyArray> payload,
             uint64_t src_limit, uint64_t dst_limit) {
            EdgeBatch batch = edge_batch(src, dst, payload, self.payload());
            batch.src_limit = src_limit;
            batch.dst_limit = dst_limit;
            nb::gil_scoped_release release;
            self.add(batch);
          },
          nb::arg("src"), nb::arg("dst"), nb::arg("payload") = nb::none(), nb::arg("src_limit") = UINT64_MAX,
          nb::arg("dst_limit") = UINT64_MAX)
      .def("begin", &Builder::begin, nb::arg("path"), nb::arg("num_nodes"), nb::arg("num_other"),
           nb::arg("columns"), nb::call_guard<nb::gil_scoped_release>())
      .def("step", &Builder::step, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("progress", &Builder::progress)
      .def_prop_ro("num_input_edges", &Builder::num_input_edges)
      .def_prop_ro("nodes_seen", &Builder::nodes_seen)
      .def_prop_ro("others_seen", &Builder::others_seen)
      .def_prop_ro("num_edges", &Builder::num_edges)
      .def_prop_ro("num_edge_ids", &Builder::num_edge_ids)
      .def_prop_ro("spilled_bytes", &Builder::spilled_bytes);
  m.def("add_transposed", &add_transposed, nb::arg("out"), nb::arg("in_path"), nb::arg("begin"),
        nb::arg("memory"), nb::call_guard<nb::gil_scoped_release>());

  nb::class_<CsvFormat>(m, "CsvFormat")
      .def(
          "__init__",
          [](CsvFormat* self, const std::string& delimiter, size_t num_fields, std::vector<size_t> keys,
             bool text_keys, bool any_integer, std::vector<uint64_t> key_limits, bool skip_bad,
             std::vector<std::string> names) {
            new (self) CsvFormat{};
            self->spaces = delimiter == " ";
            self->delimiter = delimiter.empty() ? ',' : delimiter[0];
            self->num_fields = num_fields;
            self->keys = std::move(keys);
            self->text_keys = text_keys;
            self->any_integer = any_integer;
            self->key_limits = std::move(key_limits);
            self->skip_bad = skip_bad;
            self->names = std::move(names);
            if (self->keys.size() > 2) throw std::invalid_argument("a line has at most two ids");
          },
          nb::arg("delimiter"), nb::arg("num_fields") = 0, nb::arg("keys") = std::vector<size_t>{},
          nb::arg("text_keys") = false, nb::arg("any_integer") = false,
          nb::arg("key_limits") = std::vector<uint64_t>{}, nb::arg("skip_bad") = false,
          nb::arg("names") = std::vector<std::string>{})
      .def(
          "add_value",
          [](CsvFormat& self, size_t field, const std::string& dtype, size_t offset, bool weight,
             bool empty_is_nan) {
            const DType t = dtype_from_name(dtype);
            self.values.push_back({field, t, offset, weight, empty_is_nan});
            self.payload = std::max(self.payload, offset + dtype_bytes(t));
          },
          nb::arg("field"), nb::arg("dtype"), nb::arg("offset"), nb::arg("weight") = false,
          nb::arg("empty_is_nan") = false)
      .def("set_payload", [](CsvFormat& self, size_t bytes) { self.payload = std::max(self.payload, bytes); })
      .def_ro("payload", &CsvFormat::payload)
      .def("split",
           [](const CsvFormat& self, const std::string& line) { return split_csv_line(line, self); });

  nb::class_<PyCsv>(m, "CsvSource")
      .def(
          "__init__",
          [](PyCsv* self, const std::string& name, const CsvFormat& format, uint64_t lines_before,
             size_t piece_bytes) {
            new (self) PyCsv{format, CsvSource(name, format, lines_before, piece_bytes)};
          },
          nb::arg("name"), nb::arg("format"), nb::arg("lines_before") = 0,
          nb::arg("piece_bytes") = size_t{8} << 20)
      .def("open_file", [](PyCsv& self, uint64_t offset) { self.source.open_file(offset); })
      .def("file_to_builder",
           [](PyCsv& self, Builder& b) {
             nb::gil_scoped_release release;
             return self.source.file_to(b);
           })
      .def("file_to_rows",
           [](PyCsv& self) {
             std::vector<CsvRows> rows;
             bool more;
             {
               nb::gil_scoped_release release;
               more = self.source.file_to(rows);
             }
             return nb::make_tuple(more, rows_list(rows, self.format));
           })
      .def("text_to_builder",
           [](PyCsv& self, Builder& b, const nb::bytes& text) {
             const char* data = text.c_str();
             const size_t n = text.size();
             nb::gil_scoped_release release;
             self.source.text_to(b, data, n);
           })
      .def("text_to_rows",
           [](PyCsv& self, const nb::bytes& text) {
             std::vector<CsvRows> rows;
             const char* data = text.c_str();
             const size_t n = text.size();
             {
               nb::gil_scoped_release release;
               self.source.text_to(rows, data, n);
             }
             return rows_list(rows, self.format);
           })
      .def_prop_ro("position", [](const PyCsv& s) { return s.source.position(); })
      .def_prop_ro("lines", [](const PyCsv& s) { return s.source.lines(); })
      .def_prop_ro("skipped", [](const PyCsv& s) { return s.source.skipped(); })
      .def_prop_ro("first_skipped", [](const PyCsv& s) { return s.source.first_skipped(); });

  nb::class_<IdAssigner>(m, "IdAssigner")
      .def(nb::init<const std::string&, bool, uint64_t>(), nb::arg("directory"), nb::arg("text"),
           nb::arg("memory"))
      .def("add_integers",
           [](IdAssigner& self, const Array1<int64_t>& keys) {
             nb::gil_scoped_release release;
             self.add_integers(keys.data(), keys.size());
           })
      .def("add_text",
           [](IdAssigner& self, const Array1<uint64_t>& offsets, const Array1<uint8_t>& bytes) {
             if (offsets.size() == 0 || offsets.data()[offsets.size() - 1] > bytes.size())
               throw std::invalid_argument("text offsets reach past the text");
             nb::gil_scoped_release release;
             self.add_text(offsets.data(), reinterpret_cast<const char*>(bytes.data()), offsets.size() - 1);
           })
      .def("close_keys", &IdAssigner::close_keys)
      .def("begin", &IdAssigner::begin, nb::arg("prefix"))
      .def("step", &IdAssigner::step, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("num_ids", &IdAssigner::num_ids)
      .def_prop_ro("num_added", &IdAssigner::num_added)
      .def_prop_ro("offender",
                   [](const IdAssigner& self) -> std::optional<std::pair<uint64_t, std::string>> {
                     if (self.offender() == UINT64_MAX) return std::nullopt;
                     return std::pair{self.offender(), self.offending_key()};
                   })
      .def("read_ids", [](const IdAssigner& self, uint64_t first, size_t count) {
        auto out = std::make_shared<std::vector<uint64_t>>(count);
        {
          nb::gil_scoped_release release;
          self.read_ids(first, count, out->data());
        }
        uint64_t* data = out->data();
        return NumpyArray<uint64_t>(data, {count}, keep_alive(std::move(out)));
      });
  m.def("hash_integers", [](const Array1<int64_t>& keys) {
    return hash_array(keys.size(),
                      [&](size_t i) { return hash_integer(static_cast<uint64_t>(keys.data()[i])); });
  });
  m.def("hash_text", [](const Array1<uint64_t>& offsets, const Array1<uint8_t>& bytes) {
    const auto* p = reinterpret_cast<const char*>(bytes.data());
    return hash_array(offsets.size() ? offsets.size() - 1 : 0, [&](size_t i) {
      return hash_text({p + offsets.data()[i], offsets.data()[i + 1] - offsets.data()[i]});
    });
  });
}

}  // namespace gz
