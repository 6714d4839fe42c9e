// Text tables: parsing lines into ids and values, with errors that name the line and the value.
//
// The common case, decimal ids of an edge list, is parsed eight digits at a time and without allocation.
// Whatever is unusual about a line (spaces, quotes, CRLF, a comment, an error) sends that one line down a
// slow exact path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "file/format.h"
#include "memory/buffer.h"

namespace gz {

struct CsvValue {
  size_t field;               // 0-based, in the line
  DType dtype;                // bool, integers, float32, float64
  size_t offset;              // in the payload row
  bool weight = false;        // must be finite and not negative
  bool empty_is_nan = false;  // of floats: nothing between two delimiters is NaN, as pandas writes it
};

struct CsvFormat {
  char delimiter = ',';
  bool spaces = false;               // fields are separated by runs of blanks and tabs
  size_t num_fields = 0;             // every line must have as many
  std::vector<size_t> keys;          // fields that hold ids: none, one, or source and destination
  bool text_keys = false;            // ids are any text, else decimal integers
  bool any_integer = false;          // integer ids may be negative (they will be mapped)
  bool strict_integers = false;      // 007 is refused: as the integer 7 it would be another id
  bool comments = true;              // lines that start with # are left out
  std::vector<uint64_t> key_limits;  // integer ids must be below these; 0: no limit
  std::vector<CsvValue> values;
  std::vector<size_t> texts;  // fields that are handed on as they stand
  size_t payload = 0;
  bool skip_bad = false;
  std::vector<std::string> names;  // of the fields, for messages; may be empty
};

// Text of one key column: offsets[i] .. offsets[i + 1] of bytes.
struct TextColumn {
  std::vector<uint64_t> offsets{0};
  std::string bytes;
};

struct CsvRows {
  size_t count = 0;
  uint64_t lines = 0;    // lines read, blank and comment lines included
  uint64_t skipped = 0;  // bad lines left out
  bool wide = false;     // keys: 32 or 64 bits
  Buffer keys[2];        // uint32 or uint64
  TextColumn text[2];
  std::vector<TextColumn> texts;  // one for each field of CsvFormat::texts
  Buffer payload;

  // The first bad line, if bad lines are errors. Rows before it are valid.
  bool bad = false;
  uint64_t bad_line = 0;  // 0-based, among `lines`
  std::string bad_message;

  // The first line skipped, for the report.
  uint64_t first_skipped_line = 0;
  std::string first_skipped_message;

  void clear(const CsvFormat& format);  // to no rows of that format; memory is kept
};

// Parses whole lines into more rows, up to the first bad one. At least kCsvPadding readable bytes must follow
// `end`.
inline constexpr size_t kCsvPadding = 16;
void parse_csv(const char* begin, const char* end, const CsvFormat& format, CsvRows& rows);

// The fields of one line, quotes removed; what the slow path and the header sniffer share.
std::vector<std::string> split_csv_line(std::string_view line, const CsvFormat& format);

}  // namespace gz
