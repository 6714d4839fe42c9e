// One row cache a file and process, shared by all who have the file open, under the governor.
//
// It starts small and grows while it is full, there is room and it pays: the reads it saves must have taken
// longer than looking rows up and taking them in does. One that does not pay shrinks by halves, and is tried
// again after a good while, each time a longer one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "cache/row_cache.h"
#include "memory/governor.h"

namespace gz {

// Rows of a file that is what it was when it was opened.
struct CachedRows {
  uint64_t device, inode, modified_ns, file_bytes;
  uint64_t first, num_rows, row_bytes;

  auto operator<=>(const CachedRows&) const = default;
};

class SharedCache : public MemoryClient {
 public:
  static constexpr uint64_t kAuto = UINT64_MAX;  // as a ceiling: what the governor allows

  explicit SharedCache(const CachedRows& rows);

  // What a gather works with; null while there is nothing. Costs a lock.
  std::shared_ptr<const RowCache::Slabs> slabs() const;
  // What came of it: rows found and read, and the time that looking up and taking in, and reading, took.
  void note(uint64_t hits, uint64_t misses, uint64_t cache_ns, uint64_t read_ns);

  struct Stats {
    RowCache::Size size;
    uint64_t most;    // bytes it could have; UINT64_MAX: what the governor allows
    std::string why;  // of its last change
  };
  Stats stats() const;

  Need need() override;
  void resize(uint64_t bytes, const std::string& why) override;

 private:
  friend class CacheUse;
  bool join(uint64_t ceiling);  // whether it has yet to be given memory
  void leave(uint64_t ceiling);
  void fit_ceiling(uint64_t limit);  // with mutex_ held
  uint64_t ceiling() const;
  void judge(const RowCache::Size& size);

  const CachedRows rows_;
  const uint64_t hash_;
  mutable std::mutex mutex_;
  std::multiset<uint64_t> ceilings_;  // of those who use it
  std::shared_ptr<RowCache> cache_;
  bool granted_ = false;
  std::string why_;

  std::atomic<uint64_t> hits_{0}, misses_{0}, cache_ns_{0}, read_ns_{0};
  // Of need() alone, which one thread calls at a time:
  struct Counts {
    uint64_t hits = 0, misses = 0, cache_ns = 0, read_ns = 0;
    uint64_t asked() const { return hits + misses; }
  };
  Counts counts() const;
  Counts settled_;  // when it was first full at its size
  uint64_t settled_size_ = 0;
  uint64_t last_asked_ = 0;
  uint64_t pays_up_to_ = UINT64_MAX;      // bytes; less after it was found not to pay
  uint64_t retry_at_ = 0, failures_ = 0;  // rows asked for
  std::string verdict_;
};

// A user's part in the cache of a file. A forked child begins anew.
class CacheUse {
 public:
  CacheUse() = default;
  ~CacheUse();
  CacheUse(const CacheUse&) = delete;
  CacheUse& operator=(const CacheUse&) = delete;

  // From now on: at most `ceiling` bytes for the file, or kAuto, or 0 for no cache.
  void set(const CachedRows& rows, uint64_t ceiling);
  // Null where there is to be none.
  std::shared_ptr<SharedCache> get();
  std::shared_ptr<SharedCache> peek() const;  // does not make one

 private:
  void release();

  struct Joined {
    std::shared_ptr<SharedCache> cache;
    uint64_t ceiling = 0;
    pid_t pid = 0;
  };
  // Under fork_mutex():
  CachedRows rows_{};
  uint64_t ceiling_ = 0;
  Joined joined_;
};

}  // namespace gz
