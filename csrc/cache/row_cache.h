// Rows of one column kept in memory, in slabs: it grows and shrinks by whole ones, also while rows are being
// gathered, and never exceeds its ceiling.
//
// Why not leave it to the page cache: a page of 4096 bytes holds eight rows of 512, and seven of them are
// cold.
//
// A hash of a row's id names a bucket, and a table says which slab has the bucket. A new slab takes some
// buckets from each of the others; rows of those that stay behind are not found any more and are evicted with
// time. The buckets of a slab that goes are dealt out to those that stay. Rows never change, so there is no
// wrong one to be found.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cache/row_slab.h"

namespace gz {

class RowCache {
 public:
  // Which slab has which rows, at one moment. A gather takes one and keeps it: slabs that are dropped
  // meanwhile find nothing, new ones are not asked yet.
  class Slabs {
   public:
    size_t count() const { return slabs_.size(); }
    size_t slab_of(uint64_t row) const { return owner_[(row * kGolden) >> kShift]; }
    RowSlab& operator[](size_t slab) const { return *slabs_[slab]; }

   private:
    friend class RowCache;
    static constexpr size_t kBuckets = 8192;
    static constexpr unsigned kShift = 64 - 13;

    void deal();  // the buckets, evenly, moving as few as possible

    std::vector<std::shared_ptr<RowSlab>> slabs_;
    std::array<uint16_t, kBuckets> owner_;
  };

  // The ceiling is met as closely as whole rows and slabs allow. Starts without slabs.
  RowCache(uint64_t ceiling, size_t row_bytes);

  uint64_t slab_bytes() const { return slab_bytes_; }
  uint64_t most() const { return slab_bytes_ * most_slabs_; }  // bytes; at most the ceiling

  // As many slabs as fit into `bytes`. What shrinks is given back before this returns.
  void resize(uint64_t bytes);

  std::shared_ptr<const Slabs> slabs() const;  // null while there are none

  struct Size {
    uint64_t bytes, rows;  // of its slabs: memory when full, rows that fit
    uint64_t filled_rows;  // rows held now
    uint64_t pinned;       // bytes the kernel cannot take back by itself: what finds the rows
  };
  Size size() const;

 private:
  size_t row_bytes_;
  uint32_t slab_rows_ = 0;
  uint64_t slab_bytes_ = 0, most_slabs_ = 0;
  mutable std::mutex mutex_;
  std::shared_ptr<const Slabs> slabs_;
};

}  // namespace gz
