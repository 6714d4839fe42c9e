#include "file/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"
#include "base/threads.h"
#include "file/encoding.h"
#include "file/regular.h"

namespace gz {
namespace {

int open_file(const std::string& path, OutFile::Mode mode) {
  if (mode == OutFile::Mode::kRead) return open_regular(path, O_RDONLY);
  if (mode == OutFile::Mode::kUpdate) return open_regular(path, O_RDWR);
  if (mode == OutFile::Mode::kCreate)
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if constexpr (system::kUnnamed != 0) {
    const int fd = ::open(path.c_str(), system::kUnnamed | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  }
  // A system or a filesystem without O_TMPFILE: make a name, and take it away again.
  std::string name = path + "/spill-XXXXXX";
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

}  // namespace

OutFile::OutFile(const std::string& path, Mode mode) : path_(path), fd_(open_file(path, mode)) {
  if (fd_ < 0) cannot(errno, path_, mode == Mode::kCreate ? "create" : "create a temporary file in it");
}

OutFile::OutFile(const std::string& path, int fd) : path_(path), fd_(::fcntl(fd, F_DUPFD_CLOEXEC, 0)) {
  if (fd_ < 0) cannot(errno, path_, "open");
}

OutFile::~OutFile() {
  ::close(fd_);
}

void OutFile::write_at(uint64_t offset, const void* data, size_t bytes) const {
  const char* p = static_cast<const char*>(data);
  while (bytes) {
    const ssize_t n = ::pwrite(fd_, p, std::min(bytes, size_t{1} << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) cannot(n < 0 ? errno : EIO, path_, "write");
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void OutFile::read_at(uint64_t offset, void* data, size_t bytes) const {
  char* p = static_cast<char*>(data);
  while (bytes) {
    const ssize_t n = ::pread(fd_, p, std::min(bytes, size_t{1} << 30), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) cannot(n < 0 ? errno : EIO, path_, "read back");
    p += n;
    offset += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
}

void OutFile::start_writeback(uint64_t offset, uint64_t bytes) const {
  system::start_writeback(fd_, offset, bytes);
}

void OutFile::set_length(uint64_t bytes) const {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) cannot(errno, path_, "set the length");
}

void OutFile::sync() const {
  if (::fsync(fd_) != 0) cannot(errno, path_, "sync");
}

uint64_t OutFile::length() const {
  const off_t n = ::lseek(fd_, 0, SEEK_END);
  if (n < 0) cannot(errno, path_, "find the length");
  return static_cast<uint64_t>(n);
}

SectionWriter::SectionWriter(std::shared_ptr<OutFile> file, uint64_t offset, DType dtype)
    : file_(std::move(file)) {
  section_.offset = offset;
  section_.dtype = dtype;
}

void SectionWriter::append(const std::vector<Span>& spans) {
  // The stream is the tail kept from last time, then the spans. starts[i] is where span i begins in it.
  std::vector<Span> all;
  all.push_back({tail_.data(), tail_.size()});
  all.insert(all.end(), spans.begin(), spans.end());
  std::vector<size_t> starts(all.size() + 1, 0);
  for (size_t i = 0; i < all.size(); ++i) starts[i + 1] = starts[i] + all[i].bytes;
  const size_t total = starts.back();
  const size_t chunks = total / kHashChunk;
  section_.bytes = written_ + total;

  const auto copy_out = [&](size_t begin, size_t end, char* to) {
    size_t i = std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin() - 1;
    for (; begin < end; ++i) {
      const size_t n = std::min(end, starts[i + 1]) - begin;
      if (n) std::memcpy(to, static_cast<const char*>(all[i].data) + (begin - starts[i]), n);
      to += n;
      begin += n;
    }
  };
  const size_t first_hash = hashes_.size();
  hashes_.resize(first_hash + chunks);
  // One thread writes: the kernel lets only one at a time into a file anyway, and the others have edges to
  // sort.
  std::vector<char> scratch;
  for (size_t c = 0; c < chunks; ++c) {
    const size_t begin = c * kHashChunk, end = begin + kHashChunk;
    const size_t i = std::upper_bound(starts.begin(), starts.end(), begin) - starts.begin() - 1;
    const char* p;
    if (starts[i + 1] >= end) {
      p = static_cast<const char*>(all[i].data) + (begin - starts[i]);
    } else {
      scratch.resize(kHashChunk);
      copy_out(begin, end, scratch.data());
      p = scratch.data();
    }
    hashes_[first_hash + c] = xxh64(p, kHashChunk);
    file_->write_at(section_.offset + written_ + begin, p, kHashChunk);
  }
  std::vector<char> rest(total - chunks * kHashChunk);
  copy_out(chunks * kHashChunk, total, rest.data());
  tail_ = std::move(rest);
  if (chunks) file_->start_writeback(section_.offset + written_, chunks * kHashChunk);
  written_ += chunks * kHashChunk;
}

void SectionWriter::finish() {
  if (!tail_.empty()) {
    hashes_.push_back(xxh64(tail_.data(), tail_.size()));
    file_->write_at(section_.offset + written_, tail_.data(), tail_.size());
    written_ += tail_.size();
    tail_.clear();
  }
  section_.checksum = xxh64(hashes_.data(), hashes_.size() * sizeof(uint64_t));
}

void SectionWriter::copy_to(const std::shared_ptr<OutFile>& file, uint64_t offset) {
  Buffer buffer(kHashChunk);
  for (uint64_t at = 0; at < section_.bytes; at += kHashChunk) {
    const size_t n = std::min<uint64_t>(kHashChunk, section_.bytes - at);
    file_->read_at(section_.offset + at, buffer.data(), n);
    file->write_at(offset + at, buffer.data(), n);
  }
  file->start_writeback(offset, section_.bytes);
  file_ = file;
  section_.offset = offset;
}

void SectionWriter::read_back(uint64_t at, void* data, size_t bytes) const {
  if (at + bytes > section_.bytes) throw std::logic_error("read_back past the end of a section");
  char* p = static_cast<char*>(data);
  if (at < written_) {
    const size_t n = std::min<uint64_t>(bytes, written_ - at);
    file_->read_at(section_.offset + at, p, n);
    p += n;
    at += n;
    bytes -= n;
  }
  if (bytes) std::memcpy(p, tail_.data() + (at - written_), bytes);
}

ColumnWriter::ColumnWriter(const std::string& path, DType dtype, std::vector<uint64_t> row_shape, DType shown)
    : file_(std::make_shared<OutFile>(path, OutFile::Mode::kCreate)),
      data_(std::make_unique<SectionWriter>(file_, kPage, dtype)),
      dtype_(dtype),
      shown_(shown),
      row_shape_(std::move(row_shape)),
      row_bytes_(dtype_bytes(shown == DType::kNone ? dtype : shown)) {
  if (!known_encoding(dtype, shown))
    throw std::invalid_argument(path + ": " + dtype_name(dtype) + " cannot be read as " + dtype_name(shown));
  if (row_shape_.size() + 1 > kMaxDims)
    throw std::invalid_argument(path + ": a column has at most 8 dimensions, this one has " +
                                std::to_string(row_shape_.size() + 1));
  for (uint64_t d : row_shape_)
    if (__builtin_mul_overflow(row_bytes_, d, &row_bytes_))
      throw std::invalid_argument(path + ": the shape of a row overflows 64 bits");
  size_t values = 1;
  for (uint64_t d : row_shape_) values *= d;
  row_bytes_ = RowFormat(dtype_, shown_, values).stored_bytes;
}

uint64_t ColumnWriter::finish(uint64_t zero_byte_rows) {
  data_->finish();
  const uint64_t bytes = data_->bytes();
  if (row_bytes_ ? bytes % row_bytes_ != 0 : bytes != 0)
    throw std::logic_error(file_->path() + ": a partial row was appended");
  Header h = new_header(Kind::kFeature);
  h.sections[kData] = data_->section();
  h.feature.ndim = static_cast<uint32_t>(row_shape_.size() + 1);
  h.feature.shown = shown_;
  h.feature.shape[0] = row_bytes_ ? bytes / row_bytes_ : zero_byte_rows;
  std::copy(row_shape_.begin(), row_shape_.end(), h.feature.shape + 1);
  h.file_bytes = kPage + bytes;
  seal_header(h);
  file_->write_at(0, &h, sizeof h);
  file_->sync();
  return h.feature.shape[0];
}

void seal_column(const std::string& path, DType dtype, const std::vector<uint64_t>& shape) {
  if (shape.empty() || shape.size() > kMaxDims)
    throw std::invalid_argument(path + ": a column has 1 to 8 dimensions, this one has " +
                                std::to_string(shape.size()));
  uint64_t bytes = dtype_bytes(dtype);
  for (uint64_t d : shape)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      throw std::invalid_argument(path + ": the shape overflows 64 bits");
  const OutFile file(path, OutFile::Mode::kUpdate);
  if (file.length() != kPage + bytes)
    throw FormatError(path, "is " + std::to_string(file.length()) + " bytes long, its shape needs " +
                                std::to_string(kPage + bytes));
  std::vector<uint64_t> hashes((bytes + kHashChunk - 1) / kHashChunk);
  parallel_for(hashes.size(), 1, [&](size_t c, size_t end) {
    Buffer buffer(kHashChunk);
    for (; c < end; ++c) {
      const size_t n = std::min<uint64_t>(kHashChunk, bytes - c * kHashChunk);
      file.read_at(kPage + c * kHashChunk, buffer.data(), n);
      hashes[c] = xxh64(buffer.data(), n);
    }
  });
  Header h = new_header(Kind::kFeature);
  h.sections[kData].offset = kPage;
  h.sections[kData].bytes = bytes;
  h.sections[kData].dtype = dtype;
  h.sections[kData].checksum = xxh64(hashes.data(), hashes.size() * sizeof(uint64_t));
  h.feature.ndim = static_cast<uint32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), h.feature.shape);
  h.file_bytes = kPage + bytes;
  seal_header(h);
  file.write_at(0, &h, sizeof h);
  file.sync();
}

}  // namespace gz
