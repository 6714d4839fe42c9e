#include "csv.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace gz {
namespace {

constexpr size_t kQuoteAtMost = 60;  // characters of a bad value shown in a message

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}
bool is_digit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

std::string quoted(std::string_view s) {
  std::string out = "'";
  for (char c : s.substr(0, kQuoteAtMost)) out += static_cast<unsigned char>(c) < 32 ? '?' : c;
  return out + (s.size() > kQuoteAtMost ? "...'" : "'");
}

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

enum class Parse { kOk, kNotANumber, kTooLarge };

// The integer `s` is, exactly; no sign but '-', no point, no blanks.
Parse parse_integer(std::string_view s, int64_t& out) {
  const auto [p, error] = std::from_chars(s.data(), s.data() + s.size(), out);
  if (error == std::errc::result_out_of_range && p == s.data() + s.size()) return Parse::kTooLarge;
  return error == std::errc() && p == s.data() + s.size() ? Parse::kOk : Parse::kNotANumber;
}

template <class T>
Parse parse_number(std::string_view s, T& out) {
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  const auto [p, error] = std::from_chars(s.data(), s.data() + s.size(), out);
  if (p != s.data() + s.size() || s.empty()) return Parse::kNotANumber;
  if (error == std::errc::result_out_of_range) {
    if constexpr (std::is_floating_point_v<T>) {
      // from_chars does not say whether it was too large or too near 0; strtod does.
      const double d = std::strtod(std::string(s).c_str(), nullptr);
      out = static_cast<T>(d);
      return std::isinf(d) || (sizeof(T) == 4 && std::abs(d) > 1) ? Parse::kTooLarge : Parse::kOk;
    }
    return Parse::kTooLarge;
  }
  return error == std::errc() ? Parse::kOk : Parse::kNotANumber;
}

template <class T>
std::string store_integer(std::string_view s, char* to) {
  int64_t v = 0;
  const Parse r = parse_integer(s, v);
  if (r == Parse::kNotANumber) return " is not an integer";
  const T t = static_cast<T>(v);
  if (r == Parse::kTooLarge || static_cast<int64_t>(t) != v) return " does not fit the column's integer type";
  std::memcpy(to, &t, sizeof t);
  return {};
}

template <class T>
std::string store_float(std::string_view s, char* to, const CsvValue& value) {
  T v = std::numeric_limits<T>::quiet_NaN();
  const Parse r = s.empty() && value.empty_is_nan ? Parse::kOk : parse_number(s, v);
  if (r == Parse::kNotANumber) return " is not a number";
  if (r == Parse::kTooLarge) return " is too large for the column's type";
  if (value.weight && (!std::isfinite(v) || v < 0))
    return " cannot be a weight: weights are finite and not negative";
  std::memcpy(to, &v, sizeof v);
  return {};
}

std::string store_bool(std::string_view s, char* to) {
  if (s == "1" || s == "true" || s == "True" || s == "TRUE")
    *to = 1;
  else if (s == "0" || s == "false" || s == "False" || s == "FALSE")
    *to = 0;
  else
    return " is neither true/false nor 1/0";
  return {};
}

// Empty when it went well, else what is wrong with the value.
std::string store_value(std::string_view s, const CsvValue& v, char* row) {
  char* to = row + v.offset;
  switch (v.dtype) {
    case DType::kBool:
      return store_bool(s, to);
    case DType::kUInt8:
      return store_integer<uint8_t>(s, to);
    case DType::kInt8:
      return store_integer<int8_t>(s, to);
    case DType::kInt16:
      return store_integer<int16_t>(s, to);
    case DType::kInt32:
      return store_integer<int32_t>(s, to);
    case DType::kInt64:
      return store_integer<int64_t>(s, to);
    case DType::kFloat32:
      return store_float<float>(s, to, v);
    case DType::kFloat64:
      return store_float<double>(s, to, v);
    default:
      return " cannot be read: text tables hold bool, integers, float32 and float64";
  }
}

