#include "memory/pool.h"

#include <pthread.h>

#include <atomic>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace gz {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr const char* kWhat = "a result of this size";
constexpr size_t kSmallest = size_t{64} << 10;  // below this, malloc is as good

// Sizes are rounded so that a later, slightly different size finds a kept block: four steps to each doubling.
size_t rounded(size_t bytes) {
  if (bytes <= kSmallest) return bytes;
  if (bytes >> 62) require_memory(bytes, 1, kWhat);  // no machine has it; the steps below end at 2^63
  size_t step = kSmallest / 4;
  while (step * 8 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

struct Pool {
  std::mutex mutex;
  std::map<size_t, std::vector<Buffer>> kept;  // by size
  uint64_t bytes = 0;
  uint64_t in_use = 0;
  uint64_t limit = uint64_t{1} << 30;  // memory/governor, which knows of containers, changes it
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
    auto found = p.kept.find(capacity_);
    if (found != p.kept.end() && !found->second.empty()) {
      large_ = std::move(found->second.back());
      found->second.pop_back();
      p.bytes -= capacity_;
      return;
    }
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
  std::lock_guard lock(p.mutex);
  p.in_use -= capacity_;
  if (p.bytes + capacity_ > p.limit) return;  // large_ goes back to the system
  p.kept[capacity_].push_back(std::move(large_));
  p.bytes += capacity_;
}

uint64_t pool_limit() {
  std::lock_guard lock(pool().mutex);
  return pool().limit;
}

uint64_t pool_bytes() {
  std::lock_guard lock(pool().mutex);
  return pool().bytes;
}

uint64_t pool_in_use() {
  std::lock_guard lock(pool().mutex);
  return pool().in_use;
}

void on_large_buffer(void (*hook)()) {
  large_buffer_hook.store(hook);
}

void set_pool_limit(uint64_t bytes) {
  Pool& p = pool();
  std::lock_guard lock(p.mutex);
  p.limit = bytes;
  // Largest first: they are the fewest and free the most.
  for (auto it = p.kept.rbegin(); it != p.kept.rend() && p.bytes > p.limit; ++it)
    while (!it->second.empty() && p.bytes > p.limit) {
      it->second.pop_back();
      p.bytes -= it->first;
    }
}

}  // namespace gz
