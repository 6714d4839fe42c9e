#include "csv/csv.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "csv/csv_fields.h"
#include "csv/csv_value.h"
#include "read/check.h"

namespace gz {
namespace {

constexpr const char* kSkip =
    "; mend the line or take it away, or, of edges, skip such lines: on_bad_line=\"skip\" (--on-bad-line "
    "skip)";
// Lines that end in CR alone are one line here, and its fields would hold line ends.
constexpr const char* kLoneReturn =
    "holds a carriage return that ends no line; where lines end in CR alone, convert the file "
    "(tr '\\r' '\\n'): ";

// Up to eight leading digits of the 8 bytes at p: their number and value.
struct Digits {
  unsigned count;
  uint64_t value;
};
inline Digits eight_digits(const char* p) {
  uint64_t w;
  std::memcpy(&w, p, 8);
  const uint64_t t = w ^ 0x3030303030303030ull;  // digits become 0..9, others have a higher nibble or > 9
  const uint64_t other = ((t + 0x7676767676767676ull) | t) & 0x8080808080808080ull;
  const unsigned n = other ? static_cast<unsigned>(std::countr_zero(other)) >> 3 : 8;
  if (n == 0) return {0, 0};
  uint64_t v = t << (64 - 8 * n);  // first digit lowest, zeros before it
  v = (v * 10) + (v >> 8);
  v = (((v & 0x000000FF000000FFull) * 0x000F424000000064ull) +
       (((v >> 16) & 0x000000FF000000FFull) * 0x0000271000000001ull)) >>
      32;
  return {n, v & 0xFFFFFFFFull};
}

// The decimal number at q, which moves past it; false for what needs the exact path.
inline bool decimal(const char*& q, uint64_t& v) {
  Digits d = eight_digits(q);
  q += d.count;
  v = d.value;
  if (d.count < 8) return d.count != 0;
  d = eight_digits(q);
  if (d.count > 4) return false;  // 13 digits and more
  static constexpr uint64_t kPow[] = {1, 10, 100, 1000, 10000};
  q += d.count;
  v = v * kPow[d.count] + d.value;
  return true;
}

// A zero with another digit after it. One readable byte must follow p.
inline bool padded(const char* p) {
  return *p == '0' && p[1] >= '0' && p[1] <= '9';
}

class Parser {
 public:
  Parser(const CsvFormat& f, CsvRows& rows) : f_(f), rows_(rows) {
    simple_ = f.keys.size() == 2 && f.keys[0] == 0 && f.keys[1] == 1 && f.num_fields == 2 &&
              f.values.empty() && f.texts.empty() && !f.text_keys && !f.spaces;
    for (size_t k = 0; k < f.keys.size(); ++k)
      limit_[k] = f.key_limits.size() > k && f.key_limits[k] ? f.key_limits[k] : uint64_t{1} << 63;
  }

  void run(const char* begin, const char* end) {
    // A guess that tables without empty fields keep to: a character for each field, and one after it.
    const size_t guess = static_cast<size_t>(end - begin) / std::max<size_t>(2, 2 * f_.num_fields) + 1;
    make_room(rows_.count + guess, rows_.count);
    p_ = begin;
    end_ = end;
    ascii_ = (f_.text_keys || !f_.texts.empty()) && is_ascii({begin, static_cast<size_t>(end - begin)});
    if (simple_ && !rows_.wide) simple_rows();
    while (p_ < end_ && !rows_.bad) line();
  }

 private:
  // Memory for `rows` rows, and `spare` more where it must be had anew; those that are there stay.
  void make_room(size_t rows, size_t spare) {
    const auto fit = [&](Buffer& buffer, size_t row_bytes) {
      if (checked_product(rows, row_bytes) <= buffer.capacity()) return;
      Buffer larger(checked_product(rows + spare, row_bytes));
      if (rows_.count) std::memcpy(larger.data(), buffer.data(), rows_.count * row_bytes);
      buffer = std::move(larger);
    };
    for (size_t k = 0; k < f_.keys.size() && !f_.text_keys; ++k) fit(rows_.keys[k], rows_.wide ? 8 : 4);
    fit(rows_.payload, f_.payload);
    room_ = rows;
  }