// Cuts a line into fields. Quoted fields lose their quotes ("" inside is one quote) and may contain the
// delimiter.
class Fields {
 public:
  void split(std::string_view line, const CsvFormat& f) {
    views_.clear();
    size_t unquoted = 0;
    if (line.find('"') != std::string_view::npos) {
      if (store_.size() < line.size() + 1) store_.resize(line.size() + 1);
    }
    size_t i = 0;
    const size_t n = line.size();
    if (f.spaces)
      while (i < n && is_blank(line[i])) ++i;
    for (;;) {
      size_t start = i;
      while (!f.spaces && start < n && is_blank(line[start]) && line[start] != f.delimiter) ++start;
      if (start < n && line[start] == '"') {
        const size_t from = unquoted;
        i = start + 1;
        for (; i < n; ++i) {
          if (line[i] == '"') {
            if (i + 1 < n && line[i + 1] == '"')
              ++i;
            else
              break;
          }
          store_[unquoted++] = line[i];
        }
        views_.push_back({store_.data() + from, unquoted - from});
        i = std::min(n, i + 1);
        while (i < n && !ends(line[i], f)) ++i;
      } else {
        while (i < n && !ends(line[i], f)) ++i;
        views_.push_back(trim(line.substr(start, i - start)));
      }
      if (f.spaces)
        while (i + 1 < n && is_blank(line[i + 1])) ++i;
      if (i >= n || (f.spaces && i + 1 >= n)) return;
      ++i;
    }
  }
  const std::vector<std::string_view>& views() const { return views_; }

 private:
  static bool ends(char c, const CsvFormat& f) { return f.spaces ? is_blank(c) : c == f.delimiter; }
  std::vector<std::string_view> views_;
  std::vector<char> store_;
};

class Parser {
 public:
  Parser(const CsvFormat& f, CsvRows& rows) : f_(f), rows_(rows) {
    simple_ = f.keys.size() == 2 && f.keys[0] == 0 && f.keys[1] == 1 && f.num_fields == 2 &&
              f.values.empty() && !f.text_keys && !f.spaces;
    for (size_t k = 0; k < f.keys.size(); ++k)
      limit_[k] = f.key_limits.size() > k && f.key_limits[k] ? f.key_limits[k] : uint64_t{1} << 63;
  }

  void run(const char* begin, const char* end) {
    // A row takes at least one character per field and one for the delimiter or line end after each.
    const size_t most = static_cast<size_t>(end - begin) / std::max<size_t>(2, 2 * f_.num_fields) + 1;
    rows_.count = 0;
    rows_.lines = rows_.skipped = 0;
    rows_.bad = false;
    rows_.wide = f_.any_integer;
    if (!f_.text_keys)
      for (size_t k = 0; k < f_.keys.size(); ++k) rows_.keys[k].reserve(most * (rows_.wide ? 8 : 4));
    for (TextColumn& t : rows_.text) {
      t.offsets.assign(1, 0);
      t.bytes.clear();
    }
    rows_.payload.reserve(most * f_.payload);
    most_ = most;
    p_ = begin;
    end_ = end;
    if (simple_ && !rows_.wide) simple_rows();
    while (p_ < end_ && !rows_.bad) line();
  }

 private:
  // "digits delimiter digits newline", again and again. Returns when it meets an id of more than 32 bits (the
  // rows are then wide) or the end.
  void simple_rows() {
    uint32_t* src = rows_.keys[0].as<uint32_t>();
    uint32_t* dst = rows_.keys[1].as<uint32_t>();
    const char delimiter = f_.delimiter;
    const uint64_t src_limit = std::min<uint64_t>(limit_[0], uint64_t{1} << 32);
    const uint64_t dst_limit = std::min<uint64_t>(limit_[1], uint64_t{1} << 32);
    const char* p = p_;
    const char* const end = end_;
    size_t n = 0;
    const auto number = [](const char*& q, uint64_t& v) {
      Digits d = eight_digits(q);
      q += d.count;
      v = d.value;
      if (d.count == 8) {
        d = eight_digits(q);
        if (d.count > 4) return false;  // 13 digits and more: the exact path
        static constexpr uint64_t kPow[] = {1, 10, 100, 1000, 10000};
        q += d.count;
        v = v * kPow[d.count] + d.value;
        return true;
      }
      return d.count != 0;
    };
    while (p < end) {
      const char* q = p;
      uint64_t a, b;
      if (number(q, a) && *q == delimiter && number(++q, b) && a < src_limit && b < dst_limit) [[likely]] {
        q += *q == '\r';
        // The bytes after `end` are padding: a line may lack its newline only there.
        if (q >= end || *q == '\n') [[likely]] {
          if (q <= end) {
            src[n] = static_cast<uint32_t>(a);
            dst[n] = static_cast<uint32_t>(b);
            ++n;
            ++rows_.lines;
            p = q + 1;
            continue;
          }
        }
      }
      rows_.count = n;
      p_ = p;
      line();
      n = rows_.count;
      p = p_;
      if (rows_.wide || rows_.bad) return;
    }
    rows_.count = n;
    p_ = std::min(p, end);
  }

