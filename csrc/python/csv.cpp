// Text tables.
#include <nanobind/stl/pair.h>

#include "csv/csv_source.h"
#include "python/bindings.h"

namespace gz {
namespace {

// The rows need the format they were read in: how many keys, and how long a payload.
struct PyCsvSource {
  CsvFormat format;
  CsvSource source;
};

struct PyTextKeys {
  Field<uint64_t> offsets;
  Field<uint8_t> bytes;
};

struct PyCsvRows {
  size_t count;
  nb::list keys;
  nb::list texts;
  Field<uint8_t> payload;
};

using RowsList = nb::typed<nb::list, PyCsvRows>;

template <class T>
Field<T> buffer_to_numpy(Buffer&& buffer, size_t n) {
  auto* owner = new Buffer(std::move(buffer));
  return array_over(owner->as<T>(), {n}, owner);
}

PyTextKeys text_to_python(TextColumn&& text, size_t count) {
  auto* offsets = new std::vector<uint64_t>(std::move(text.offsets));
  auto* bytes = new std::string(std::move(text.bytes));
  return {array_over(offsets->data(), {count + 1}, offsets),
          array_over(reinterpret_cast<uint8_t*>(bytes->data()), {bytes->size()}, bytes)};
}

PyCsvRows rows_to_python(CsvRows&& r, const CsvFormat& f) {
  PyCsvRows out{r.count, {}, {}, buffer_to_numpy<uint8_t>(std::move(r.payload), r.count * f.payload)};
  for (size_t k = 0; k < f.keys.size(); ++k) {
    if (f.text_keys)
      out.keys.append(text_to_python(std::move(r.text[k]), r.count));
    else if (r.wide)
      out.keys.append(buffer_to_numpy<int64_t>(std::move(r.keys[k]), r.count));
    else
      out.keys.append(buffer_to_numpy<uint32_t>(std::move(r.keys[k]), r.count));
  }
  for (TextColumn& text : r.texts) out.texts.append(text_to_python(std::move(text), r.count));
  return out;
}

RowsList rows_list(std::vector<CsvRows>& rows, const CsvFormat& f) {
  RowsList out;
  for (CsvRows& r : rows)
    if (r.count) out.append(rows_to_python(std::move(r), f));
  return out;
}

std::pair<bool, RowsList> file_to_rows(PyCsvSource& self) {
  std::vector<CsvRows> rows;
  bool more = without_gil([&] { return self.source.file_to(rows); });
  return {more, rows_list(rows, self.format)};
}

RowsList text_to_rows(PyCsvSource& self, const nb::bytes& text) {
  std::vector<CsvRows> rows;
  const char* data = text.c_str();
  const size_t n = text.size();
  without_gil([&] { self.source.text_to(rows, data, n); });
  return rows_list(rows, self.format);
}
}  // namespace

void bind_csv(nb::module_& m) {
  nb::class_<CsvFormat>(m, "CsvFormat", "What the lines of a table hold, and where it goes.")
      .def(
          "__init__",
          [](CsvFormat* self, const std::string& delimiter, size_t num_fields, std::vector<size_t> keys,
             bool text_keys, bool any_integer, std::vector<uint64_t> key_limits, bool skip_bad,
             std::vector<std::string> names, bool strict_integers, bool comments) {
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
            self->strict_integers = strict_integers;
            self->comments = comments;
            if (self->keys.size() > 2) throw std::invalid_argument("a line has at most two ids");
          },
          "delimiter"_a, "num_fields"_a = 0, "keys"_a = std::vector<size_t>{}, "text_keys"_a = false,
          "any_integer"_a = false, "key_limits"_a = std::vector<uint64_t>{}, "skip_bad"_a = false,
          "names"_a = std::vector<std::string>{}, "strict_integers"_a = false, "comments"_a = true)
      .def(
          "add_value",
          [](CsvFormat& self, size_t field, const std::string& dtype, size_t offset, bool weight,
             bool empty_is_nan) {
            const DType t = dtype_from_name(dtype);
            self.values.push_back({field, t, offset, weight, empty_is_nan});
            self.payload = std::max(self.payload, offset + dtype_bytes(t));
          },
          "field"_a, "dtype"_a, "offset"_a, "weight"_a = false, "empty_is_nan"_a = false)
      .def(
          "add_text", [](CsvFormat& self, size_t field) { self.texts.push_back(field); }, "field"_a,
          "A field that is handed on as it stands.")
      .def("set_payload", [](CsvFormat& self, size_t bytes) { self.payload = std::max(self.payload, bytes); })
      .def_ro("payload", &CsvFormat::payload)
      .def("split",
           [](const CsvFormat& self, const std::string& line) { return split_csv_line(line, self); });

  nb::class_<PyTextKeys>(m, "TextKeys", "Keys as text: offsets[i] to offsets[i + 1] of bytes.")
      .def_ro("offsets", &PyTextKeys::offsets)
      .def_ro("bytes", &PyTextKeys::bytes);
  nb::class_<PyCsvRows>(
      m, "CsvRows",
      "Rows of a table: how many, their keys (an array or TextKeys for each key field), fields handed on as "
      "text, and their values packed into payload.")
      .def_ro("count", &PyCsvRows::count)
      .def_ro("keys", &PyCsvRows::keys)
      .def_ro("texts", &PyCsvRows::texts)
      .def_ro("payload", &PyCsvRows::payload);
  nb::class_<PyCsvSource>(m, "CsvSource", "A table, read piece by piece on all threads.")
      .def(
          "__init__",
          [](PyCsvSource* self, const std::string& name, const CsvFormat& format, uint64_t lines_before,
             size_t piece_bytes) {
            new (self) PyCsvSource{format, CsvSource(name, format, lines_before, piece_bytes)};
          },
          "name"_a, "format"_a, "lines_before"_a = 0, "piece_bytes"_a = size_t{8} << 20)
      .def(
          "open_file", [](PyCsvSource& self, int fd, uint64_t offset) { self.source.open_file(fd, offset); },
          "fd"_a, "offset"_a, "Reads the open file from there on; the descriptor stays the caller's.")
      .def("file_to_builder",
           [](PyCsvSource& self, Builder& b) { return without_gil([&] { return self.source.file_to(b); }); })
      .def("file_to_rows", &file_to_rows, "Whether there is more, and the next rows.")
      .def("text_to_builder",
           [](PyCsvSource& self, Builder& b, const nb::bytes& text) {
             const char* data = text.c_str();
             const size_t n = text.size();
             without_gil([&] { self.source.text_to(b, data, n); });
           })
      .def("text_to_rows", &text_to_rows, "text"_a)
      .def_prop_ro("position", [](const PyCsvSource& s) { return s.source.position(); })
      .def_prop_ro("lines", [](const PyCsvSource& s) { return s.source.lines(); })
      .def_prop_ro("skipped", [](const PyCsvSource& s) { return s.source.skipped(); })
      .def_prop_ro("first_skipped", [](const PyCsvSource& s) { return s.source.first_skipped(); });
}

}  // namespace gz