  // "digits delimiter digits newline", again and again. Returns when it meets an id of more than 32 bits (the
  // rows are then wide) or the end. Any other line, and one for which there is no room, goes to line().
  void simple_rows() {
    const char delimiter = f_.delimiter;
    const uint64_t src_limit = std::min<uint64_t>(limit_[0], uint64_t{1} << 32);
    const uint64_t dst_limit = std::min<uint64_t>(limit_[1], uint64_t{1} << 32);
    const char* const end = end_;
    while (p_ < end && !rows_.wide && !rows_.bad) {
      uint32_t* const src = rows_.keys[0].as<uint32_t>();
      uint32_t* const dst = rows_.keys[1].as<uint32_t>();
      const size_t room = room_;
      const char* p = p_;
      const size_t first = rows_.count;
      size_t n = first;
      while (p < end && n < room) {
        const char* q = p;
        uint64_t a, b;
        if (f_.strict_integers && padded(q)) break;
        if (!decimal(q, a) || *q != delimiter) break;
        if (f_.strict_integers && padded(q + 1)) break;
        if (!decimal(++q, b) || a >= src_limit || b >= dst_limit) break;
        q += *q == '\r';
        // The bytes after `end` are padding: a line may lack its newline only there.
        if (q > end || (q < end && *q != '\n')) break;
        src[n] = static_cast<uint32_t>(a);
        dst[n] = static_cast<uint32_t>(b);
        ++n;
        p = q + 1;
      }
      rows_.count = n;
      rows_.lines += n - first;
      p_ = std::min(p, end);
      if (p_ < end) line();
    }
  }

  void line() {
    const char* newline = static_cast<const char*>(std::memchr(p_, '\n', static_cast<size_t>(end_ - p_)));
    const char* stop = newline ? newline : end_;
    std::string_view text(p_, static_cast<size_t>(stop - p_));
    p_ = newline ? newline + 1 : end_;
    const uint64_t number = rows_.lines++;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    const std::string_view inner = trim(text);
    if (inner.empty() || (f_.comments && inner.front() == '#')) return;
    std::string problem = row(text);
    if (problem.empty()) return;
    if (f_.skip_bad) {
      if (rows_.skipped++ == 0) {
        rows_.first_skipped_line = number;
        if (problem.ends_with(kSkip)) problem.resize(problem.size() - std::strlen(kSkip));
        rows_.first_skipped_message = std::move(problem);
      }
      return;
    }
    rows_.bad = true;
    rows_.bad_line = number;
    rows_.bad_message = std::move(problem);
  }

  std::string field_name(size_t field) const {
    if (field < f_.names.size() && !f_.names[field].empty())
      return "column " + quoted(f_.names[field]) + ": ";
    return "column " + std::to_string(field + 1) + ": ";
  }

  // Empty when the row was stored, else the problem.
  std::string row(std::string_view text) {
    if (const char* wrong = fields_.split(text, f_)) return wrong + (": " + quoted(text));
    if ((f_.text_keys || !f_.texts.empty()) && has(text, '\r') && !has(text, '"'))
      return kLoneReturn + quoted(text);
    const auto& fields = fields_.views();
    if (fields.size() != f_.num_fields)
      return "has " + std::to_string(fields.size()) + " fields, expected " + std::to_string(f_.num_fields) +
             ": " + quoted(text) + kSkip;
    int64_t key[2] = {0, 0};
    for (size_t k = 0; k < f_.keys.size(); ++k) {
      const std::string_view s = fields[f_.keys[k]];
      if (f_.text_keys && !s.empty() && (ascii_ || is_utf8(s))) continue;
      const std::string problem = f_.text_keys ? wrong_text(s) : integer_key(s, k, key[k]);
      if (!problem.empty()) return field_name(f_.keys[k]) + problem;
    }
    for (const size_t field : f_.texts)
      if (!ascii_ && !is_utf8(fields[field])) return field_name(field) + wrong_text(fields[field]);
    if (rows_.count == room_) make_room(2 * room_, 0);
    char* out = rows_.payload.data() + rows_.count * f_.payload;
    for (const CsvValue& v : f_.values) {
      const std::string problem = store_value(fields[v.field], v, out);
      if (!problem.empty()) return field_name(v.field) + quoted(fields[v.field]) + problem;
    }
    const auto append = [&](TextColumn& to, size_t field) {
      to.bytes += fields[field];
      to.offsets.push_back(to.bytes.size());
    };
    for (size_t i = 0; i < f_.texts.size(); ++i) append(rows_.texts[i], f_.texts[i]);
    for (size_t k = 0; k < f_.keys.size(); ++k) {
      if (f_.text_keys) {
        append(rows_.text[k], f_.keys[k]);
      } else {
        store_key(k, static_cast<uint64_t>(key[k]));
      }
    }
    ++rows_.count;
    return {};
  }

