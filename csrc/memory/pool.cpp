#include "memory/pool.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace gz {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr const char* kWhat = "a result of this size";
constexpr size_t kSmallest = size_t{16} << 10;  // below this, malloc is as good

// Sizes are rounded so that a later, slightly different size finds a kept block: four steps to each doubling.
size_t rounded(size_t bytes) {
  if (bytes <= kSmallest) return bytes;
  if (bytes >> 62) require_memory(bytes, 1, kWhat);  // no machine has it; the steps below end at 2^63
  size_t step = kSmallest / 4;
  while (step * 8 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

constexpr size_t kPage = 4096;

// Buffers by size.
struct Shelf {
  std::map<size_t, std::vector<Buffer>> buffers;
  uint64_t bytes = 0;

  bool take(size_t size, Buffer& into) {
    const auto found = buffers.find(size);
    if (found == buffers.end() || found->second.empty()) return false;
    into = std::move(found->second.back());
    found->second.pop_back();
    bytes -= size;
    return true;
  }
  void put(Buffer&& buffer, size_t size) {
    buffers[size].push_back(std::move(buffer));
    bytes += size;
  }
  // Takes out what exceeds `limit`, the largest first: they are the fewest and free the most.
  std::vector<std::pair<size_t, Buffer>> shrink(uint64_t limit) {
    std::vector<std::pair<size_t, Buffer>> out;
    for (auto it = buffers.rbegin(); it != buffers.rend() && bytes > limit; ++it)
      while (!it->second.empty() && bytes > limit) {
        out.emplace_back(it->first, std::move(it->second.back()));
        it->second.pop_back();
        bytes -= it->first;
      }
    return out;
  }
};

struct Pool {
  std::mutex mutex;
  Shelf kept, loose;
  uint64_t in_use = 0;
  uint64_t least_kept = 0;  // since pool_idle() was asked
  // memory/governor, which knows of containers, changes them.
  uint64_t limit = uint64_t{1} << 30, most = uint64_t{1} << 30;  // of `kept`, and of both
};

std::atomic<void (*)()> large_buffer_hook{nullptr};

// Never destroyed: arrays may die after static destructors have run.
Pool& pool() {
  static Pool* instance = [] {
    pthread_atfork([] { pool().mutex.lock(); }, [] { pool().mutex.unlock(); }, [] { pool().mutex.unlock(); });
    return new Pool;
  }();
  return *instance;
}

// Puts a buffer where the kernel may take it from, if there is room for it, and else unmaps it.
void let_go(Pool& p, Buffer&& buffer, size_t size) {
  Buffer mine = std::move(buffer);
  {
    std::lock_guard lock(p.mutex);
    if (p.kept.bytes + p.loose.bytes + size > p.most) return;
  }
  if (::madvise(mine.data(), mine.capacity(), MADV_FREE) != 0) return;
  std::lock_guard lock(p.mutex);
  if (p.kept.bytes + p.loose.bytes + size <= p.most) p.loose.put(std::move(mine), size);
}

// Makes the pages ours again. Writing to them would do; but an O_DIRECT read into a page that was let go
// races with the kernel's taking it, before Linux 5.18.
void claim(const Buffer& buffer, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  const size_t whole = std::min(buffer.capacity(), (bytes + kPage - 1) / kPage * kPage);
  if (::madvise(buffer.data(), whole, MADV_POPULATE_WRITE) == 0) return;
#endif
  for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(buffer.data())[at] = 0;
}

}  // namespace

PooledBuffer::PooledBuffer(size_t bytes) : capacity_(rounded(bytes)) {
  if (bytes == 0) return;
  if (capacity_ <= kSmallest) {
    small_ = ::operator new(capacity_, kAlignment);
    return;
  }
  if (const auto hook = large_buffer_hook.load(std::memory_order_relaxed)) hook();
  Pool& p = pool();
  {
    std::lock_guard lock(p.mutex);
    p.in_use += capacity_;
    if (p.kept.take(capacity_, large_)) {
      p.least_kept = std::min(p.least_kept, p.kept.bytes);
      return;
    }
    p.loose.take(capacity_, large_);
  }
  if (large_.data()) {
    claim(large_, bytes);
    return;
  }
  try {
    require_memory(bytes, 1, kWhat);
    large_ = Buffer(capacity_);
  } catch (...) {
    std::lock_guard lock(p.mutex);
    p.in_use -= capacity_;
    throw;
  }
}

PooledBuffer::~PooledBuffer() {
  if (small_) ::operator delete(small_, kAlignment);
  if (!large_.data()) return;
  Pool& p = pool();
  {
    std::lock_guard lock(p.mutex);
    p.in_use -= capacity_;
    if (p.kept.bytes + capacity_ <= p.limit) {
      p.kept.put(std::move(large_), capacity_);
      return;
    }
  }
  let_go(p, std::move(large_), capacity_);
}

uint64_t pool_limit() {
  std::lock_guard lock(pool().mutex);
  return pool().limit;
}

uint64_t pool_bytes() {
  std::lock_guard lock(pool().mutex);
  return pool().kept.bytes;
}

uint64_t pool_idle() {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  return std::min(std::exchange(p.least_kept, p.kept.bytes), p.kept.bytes);
}

uint64_t pool_loose_bytes() {
  std::lock_guard lock(pool().mutex);
  return pool().loose.bytes;
}

uint64_t pool_in_use() {
  std::lock_guard lock(pool().mutex);
  return pool().in_use;
}

void on_large_buffer(void (*hook)()) {
  large_buffer_hook.store(hook);
}

void set_pool_limit(uint64_t bytes, uint64_t loose) {
  Pool& p = pool();
  std::vector<std::pair<size_t, Buffer>> more, gone;
  {
    std::lock_guard lock(p.mutex);
    p.limit = bytes;
    p.most = std::max(bytes, loose);
    more = p.kept.shrink(p.limit);
    gone = p.loose.shrink(p.most - std::min(p.most, p.kept.bytes));
  }
  for (auto& [size, buffer] : more) let_go(p, std::move(buffer), size);
}

}  // namespace gz
