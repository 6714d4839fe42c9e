// A line of text cut into fields, and text shown in messages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "csv/csv.h"

namespace gz {

inline bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

inline std::string_view trim(std::string_view s) {
  while (!s.empty() && is_blank(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_blank(s.back())) s.remove_suffix(1);
  return s;
}

bool is_ascii(std::string_view s);
bool is_utf8(std::string_view s);

// Text for a message: in quotes, at most 60 bytes of it, always UTF-8 (other bytes as \xNN), no control
// characters.
std::string quoted(std::string_view s);

// Quoted fields lose their quotes ("" inside is one quote) and may contain the delimiter.
class CsvFields {
 public:
  // Null, or what is wrong with the quotes of the line. The fields are then those of a reader that does not
  // mind, for finding out how a file is laid out.
  const char* split(std::string_view line, const CsvFormat& format);
  const std::vector<std::string_view>& views() const { return views_; }  // valid while the line is

 private:
  const char* split_at_delimiter(std::string_view line, const CsvFormat& format);
  const char* split_at_blanks(std::string_view line, const CsvFormat& format);
  size_t quoted_field(std::string_view line, size_t at, const CsvFormat& format, const char*& problem);

  std::vector<std::string_view> views_;
  std::vector<char> unquoted_;  // what quoted fields of this line hold
  size_t unquoted_size_ = 0;
};

}  // namespace gz