  static bool has(std::string_view s, char c) { return std::memchr(s.data(), c, s.size()) != nullptr; }

  static std::string wrong_text(std::string_view s) {
    if (s.empty()) return "the id is empty" + std::string(kSkip);
    return quoted(s) + " is not UTF-8 text; convert the file (iconv -t UTF-8)";
  }

  std::string integer_key(std::string_view s, size_t k, int64_t& out) const {
    switch (parse_integer(s, out)) {
      case NumberText::kNotANumber:
        if (s.empty()) return "the id is empty" + std::string(kSkip);
        return quoted(s) + " is not an integer id" +
               (f_.any_integer ? "; where ids are text, say ids=\"text\" (--ids text)"
                               : "; where ids are names, say ids=\"text\" (--ids text)");
      case NumberText::kTooLarge:
        return quoted(s) + " does not fit a 64-bit integer; ids=\"text\" (--ids text) takes it as it stands";
      case NumberText::kOk:
        break;
    }
    if (f_.strict_integers && s.size() > size_t{1} + (s.front() == '-') && s[s.front() == '-'] == '0')
      return quoted(s) + " has a leading zero, so it may be text or the number " + std::to_string(out) +
             "; say ids=\"text\" or ids=\"int\" (--ids text, --ids int)";
    if (f_.any_integer) return {};
    if (out < 0) return quoted(s) + " is negative; node ids start at 0 (ids=\"map\" takes any integer)";
    if (static_cast<uint64_t>(out) >= limit_[k])
      return quoted(s) + " is out of range: there are " + std::to_string(limit_[k]) +
             " nodes, ids are 0 to " + std::to_string(limit_[k] - 1);
    return {};
  }

  void store_key(size_t k, uint64_t v) {
    if (!rows_.wide && v > UINT32_MAX) widen();
    if (rows_.wide)
      rows_.keys[k].as<uint64_t>()[rows_.count] = v;
    else
      rows_.keys[k].as<uint32_t>()[rows_.count] = static_cast<uint32_t>(v);
  }

  void widen() {
    for (size_t k = 0; k < f_.keys.size(); ++k) {
      Buffer wide(room_ * 8);
      // The row being stored may have its first key in place already.
      for (size_t i = 0; i <= rows_.count; ++i) wide.as<uint64_t>()[i] = rows_.keys[k].as<uint32_t>()[i];
      rows_.keys[k] = std::move(wide);
    }
    rows_.wide = true;
  }

  const CsvFormat& f_;
  CsvRows& rows_;
  bool simple_;
  uint64_t limit_[2] = {0, 0};
  size_t room_ = 0;     // rows that fit
  bool ascii_ = false;  // all of the text is
  const char* p_ = nullptr;
  const char* end_ = nullptr;
  CsvFields fields_;
};

}  // namespace

void CsvRows::clear(const CsvFormat& format) {
  count = 0;
  lines = skipped = 0;
  bad = false;
  wide = format.any_integer;
  texts.resize(format.texts.size());
  const auto empty = [](TextColumn& t) {
    t.offsets.assign(1, 0);
    t.bytes.clear();
  };
  for (TextColumn& t : text) empty(t);
  for (TextColumn& t : texts) empty(t);
}

void parse_csv(const char* begin, const char* end, const CsvFormat& format, CsvRows& rows) {
  Parser(format, rows).run(begin, end);
}

std::vector<std::string> split_csv_line(std::string_view line, const CsvFormat& format) {
  CsvFields fields;
  fields.split(line, format);
  return {fields.views().begin(), fields.views().end()};
}

}  // namespace gz
