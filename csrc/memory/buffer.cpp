#include "memory/buffer.h"

#include <sys/mman.h>

#include <new>

namespace gz {
namespace {
constexpr size_t kSmallPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

Buffer::Buffer(size_t bytes) {
  if (bytes == 0) return;
  capacity_ = (bytes + kSmallPage - 1) / kSmallPage * kSmallPage;
  void* p =
      ::mmap(nullptr, capacity_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    capacity_ = 0;
    throw std::bad_alloc();
  }
  data_ = static_cast<char*>(p);
  if (capacity_ >= 2 * kHugePage) ::madvise(p, capacity_, MADV_HUGEPAGE);
}

Buffer::~Buffer() {
  if (data_) ::munmap(data_, capacity_);
}

}  // namespace gz
