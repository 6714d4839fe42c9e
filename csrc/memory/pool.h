// Output and scratch memory that is used again.
//
// Fresh memory is dear: the kernel zeroes it page by page at first touch, which costs several times what
// filling it does. A PooledBuffer goes back to a pool when its last owner (often a numpy array or a tensor)
// dies, and the next result of a like size takes it from there. The pool keeps at most pool_limit() bytes.
// Some of what would exceed it stays too, but loose: the kernel may take it back without asking (MADV_FREE),
// as it may drop pages of files, and does before it would kill anyone. The rest is unmapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "memory/buffer.h"
#include "memory/memory.h"

namespace gz {

uint64_t pool_limit();
void set_pool_limit(uint64_t bytes, uint64_t loose = 0);  // kept in all: at most the larger of the two
uint64_t pool_bytes();                                    // kept now, not in use
uint64_t pool_idle();         // of these, what nobody has taken since this was asked last
uint64_t pool_loose_bytes();  // kept as well, as far as the kernel has left them
uint64_t pool_in_use();       // in large buffers that someone has now
// Has `hook` called whenever a large buffer is taken: who watches over memory starts with the first.
void on_large_buffer(void (*hook)());

class PooledBuffer {
 public:
  PooledBuffer() = default;
  explicit PooledBuffer(size_t bytes);  // contents undefined; throws MemoryShortage, std::bad_alloc
  ~PooledBuffer();
  PooledBuffer(PooledBuffer&& other) noexcept { swap(other); }
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* data() const { return small_ ? small_ : large_.data(); }
  size_t capacity() const { return capacity_; }

 private:
  void swap(PooledBuffer& other) noexcept {
    std::swap(small_, other.small_);
    std::swap(large_, other.large_);
    std::swap(capacity_, other.capacity_);
  }
  void* small_ = nullptr;  // from the heap, which is as good below a few pages
  Buffer large_;           // from and to the pool
  size_t capacity_ = 0;
};

// An array of plain values in a PooledBuffer. New elements are not initialised.
template <class T>
class PooledArray {
 public:
  PooledArray() = default;
  explicit PooledArray(size_t size) { resize(size); }

  // Keeps what was there. An array that is not large gets room for so many `more` as well: it will not have
  // to be copied when these come.
  void resize(size_t size, size_t more = 0) {
    if (size > SIZE_MAX / sizeof(T)) require_memory(size, sizeof(T), "a result of this size");
    const size_t with_room = size < kMostWithRoom && more < kMostWithRoom - size ? size + more : size;
    if (with_room * sizeof(T) > buffer_.capacity()) {
      PooledBuffer larger(with_room * sizeof(T));
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
  static constexpr size_t kMostWithRoom = (size_t{16} << 20) / sizeof(T);

  PooledBuffer buffer_;
  size_t size_ = 0;
};

}  // namespace gz
