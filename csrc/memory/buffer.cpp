#include "memory/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "base/system.h"

namespace gz {
namespace {
constexpr size_t kSmallPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
}  // namespace

Buffer::Buffer(size_t bytes) {
  if (bytes == 0) return;
  const size_t capacity = (bytes + kSmallPage - 1) / kSmallPage * kSmallPage;
  // What holds a huge page begins at one: the mapping is made larger, and what lies around it given back.
  const size_t around = capacity >= kHugePage ? kHugePage - kSmallPage : 0;
  void* p = ::mmap(nullptr, capacity + around, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) throw std::bad_alloc();
  capacity_ = capacity;
  data_ = static_cast<char*>(p);
  if (!around) return;
  const size_t before = -reinterpret_cast<uintptr_t>(data_) % kHugePage;
  if (before) ::munmap(data_, before);
  data_ += before;
  if (before < around) ::munmap(data_ + capacity_, around - before);
  system::prefer_huge_pages(data_, capacity_);
}

Buffer::~Buffer() {
  if (data_) ::munmap(data_, capacity_);
}

}  // namespace gz