  void line() {
    const char* newline = static_cast<const char*>(std::memchr(p_, '\n', static_cast<size_t>(end_ - p_)));
    const char* stop = newline ? newline : end_;
    std::string_view text(p_, static_cast<size_t>(stop - p_));
    p_ = newline ? newline + 1 : end_;
    const uint64_t number = rows_.lines++;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    const std::string_view inner = trim(text);
    if (inner.empty() || inner.front() == '#') return;
    std::string problem = row(text);
    if (problem.empty()) return;
    if (f_.skip_bad) {
      if (rows_.skipped++ == 0) {
        rows_.first_skipped_line = number;
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
    fields_.split(text, f_);
    const auto& fields = fields_.views();
    if (fields.size() != f_.num_fields)
      return "has " + std::to_string(fields.size()) + " fields, expected " + std::to_string(f_.num_fields) +
             ": " + quoted(text);
    int64_t key[2] = {0, 0};
    for (size_t k = 0; k < f_.keys.size(); ++k) {
      const std::string_view s = fields[f_.keys[k]];
      if (f_.text_keys) {
        if (s.empty()) return field_name(f_.keys[k]) + "the id is empty";
        continue;
      }
      const std::string problem = integer_key(s, k, key[k]);
      if (!problem.empty()) return field_name(f_.keys[k]) + problem;
    }
    char* out = rows_.payload.data() + rows_.count * f_.payload;
    for (const CsvValue& v : f_.values) {
      const std::string problem = store_value(fields[v.field], v, out);
      if (!problem.empty()) return field_name(v.field) + quoted(fields[v.field]) + problem;
    }
    for (size_t k = 0; k < f_.keys.size(); ++k) {
      if (f_.text_keys) {
        rows_.text[k].bytes += fields[f_.keys[k]];
        rows_.text[k].offsets.push_back(rows_.text[k].bytes.size());
      } else {
        store_key(k, static_cast<uint64_t>(key[k]));
      }
    }
    ++rows_.count;
    return {};
  }

  std::string integer_key(std::string_view s, size_t k, int64_t& out) const {
    switch (parse_integer(s, out)) {
      case Parse::kNotANumber:
        if (s.empty()) return "the id is empty";
        return quoted(s) + " is not an integer id" +
               (f_.any_integer ? "" : " (ids that are text: ids=\"map\")");
      case Parse::kTooLarge:
        return quoted(s) + " does not fit a 64-bit integer";
      case Parse::kOk:
        break;
    }
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
      Buffer wide(most_ * 8);
      // The row being stored may have its first key in place already.
      for (size_t i = 0; i <= rows_.count && i < most_; ++i)
        wide.as<uint64_t>()[i] = rows_.keys[k].as<uint32_t>()[i];
      rows_.keys[k] = std::move(wide);
    }
    rows_.wide = true;
  }

  const CsvFormat& f_;
  CsvRows& rows_;
  bool simple_;
  uint64_t limit_[2] = {0, 0};
  size_t most_ = 0;
  const char* p_ = nullptr;
  const char* end_ = nullptr;
  Fields fields_;
};

}  // namespace

void parse_csv(const char* begin, const char* end, const CsvFormat& format, CsvRows& rows) {
  Parser(format, rows).run(begin, end);
}

std::vector<std::string> split_csv_line(std::string_view line, const CsvFormat& format) {
  Fields fields;
  fields.split(line, format);
  return {fields.views().begin(), fields.views().end()};
}

}  // namespace gz
