#include "file/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "file/regular.h"

namespace gz {
namespace {

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

std::shared_ptr<Mapping> Mapping::open(const std::string& path, int opened) {
  const int fd = opened < 0 ? open_regular(path, O_RDONLY) : ::fcntl(opened, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) cannot(errno, path, "open");
  struct stat st;
  if (::fstat(fd, &st) != 0) {
    const int code = errno;
    ::close(fd);
    cannot(code, path, "read the size");
  }
  return std::shared_ptr<Mapping>(new Mapping(path, fd, static_cast<uint64_t>(st.st_size), false));
}

std::shared_ptr<Mapping> Mapping::writable_copy() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) cannot(errno, path_, "open again");
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
    cannot(code, path_, "map");
  }
  data_ = static_cast<std::byte*>(p);
  try {
    guard_.emplace(data_, size_, fd_, writable_, path_);
  } catch (...) {
    ::munmap(p, size_);
    ::close(fd_);
    throw;
  }
}

Mapping::~Mapping() {
  guard_.reset();
  if (data_) ::munmap(data_, size_);
  ::close(fd_);
}

void Mapping::drop_pages() const {
  if (writable_) return;  // pages that were written to would be lost
  ::madvise(const_cast<std::byte*>(data()), size_, MADV_DONTNEED);
  ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

void Mapping::advise(uint64_t offset, uint64_t bytes, Advice advice) const {
  if (!data_ || offset >= size_) return;
  const uint64_t begin = offset / kPage * kPage;
  const uint64_t end = std::min(size_, offset + std::min(bytes, size_ - offset));
  ::madvise(data_ + begin, end - begin, advice_code(advice));
}

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Anonymous memory that begins where a huge page does, plus `shift`.
class HugeRegion {
 public:
  HugeRegion(size_t bytes, size_t shift) : size_(bytes + 2 * kHugePage) {
    void* p =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return;
    begin_ = static_cast<std::byte*>(p);
    const auto address = reinterpret_cast<uintptr_t>(p);
    data_ = begin_ + ((address + kHugePage - 1) / kHugePage * kHugePage - address + shift);
    system::prefer_huge_pages(begin_, size_);
    system::keep_from_children(begin_, size_);  // a child has no thread that would go on with it
  }
  ~HugeRegion() {
    if (!begin_) return;
    if (!moved_) {
      ::munmap(begin_, size_);
      return;
    }
    ::munmap(begin_, static_cast<size_t>(data_ - begin_));
    ::munmap(data_ + moved_, static_cast<size_t>(begin_ + size_ - data_) - moved_);
  }
  HugeRegion(const HugeRegion&) = delete;
  HugeRegion& operator=(const HugeRegion&) = delete;

  std::byte* data() const { return data_; }
  // Moves the first `bytes` to `place`, read-only, instead of what is mapped there.
  bool move_to(std::byte* place, size_t bytes) {
    if (::mprotect(data_, bytes, PROT_READ) != 0 || !system::give_to_children(data_, bytes)) return false;
    if (!system::move_pages(data_, bytes, place)) return false;
    moved_ = bytes;
    return true;
  }

 private:
  size_t size_, moved_ = 0;
  std::byte *begin_ = nullptr, *data_ = nullptr;
};

// Whole pages of [offset, offset + bytes).
uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

bool Mapping::show_copy(uint64_t offset, uint64_t bytes, const std::atomic<bool>& wanted) const {
  constexpr uint64_t kStep = uint64_t{4} << 20;
  std::byte* const place = data_ + offset;
  HugeRegion copy(whole_pages(bytes), reinterpret_cast<uintptr_t>(place) % kHugePage);
  if (!copy.data()) return false;
  for (uint64_t at = 0; at < bytes;) {
    if (!wanted.load(std::memory_order_relaxed)) return false;
    const ssize_t n =
        ::pread(fd_, copy.data() + at, std::min(kStep, bytes - at), static_cast<off_t>(offset + at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += static_cast<uint64_t>(n);
  }
  std::lock_guard lock(fork_mutex());
  if (copy.move_to(place, whole_pages(bytes))) return true;
  // The kernel says no before it unmaps what is there, but does not promise to.
  map_again(offset, whole_pages(bytes));
  return false;
}

void Mapping::show_file(uint64_t offset, uint64_t bytes) const {
  std::lock_guard lock(fork_mutex());
  map_again(offset, whole_pages(bytes));
}

void Mapping::map_again(uint64_t offset, uint64_t bytes) const {
  ::mmap(data_ + offset, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd_, static_cast<off_t>(offset));
  ::madvise(data_ + offset, bytes, MADV_RANDOM);
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

std::shared_ptr<Mapping> open_checked(const std::string& path, Kind kind, int opened) {
  auto mapping = Mapping::open(path, opened);
  if (mapping->size() < kPage)
    throw FormatError(path, "is " + std::to_string(mapping->size()) +
                                " bytes long: too short to hold a header, truncated or not a gz file");
  check_header(header_of(*mapping), mapping->size(), kind, path);
  return mapping;
}

}  // namespace gz
