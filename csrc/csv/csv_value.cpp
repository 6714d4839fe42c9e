#include "csv/csv_value.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

namespace gz {

NumberText parse_integer(std::string_view s, int64_t& out) {
  const auto [p, error] = std::from_chars(s.data(), s.data() + s.size(), out);
  if (error == std::errc::result_out_of_range && p == s.data() + s.size()) return NumberText::kTooLarge;
  return error == std::errc() && p == s.data() + s.size() ? NumberText::kOk : NumberText::kNotANumber;
}

namespace {

constexpr const char* kChoose =
    ", as the first lines of this column are; give its dtype (text, float64, ...)";
constexpr const char* kEmpty = ": nothing stands here; nulls= names a value for it (--null COLUMN=VALUE)";

template <class T>
NumberText parse_number(std::string_view s, T& out) {
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  const auto [p, error] = std::from_chars(s.data(), s.data() + s.size(), out);
  if (p != s.data() + s.size() || s.empty()) return NumberText::kNotANumber;
  if (error == std::errc::result_out_of_range) {
    // from_chars does not say whether it was too large or too near 0; strtod does.
    const double d = std::strtod(std::string(s).c_str(), nullptr);
    out = static_cast<T>(d);
    return std::isinf(d) || (sizeof(T) == 4 && std::abs(d) > 1) ? NumberText::kTooLarge : NumberText::kOk;
  }
  return error == std::errc() ? NumberText::kOk : NumberText::kNotANumber;
}

template <class T>
std::string store_integer(std::string_view s, char* to) {
  int64_t v = 0;
  const NumberText r = parse_integer(s, v);
  if (r == NumberText::kNotANumber) return s.empty() ? kEmpty : std::string(" is not an integer") + kChoose;
  const T t = static_cast<T>(v);
  if (r == NumberText::kTooLarge || static_cast<int64_t>(t) != v)
    return " does not fit the column's integer type; give its dtype (int64, float64, text)";
  std::memcpy(to, &t, sizeof t);
  return {};
}

template <class T>
std::string store_float(std::string_view s, char* to, const CsvValue& value) {
  T v = std::numeric_limits<T>::quiet_NaN();
  const NumberText r = s.empty() && value.empty_is_nan ? NumberText::kOk : parse_number(s, v);
  if (r == NumberText::kNotANumber && value.weight && !s.empty())
    return " is not a number, as a weight must be; choose another column with weight= (--weight)";
  if (r == NumberText::kNotANumber) return s.empty() ? kEmpty : std::string(" is not a number") + kChoose;
  if (r == NumberText::kTooLarge)
    return " is too large for the column's type; give its dtype (float64, text)";
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
    return s.empty() ? kEmpty : std::string(" is neither true/false nor 1/0") + kChoose;
  return {};
}

}  // namespace

std::string store_value(std::string_view s, const CsvValue& value, char* row) {
  char* to = row + value.offset;
  switch (value.dtype) {
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
      return store_float<float>(s, to, value);
    case DType::kFloat64:
      return store_float<double>(s, to, value);
    default:
      return " cannot be read: text tables hold bool, integers, float32 and float64";
  }
}

}  // namespace gz
