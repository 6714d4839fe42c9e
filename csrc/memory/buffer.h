// Large, uninitialised, page-aligned memory that goes back to the system at once when freed.
//
// Why not std::vector or malloc: vectors touch every byte to zero it, and malloc keeps freed blocks, which
// would make the ingest's memory budget a guess. Huge pages are asked for where a buffer is large enough to
// profit.
#pragma once

#include <cstddef>
#include <utility>

namespace gz {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);  // throws std::bad_alloc
  ~Buffer();
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }

  char* data() const { return data_; }
  size_t capacity() const { return capacity_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  // Makes room for `bytes`; the old content is lost when it has to grow.
  void reserve(size_t bytes) {
    if (bytes > capacity_) *this = Buffer(bytes);
  }

 private:
  char* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace gz
