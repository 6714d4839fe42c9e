// Output and scratch memory that is used again.
//
// Fresh memory is dear: the kernel zeroes it page by page at first touch, which costs several times what
// filling it does. A Buffer goes back to a pool when its last owner (often a numpy array or a tensor) dies,
// and the next result of a like size takes it from there. The pool keeps at most pool_limit() bytes; what
// would exceed it is unmapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace gz {

uint64_t pool_limit();
void set_pool_limit(uint64_t bytes);
uint64_t pool_bytes();  // kept now, not in use

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes);  // contents undefined; throws std::bad_alloc
  ~Buffer();
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t capacity() const { return capacity_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
  }
  void* data_ = nullptr;
  size_t capacity_ = 0;
};

// An array of plain values in a Buffer. New elements are not initialised.
template <class T>
class PooledArray {
 public:
  PooledArray() = default;
  explicit PooledArray(size_t size) { resize(size); }

  void resize(size_t size) {  // keeps what was there
    if (size * sizeof(T) > buffer_.capacity()) {
      Buffer larger(size * sizeof(T));
      if (size_) std::memcpy(larger.data(), buffer_.data(), size_ * sizeof(T));
      buffer_ = std::move(larger);
    }
    size_ = size;
  }
  T* data() const { return static_cast<T*>(buffer_.data()); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }

 private:
  Buffer buffer_;
  size_t size_ = 0;
};

}  // namespace gz
