#include "cache/shared_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>

#include "base/rng.h"
#include "base/threads.h"

namespace gz {
namespace {

// A cache is judged when it has been full at its size for so many times its rows, and at least for so many.
constexpr uint64_t kTurns = 4, kLeastRows = 100'000;
constexpr uint64_t kRetryTurns = 16;
constexpr uint64_t kMostFailures = 10;

uint64_t hash_of(const CachedRows& r) {
  uint64_t hash = fold(fold(fold(r.device, r.inode), r.modified_ns), r.first);
  return hash ? hash : 1;
}

using Caches = std::map<CachedRows, std::weak_ptr<SharedCache>>;

// Of this process, under fork_mutex(). A forked child leaves its parent's alone.
Caches& caches() {
  static Caches* map = new Caches;
  static pid_t pid = ::getpid();
  if (pid != ::getpid()) {
    pid = ::getpid();
    map = new Caches;
  }
  return *map;
}

}  // namespace

SharedCache::SharedCache(const CachedRows& rows) : rows_(rows), hash_(hash_of(rows)) {}

std::shared_ptr<const RowCache::Slabs> SharedCache::slabs() const {
  std::lock_guard lock(mutex_);
  return cache_ ? cache_->slabs() : nullptr;
}

void SharedCache::note(uint64_t hits, uint64_t misses, uint64_t cache_ns, uint64_t read_ns) {
  hits_.fetch_add(hits, std::memory_order_relaxed);
  misses_.fetch_add(misses, std::memory_order_relaxed);
  cache_ns_.fetch_add(cache_ns, std::memory_order_relaxed);
  read_ns_.fetch_add(read_ns, std::memory_order_relaxed);
}

SharedCache::Counts SharedCache::counts() const {
  return {hits_.load(std::memory_order_relaxed), misses_.load(std::memory_order_relaxed),
          cache_ns_.load(std::memory_order_relaxed), read_ns_.load(std::memory_order_relaxed)};
}

// Of several users the largest that was named holds; "auto" only where nobody named one.
uint64_t SharedCache::ceiling() const {
  uint64_t named = 0;
  for (uint64_t c : ceilings_)
    if (c != kAuto) named = std::max(named, c);
  return named ? named : ceilings_.empty() ? 0 : kAuto;
}

void SharedCache::fit_ceiling(uint64_t limit) {
  const uint64_t whole = rows_.num_rows * (rows_.row_bytes + 128);  // with what finding them takes
  const uint64_t most = std::min({ceiling(), whole, limit});
  if (cache_ && cache_->most() <= most && most < cache_->most() + cache_->slab_bytes()) return;
  cache_ = std::make_shared<RowCache>(most, rows_.row_bytes);
  granted_ = false;
}

// The governor asks for need() with a lock of its own held, so it is not called with mutex_ held.
bool SharedCache::join(uint64_t ceiling) {
  const uint64_t limit = governor::memory_limit();
  std::lock_guard lock(mutex_);
  ceilings_.insert(ceiling);
  fit_ceiling(limit);
  return !granted_;
}

void SharedCache::leave(uint64_t ceiling) {
  const uint64_t limit = governor::memory_limit();
  std::lock_guard lock(mutex_);
  ceilings_.erase(ceilings_.find(ceiling));
  if (!ceilings_.empty()) fit_ceiling(limit);
}

SharedCache::Stats SharedCache::stats() const {
  std::lock_guard lock(mutex_);
  return {cache_->size(), ceiling() == kAuto ? kAuto : cache_->most(), why_};
}

MemoryClient::Need SharedCache::need() {
  Need n;
  RowCache::Size size;
  {
    std::lock_guard lock(mutex_);
    size = cache_->size();
    n.most = cache_->most();
    n.unit = cache_->slab_bytes();
    n.asked_for = ceiling() != kAuto;
    n.fresh = !std::exchange(granted_, true);
  }
  if (!n.asked_for) judge(size);
  const Counts c = counts();
  n.size = size.bytes;
  n.pinned = size.pinned;
  n.most = std::min(n.most, pays_up_to_);
  n.active = n.fresh || c.asked() != last_asked_;
  n.full = n.active && size.filled_rows + size.rows / 32 >= size.rows;
  n.hits = c.hits;
  n.file = hash_;
  last_asked_ = c.asked();
  return n;
}

// Whether the reads it saved took longer than it did itself.
void SharedCache::judge(const RowCache::Size& size) {
  const Counts c = counts();
  if (pays_up_to_ != UINT64_MAX && c.asked() >= retry_at_) pays_up_to_ = UINT64_MAX;
  const bool full = size.rows > 0 && size.filled_rows + size.rows / 32 >= size.rows;
  if (!full || size.bytes != settled_size_) {
    settled_size_ = full ? size.bytes : 0;
    settled_ = c;
    return;
  }
  const uint64_t hits = c.hits - settled_.hits, misses = c.misses - settled_.misses;
  if (hits + misses < std::max(kTurns * size.rows, kLeastRows) || misses == 0) return;
  const double cost = static_cast<double>(c.cache_ns - settled_.cache_ns) / 1e6;
  const double saved = static_cast<double>(c.read_ns - settled_.read_ns) / 1e6 * static_cast<double>(hits) /
                       static_cast<double>(misses);
  settled_ = c;
  if (saved >= cost) {
    failures_ = 0;
    return;
  }
  pays_up_to_ = size.bytes >= 16 * (size.bytes / std::max<uint64_t>(1, size.rows)) ? size.bytes / 2 : 0;
  failures_ = std::min(failures_ + 1, kMostFailures);
  retry_at_ = c.asked() + (std::max(kRetryTurns * size.rows, kLeastRows) << failures_);
  char text[160];
  std::snprintf(text, sizeof text, "it did not pay: %.1f %% hits saved %.0f ms of reads and cost %.0f ms",
                100.0 * static_cast<double>(hits) / static_cast<double>(hits + misses), saved, cost);
  verdict_ = text;
}

void SharedCache::resize(uint64_t bytes, const std::string& why) {
  std::lock_guard lock(mutex_);
  const uint64_t before = cache_->size().bytes;
  cache_->resize(bytes);
  const uint64_t now = cache_->size().bytes;
  if (now == before) return;
  char text[64];
  std::snprintf(text, sizeof text, "%.0f to %.0f MB: ", static_cast<double>(before) / 1e6,
                static_cast<double>(now) / 1e6);
  const bool judged = now < before && !verdict_.empty();
  why_ = text + (judged ? std::exchange(verdict_, "") : why.empty() ? "first grant" : why);
}

// ---- who uses which ----

CacheUse::~CacheUse() {
  release();
}

void CacheUse::release() {
  Joined old;
  {
    std::lock_guard lock(fork_mutex());
    old = std::exchange(joined_, {});
  }
  if (!old.cache) return;
  if (old.pid == ::getpid())
    old.cache->leave(old.ceiling);
  else
    new std::shared_ptr<SharedCache>(std::move(old.cache));  // its locks may be held for ever here
}

void CacheUse::set(const CachedRows& rows, uint64_t ceiling) {
  {
    std::lock_guard lock(fork_mutex());
    rows_ = rows;
    ceiling_ = ceiling;
  }
  release();
}

std::shared_ptr<SharedCache> CacheUse::peek() const {
  std::lock_guard lock(fork_mutex());
  return joined_.pid == ::getpid() ? joined_.cache : nullptr;
}

std::shared_ptr<SharedCache> CacheUse::get() {
  if (auto there = peek()) return there;
  release();
  Joined mine{.cache = nullptr, .ceiling = 0, .pid = ::getpid()};
  bool made = false;
  {
    std::lock_guard lock(fork_mutex());
    if (ceiling_ == 0) return nullptr;
    mine.ceiling = ceiling_;
    std::erase_if(caches(), [](const auto& entry) { return entry.second.expired(); });
    std::weak_ptr<SharedCache>& known = caches()[rows_];
    mine.cache = known.lock();
    made = !mine.cache;
    if (made) known = mine.cache = std::make_shared<SharedCache>(rows_);
  }
  // Not with fork_mutex() held: the governor has locks that are taken around a fork, too.
  const bool empty = mine.cache->join(mine.ceiling);
  if (made)
    governor::add(mine.cache);
  else if (empty)
    governor::look();  // which gives it its first memory
  {
    std::lock_guard lock(fork_mutex());
    if (!joined_.cache && ceiling_ == mine.ceiling) return (joined_ = mine).cache;
  }
  mine.cache->leave(mine.ceiling);  // another thread was quicker, or has asked for something else
  return peek();
}

}  // namespace gz
