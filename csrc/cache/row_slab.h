// A piece of a row cache: rows of one column in one block of memory, with all that is needed to find them.
//
// Eviction is SIEVE (Zhang et al., NSDI 2024): new rows enter at the head of a queue, a hand moves from its
// tail to its head and evicts the first row that was not asked for since it last came by. A scan passes
// through without pushing out what is asked for again and again.
//
// The rows lie in memory that the kernel may take back without asking (MADV_FREE), page by page, when it
// would have to kill someone otherwise: no thread that watches is quick enough for a script that fills memory
// in one go. A page that was taken reads as zero. So every page begins with a mark, and a row counts only if,
// after it was copied, the marks of its pages are still there.
//
// A slab has a lock of its own, held only while rows are looked up or copied and never while anything is
// read: there is nothing to wait for in a circle.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "memory/buffer.h"

namespace gz {

// One row wanted by a gather: its id, and which row of the output it becomes.
struct RowRequest {
  uint64_t row;
  uint64_t place;
};

class RowSlab {
 public:
  // Rows that fit into so many bytes with all that is needed to find them.
  static uint32_t rows_in(uint64_t bytes, size_t row_bytes);
  static uint64_t bytes_for(uint32_t rows, size_t row_bytes);

  RowSlab(uint32_t rows, size_t row_bytes);

  // Copies the rows that are here into `out` and appends the others to `missed`.
  void find(const RowRequest* requests, size_t count, char* out, std::vector<RowRequest>& missed);
  // Takes over rows that now lie in `out`. Rows that are here stay as they are.
  void insert(const RowRequest* requests, size_t count, const char* out);

  uint32_t size() const { return size_.load(std::memory_order_relaxed); }  // rows held now
  // What the kernel cannot take back by itself.
  static uint64_t pinned_bytes(uint32_t rows) { return index_bytes(rows); }
  std::pair<char*, size_t> row_memory() const { return {rows_.data(), rows_.capacity()}; }  // for tests
  // Gives the memory back at once, whoever still has the slab: from now on it finds and keeps nothing.
  void drop();

 private:
  struct Entry {  // of a queue
    uint64_t row;
    uint32_t newer, older;
    uint16_t asked;  // since the hand last came by
    uint16_t lost;   // a page of it was taken, and is in use again for others
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kPageBytes = 4096, kMark = sizeof(uint64_t), kPayload = kPageBytes - kMark;

  static size_t table_size(uint32_t rows);
  static uint64_t row_pages(uint32_t rows, size_t row_bytes) {
    return (rows * uint64_t{row_bytes} + kPayload - 1) / kPayload;
  }
  static uint64_t index_bytes(uint32_t rows);

  // All below with the mutex held. Table places hold entry + 1, so that untouched memory, which is zero,
  // means empty: a slab costs nothing until it is used.
  size_t home(uint64_t row) const { return (row * kGolden) >> 20 & mask_; }  // bits that slab_of() leaves
  void prefetch_place(uint64_t row) const { __builtin_prefetch(table_ + home(row)); }
  void prefetch_row(uint64_t row) const;
  uint32_t entry_of(uint64_t row) const;
  bool copy_out(uint32_t e, char* to) const;  // false: it was taken
  bool intact(uint32_t e) const;
  void copy_in(uint32_t e, const char* from);
  void insert_one(uint64_t row, const char* bytes);
  uint32_t evict();
  void forget(uint64_t row);

  // The bytes of row e, piece by piece: the rows follow each other, leaving out the marks.
  template <class Piece>
  void pieces(uint32_t e, Piece&& piece) const {
    uint64_t at = e * uint64_t{row_bytes_};
    for (size_t done = 0; done < row_bytes_;) {
      const size_t bytes = std::min<uint64_t>(row_bytes_ - done, kPayload - at % kPayload);
      piece(rows_.data() + at / kPayload * kPageBytes + kMark + at % kPayload, done, bytes);
      at += bytes;
      done += bytes;
    }
  }
  uint64_t* mark_of(const char* in_page) const {
    const size_t offset = static_cast<size_t>(in_page - rows_.data());
    return reinterpret_cast<uint64_t*>(rows_.data() + offset / kPageBytes * kPageBytes);
  }

  std::mutex mutex_;
  size_t row_bytes_;
  uint32_t capacity_;
  std::atomic<uint32_t> size_{0};  // written with the mutex held
  uint32_t head_ = kNone, tail_ = kNone, hand_ = kNone;
  Buffer rows_;   // pages of rows
  Buffer index_;  // capacity entries, then the table
  Entry* entries_;
  uint32_t* table_;
  size_t mask_;
};

}  // namespace gz
