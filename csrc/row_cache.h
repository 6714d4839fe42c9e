// Rows of one column kept in memory within a budget of bytes.
//
// Why not leave it to the page cache: a page of 4096 bytes holds eight rows of 512, and seven of them are
// cold. Eviction is SIEVE (Zhang et al., NSDI 2024): new rows enter at the head of a queue, a hand moves from
// its tail to its head and evicts the first row that was not asked for since it last came by. A scan passes
// through without pushing out what is asked for again and again.
//
// Rows are spread over shards by a hash of their id, each with a lock of its own, held only while rows are
// looked up or copied and never while anything is read: there is nothing to wait for in a circle.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "buffer.h"
#include "rng.h"

namespace gz {

// One row wanted by a gather: its id, and which row of the output it becomes.
struct RowRequest {
  uint64_t row;
  uint64_t place;
};

class RowCache {
 public:
  // Holds as many rows as fit the budget with all that is needed to find them; none if not even one does.
  RowCache(uint64_t budget, size_t row_bytes);
  ~RowCache();

  uint64_t capacity() const { return capacity_; }  // rows
  uint64_t size() const;                           // rows held now
  uint64_t bytes() const { return bytes_; }        // of memory when full; at most the budget

  size_t num_shards() const { return shards_.size(); }
  size_t shard_of(uint64_t row) const { return (row * kGolden) >> 32 & (shards_.size() - 1); }

  // Copies the rows that are here into `out` and appends the others to `missed`. All requests are of `shard`.
  void find(size_t shard, const RowRequest* requests, size_t count, char* out,
            std::vector<RowRequest>& missed);
  // Takes over rows that now lie in `out`. Rows already here stay as they are.
  void insert(size_t shard, const RowRequest* requests, size_t count, const char* out);

 private:
  class Shard;

  size_t row_bytes_;
  uint64_t capacity_ = 0, bytes_ = 0;
  Buffer memory_;
  std::vector<std::unique_ptr<Shard>> shards_;
};

}  // namespace gz
