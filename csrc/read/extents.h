// Reads rows, or pages, that are not in memory: many at a time.
//
// Rows are sorted by where they lie, neighbours are read together, and the caller keeps a deep queue of reads
// going; no worker of threads.h is taken from those who compute. A row that the device can deliver where it
// is wanted goes there at once; others pass through a small buffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cache/row_slab.h"
#include "file/mapping.h"
#include "file/read_cost.h"
#include "memory/pool.h"

namespace gz {

enum class ReadPath { kRing, kThreads };

// How the reads of a process are made. "ring" where the kernel allows io_uring, else blocking threads; the
// environment variable GZ_IO=ring|threads|map chooses, for tests and for kernels with a broken one.
struct ReadChoice {
  ReadPath path;
  std::string why;
};
ReadChoice read_choice();  // changes once: when the kernel begins to deny what it allowed
bool only_mapping();       // GZ_IO=map: never read, let the page faults do it

struct ReadCounts {
  std::atomic<uint64_t> reads{0}, bytes{0};
  std::atomic<uint64_t> waits{0}, in_flight{0};  // in_flight / waits: mean depth of the queues
  std::atomic<uint64_t> ns{0};                   // sum over the reads of how long each was in flight

  double seconds() const { return static_cast<double>(ns.load()) * 1e-9; }
};

// A second way into a mapped file, past the page cache where the filesystem allows (O_DIRECT).
class ReadFile {
 public:
  enum class Caching { kPast, kThrough };
  ReadFile(std::shared_ptr<const Mapping> mapping, Caching caching);
  ~ReadFile();
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;

  int fd() const { return fd_; }
  bool direct() const { return direct_; }
  uint64_t offset_unit() const { return offset_unit_; }  // offsets and lengths are multiples of this
  uint64_t memory_unit() const { return memory_unit_; }  // and addresses of this
  const Mapping& mapping() const { return *mapping_; }
  // Tells how long a call took that read rows of it with a full queue.
  void note(uint64_t reads, uint64_t bytes, uint64_t ns) const { cost().note(last_call_, reads, bytes, ns); }
  ReadCost& cost() const { return ReadCost::of(device_); }  // of its disk

 private:
  std::shared_ptr<const Mapping> mapping_;
  uint64_t device_;
  mutable ReadCost::Call last_call_;
  int fd_ = -1;
  bool direct_ = false;
  uint64_t offset_unit_ = 1, memory_unit_ = 1;
};

// Reads `requests` (reordered) of rows of `row_bytes`, the first at `first`, into out + place * row_bytes.
// With `out` null the rows are pages, and the bytes are dropped: they were read to be in the page cache.
// Throws IoError naming the file and the offset.
void read_rows(const ReadFile& file, uint64_t first, size_t row_bytes, PooledArray<RowRequest>& requests,
               char* out, ReadCounts& counts);

}  // namespace gz
