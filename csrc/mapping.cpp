#include "mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "error.h"
#include "fork.h"

namespace gz {
namespace {

[[noreturn]] void fail(int code, const std::string& path, const char* action) {
  throw IoError(code, path, std::string("cannot ") + action + ": " + std::strerror(code));
}

int advice_code(Advice advice) {
  switch (advice) {
    case Advice::kNormal:
      return MADV_NORMAL;
    case Advice::kRandom:
      return MADV_RANDOM;
    case Advice::kSequential:
      return MADV_SEQUENTIAL;
    case Advice::kWillNeed:
      return MADV_WILLNEED;
  }
  return MADV_NORMAL;
}

}  // namespace

std::shared_ptr<Mapping> Mapping::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(errno, path, "open");
  struct stat st;
  if (::fstat(fd, &st) != 0) {
    const int code = errno;
    ::close(fd);
    fail(code, path, "read the size");
  }
  if (!S_ISREG(st.st_mode)) {
    ::close(fd);
    fail(S_ISDIR(st.st_mode) ? EISDIR : EINVAL, path, "map (not a regular file)");
  }
  return std::shared_ptr<Mapping>(new Mapping(path, fd, static_cast<uint64_t>(st.st_size), false));
}

std::shared_ptr<Mapping> Mapping::writable_copy() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) fail(errno, path_, "open again");
  std::shared_ptr<Mapping> copy(new Mapping(path_, fd, size_, true));
  copy->advise(0, size_, Advice::kRandom);
  return copy;
}

Mapping::Mapping(std::string path, int fd, uint64_t size, bool writable)
    : path_(std::move(path)), fd_(fd), size_(size), writable_(writable) {
  if (size_ == 0) return;
  void* p = MAP_FAILED;
  // MAP_NORESERVE: without it a mapping larger than RAM + swap is refused under the default overcommit
  // policy.
  if (writable_) p = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd_, 0);
  if (p == MAP_FAILED) {
    writable_ = false;
    p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  }
  if (p == MAP_FAILED) {
    const int code = errno;
    ::close(fd_);
    fail(code, path_, "map");
  }
  data_ = static_cast<std::byte*>(p);
}

Mapping::~Mapping() {
  if (data_) ::munmap(data_, size_);
  ::close(fd_);
}

void Mapping::advise(uint64_t offset, uint64_t bytes, Advice advice) const {
  if (!data_ || offset >= size_) return;
  const uint64_t begin = offset / kPage * kPage;
  const uint64_t end = std::min(size_, offset + std::min(bytes, size_ - offset));
  ::madvise(data_ + begin, end - begin, advice_code(advice));
}

uint64_t Mapping::resident_bytes(uint64_t offset, uint64_t bytes) const {
  if (!data_ || offset >= size_) return 0;
  const uint64_t begin = offset / kPage * kPage;
  const uint64_t end = std::min(size_, offset + std::min(bytes, size_ - offset));
  constexpr uint64_t kStep = uint64_t{1} << 30;
  std::vector<unsigned char> in_core(std::min(end - begin, kStep) / kPage + 1);
  uint64_t pages = 0;
  for (uint64_t at = begin; at < end; at += kStep) {
    const uint64_t length = std::min(kStep, end - at);
    if (::mincore(data_ + at, length, in_core.data()) != 0) return 0;
    const uint64_t n = (length + kPage - 1) / kPage;
    pages += std::count_if(in_core.begin(), in_core.begin() + n, [](unsigned char c) { return c & 1; });
  }
  return pages * kPage;
}

std::shared_ptr<Mapping> WritableCopy::of(const Mapping& mapping) const {
  std::lock_guard lock(fork_mutex());
  if (!copy_) copy_ = mapping.writable_copy();
  return copy_;
}

std::shared_ptr<Mapping> open_checked(const std::string& path, Kind kind) {
  auto mapping = Mapping::open(path);
  if (mapping->size() < kPage)
    throw FormatError(path, "is " + std::to_string(mapping->size()) +
                                " bytes long: too short to hold a header, truncated or not a gz file");
  check_header(header_of(*mapping), mapping->size(), kind, path);
  return mapping;
}

}  // namespace gz
