#include "csv/csv_fields.h"

#include <algorithm>
#include <cstring>

namespace gz {
namespace {

constexpr size_t kShownAtMost = 60;  // bytes of a value in a message

bool ends_field(char c, const CsvFormat& f) {
  return f.spaces ? is_blank(c) : c == f.delimiter;
}

// Bytes of the UTF-8 sequence that `s` starts with; 0 where it starts with none. By the table of well-formed
// sequences in the Unicode standard (3.9): no surrogates, no overlong forms.
size_t utf8_length(std::string_view s) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto continues = [&](size_t from, size_t until) {
    if (s.size() < until) return false;
    for (size_t i = from; i < until; ++i)
      if ((byte(i) & 0xC0) != 0x80) return false;
    return true;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1, 2) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!continues(1, 3)) return 0;
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;
    if (lead == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!continues(1, 4)) return 0;
    if (lead == 0xF0 && byte(1) < 0x90) return 0;
    if (lead == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

bool is_ascii(std::string_view s) {
  unsigned char all = 0;  // no way out of the loop: so it is done sixteen bytes at a time
  for (const char c : s) all |= static_cast<unsigned char>(c);
  return all < 0x80;
}

bool is_utf8(std::string_view s) {
  while (!s.empty()) {
    const size_t n = utf8_length(s);
    if (n == 0) return false;
    s.remove_prefix(n);
  }
  return true;
}

std::string quoted(std::string_view s) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "'";
  for (size_t i = 0; i < s.size();) {
    const size_t n = utf8_length(s.substr(i));
    if (i + std::max<size_t>(n, 1) > kShownAtMost) return out + "...'";
    const auto c = static_cast<unsigned char>(s[i]);
    if (n == 0)
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
    else if (c < 32 || c == 127)
      out += '?';
    else
      out += s.substr(i, n);
    i += std::max<size_t>(n, 1);
  }
  return out + "'";
}

// The field whose opening quote is at `at`; returns where it ends, at a delimiter or at the end of the line.
size_t CsvFields::quoted_field(std::string_view line, size_t at, const CsvFormat& f, const char*& problem) {
  const size_t n = line.size(), from = unquoted_size_;
  bool closed = false;
  for (++at; at < n; ++at) {
    if (line[at] == '"') {
      if (at + 1 < n && line[at + 1] == '"') {
        ++at;
      } else {
        closed = true;
        break;
      }
    }
    unquoted_[unquoted_size_++] = line[at];
  }
  views_.push_back({unquoted_.data() + from, unquoted_size_ - from});
  if (!closed) {
    problem =
        "a quote is opened and not closed on this line; where fields go over several lines, give the "
        "frame that pandas or pyarrow reads, instead of the file";
    return n;
  }
  for (++at; at < n && !ends_field(line[at], f); ++at)
    if (!is_blank(line[at])) problem = "there is text after a closing quote";
  return at;
}

const char* CsvFields::split(std::string_view line, const CsvFormat& f) {
  views_.clear();
  unquoted_size_ = 0;
  if (unquoted_.size() < line.size() && std::memchr(line.data(), '"', line.size()))
    unquoted_.resize(line.size());
  return f.spaces ? split_at_blanks(line, f) : split_at_delimiter(line, f);
}

const char* CsvFields::split_at_delimiter(std::string_view line, const CsvFormat& f) {
  const char* problem = nullptr;
  const char delimiter = f.delimiter;
  const size_t n = line.size();
  for (size_t i = 0;; ++i) {
    size_t start = i;
    while (start < n && is_blank(line[start]) && line[start] != delimiter) ++start;
    if (start < n && line[start] == '"') {
      i = quoted_field(line, start, f, problem);
    } else {
      i = start;
      while (i < n && line[i] != delimiter) ++i;
      size_t stop = i;
      while (stop > start && is_blank(line[stop - 1])) --stop;
      views_.emplace_back(line.data() + start, stop - start);
    }
    if (i >= n) return problem;
  }
}

const char* CsvFields::split_at_blanks(std::string_view line, const CsvFormat& f) {
  const char* problem = nullptr;
  line = trim(line);
  for (size_t i = 0; i < line.size();) {
    const size_t start = i;
    if (line[i] == '"') {
      i = quoted_field(line, i, f, problem);
    } else {
      while (i < line.size() && !is_blank(line[i])) ++i;
      views_.push_back(line.substr(start, i - start));
    }
    while (i < line.size() && is_blank(line[i])) ++i;
  }
  return problem;
}

}  // namespace gz
