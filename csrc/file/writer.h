// Writing the store's files: sections hashed as they are written, and .gd columns streamed row by row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "file/format.h"
#include "memory/buffer.h"

namespace gz {

// A file being written. Every failure is an IoError that names the path.
class OutFile {
 public:
  // kTemporary: `path` is a directory; the file has no name and goes away with this object. kRead: for
  // read_at only. kUpdate: the file exists and stays as it is.
  enum class Mode { kCreate, kTemporary, kRead, kUpdate };
  OutFile(const std::string& path, Mode mode);
  OutFile(const std::string& path, int fd);  // a duplicate of a descriptor that is open already
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  void write_at(uint64_t offset, const void* data, size_t bytes) const;
  void read_at(uint64_t offset, void* data, size_t bytes) const;
  void start_writeback(uint64_t offset, uint64_t bytes) const;  // so that sync() has little left to wait for
  void set_length(uint64_t bytes) const;
  void sync() const;
  uint64_t length() const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_;
};

struct Span {
  const void* data;
  size_t bytes;
};

// Appends bytes to one section and computes its TreeHash.
class SectionWriter {
 public:
  SectionWriter(std::shared_ptr<OutFile> file, uint64_t offset, DType dtype);
  void append(const std::vector<Span>& spans);
  void append(const void* data, size_t bytes) { append(std::vector<Span>{{data, bytes}}); }
  // Writes what is left. Call once; then section() describes the section.
  void finish();
  const Section& section() const { return section_; }
  uint64_t bytes() const { return section_.bytes; }
  // Moves the section's bytes from a temporary file to `file` at `offset`.
  void copy_to(const std::shared_ptr<OutFile>& file, uint64_t offset);
  // Reads back bytes already appended, `at` counted from the section's start.
  void read_back(uint64_t at, void* data, size_t bytes) const;

 private:
  std::shared_ptr<OutFile> file_;
  Section section_{};
  uint64_t written_ = 0;  // a multiple of the hash chunk until finish()
  std::vector<uint64_t> hashes_;
  std::vector<char> tail_;
};

// Streams rows into a .gd file. The number of rows is what was appended; finish() writes the header.
class ColumnWriter {
 public:
  // shown: what rows are read as, where they come encoded (file/encoding.h).
  ColumnWriter(const std::string& path, DType dtype, std::vector<uint64_t> row_shape,
               DType shown = DType::kNone);
  void append(const void* data, size_t bytes) { data_->append(data, bytes); }
  void append(const std::vector<Span>& spans) { data_->append(spans); }
  // Returns the number of rows. `zero_byte_rows` is that number where rows have no bytes to count them by.
  uint64_t finish(uint64_t zero_byte_rows = 0);
  size_t row_bytes() const { return row_bytes_; }

 private:
  std::shared_ptr<OutFile> file_;
  std::unique_ptr<SectionWriter> data_;
  DType dtype_, shown_;
  std::vector<uint64_t> row_shape_;
  size_t row_bytes_;
};

// Makes a .gd file of one whose rows have been written in place, from the first page on, by others (a mapped
// output column): computes the checksum on all threads, writes the header and syncs. `shape`: rows first.
void seal_column(const std::string& path, DType dtype, const std::vector<uint64_t>& shape);

}  // namespace gz
