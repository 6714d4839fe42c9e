// A text table read piece by piece on all threads: from a file (by pread, never mapped, so that the text does
// not count as this process's memory) or from text handed in, as from a decompressor.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "build/builder.h"
#include "csv/csv.h"

namespace gz {

class CsvSource {
 public:
  // `name` is for messages. `lines_before`: lines (a header, say) that come before the first piece.
  // std::invalid_argument where the format asks for a field that its lines do not have.
  CsvSource(std::string name, CsvFormat format, uint64_t lines_before, size_t piece_bytes);

  void open_file(int fd, uint64_t offset);  // read the open file from there on; `fd` stays the caller's
  // A wave of pieces from the file into the builder, or as rows. False at the end of the file.
  bool file_to(Builder& builder);
  bool file_to(std::vector<CsvRows>& rows);
  // Whole lines of text, likewise.
  void text_to(Builder& builder, const char* data, size_t bytes);
  void text_to(std::vector<CsvRows>& rows, const char* data, size_t bytes);

  uint64_t position() const { return position_; }  // in the file
  uint64_t lines() const { return lines_; }
  uint64_t skipped() const { return skipped_; }
  const std::string& first_skipped() const { return first_skipped_; }

 private:
  // Parses piece i into the rows, which are emptied first; the buffer is for its text.
  using Parse = std::function<void(size_t, Buffer&, CsvRows&)>;

  // What a thread needs while it parses: used again for the next piece and given back to the system with this
  // object.
  struct Scratch {
    Buffer text;
    CsvRows rows;
  };
  class Lease;

  size_t file_pieces(size_t per_thread) const;
  void parse_file(size_t i, Buffer& text, CsvRows& rows) const;
  Parse cut_text(const char* data, size_t bytes,
                 std::vector<std::pair<const char*, const char*>>& cuts) const;
  void to_builder(Builder& builder, size_t pieces, const Parse& parse);
  void to_rows(std::vector<CsvRows>& rows, size_t pieces, const Parse& parse);
  void account(const CsvRows& rows);  // in order; throws InputError for a bad line

  std::string name_;
  CsvFormat format_;
  size_t piece_bytes_;
  std::unique_ptr<OutFile> file_;
  uint64_t size_ = 0, start_ = 0, position_ = 0;
  uint64_t lines_, skipped_ = 0;
  std::string first_skipped_;
  std::mutex spare_mutex_;
  std::vector<std::unique_ptr<Scratch>> spare_;
};

}  // namespace gz
