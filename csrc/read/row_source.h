// Where a gather finds its rows: in the mapping while they are in memory, else in the row cache, else on the
// disk. It always gives what the file holds. Rows lie in the cache as they lie in the file, and are decoded
// last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cache/shared_cache.h"
#include "file/encoding.h"
#include "read/extents.h"
#include "read/residency.h"

namespace gz {

// Rows that lie nearer than in the file of a RowSource: a copy of those that are read most, part of it in
// memory.
class NearRows {
 public:
  virtual ~NearRows() = default;
  // Copies those of the rows `ids`, which are below the number of rows, that are here: row ids[i] to the i-th
  // of `out`. Puts the others into `rest`, which has room for all, and returns how many these are.
  virtual size_t take(const int64_t* ids, size_t count, char* out, RowRequest* rest) = 0;
  // Reads those of `requests` that the copy holds on the disk: there they lie closer together. Leaves the
  // others.
  virtual void read(PooledArray<RowRequest>& requests, char* out) = 0;

  struct Reads {
    uint64_t pages = 0;             // that had to be read for rows which were taken
    uint64_t reads = 0, bytes = 0;  // and what was read in all
    double seconds = 0;
  };
  virtual Reads reads() const = 0;
};

class RowSource {
 public:
  RowSource(std::shared_ptr<Mapping> mapping, uint64_t first, uint64_t num_rows, size_t row_bytes);
  ~RowSource();

  // cache: the most bytes for the row cache of the file, SharedCache::kAuto for what there is room for, 0 for
  // none. load: the file may be held in memory as a whole; then there is a cache only if that comes to
  // nothing.
  void configure(uint64_t cache, bool load);
  // Before the first gather.
  void use(std::shared_ptr<NearRows> near) { near_ = std::move(near); }

  // Rows as they lie in the file.
  void gather(const int64_t* ids, size_t count, char* out);
  void gather(const int64_t* ids, size_t count, char* out, const RowFormat& format);

  struct Stats {
    uint64_t mapped;        // rows copied from the mapping
    uint64_t near;          // of these, from a copy of the rows that are read most
    uint64_t hits, misses;  // rows found in the row cache; rows read, and pages of that copy
    uint64_t reads, bytes_read;
    double read_seconds;  // of all reads, as if one had followed the other
    double queue_depth;   // mean of the reads in flight, per thread
    uint64_t cache_bytes, cache_rows, cached_rows, cache_most;
    std::string cache_why;  // of the last change of its size
    uint64_t loaded;        // bytes of the file the background load has brought in
  };
  Stats stats() const;
  const std::shared_ptr<Residency>& residency() const { return residency_; }

 private:
  void gather_cold_as(const RowFormat& format, const int64_t* ids, size_t count, char* out);
  void gather_cold(const int64_t* ids, size_t count, char* out);
  void gather_uncached(PooledArray<RowRequest>& wanted, char* out, SharedCache* cache);
  void gather_cached(const PooledArray<RowRequest>& wanted, char* out, SharedCache& cache,
                     const RowCache::Slabs& slabs);
  void read(PooledArray<RowRequest>& requests, char* out);

  std::shared_ptr<Mapping> mapping_;
  uint64_t first_, num_rows_;
  size_t row_bytes_;
  std::shared_ptr<Residency> residency_;
  std::shared_ptr<NearRows> near_;

  CacheUse cache_;
  std::unique_ptr<ReadFile> past_;  // under fork_mutex()

  std::atomic<uint64_t> mapped_{0}, taken_{0}, hits_{0}, misses_{0};
};

}  // namespace gz
