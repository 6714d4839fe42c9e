// What a read costs a disk beside the bytes in it, as the reads of this process tell.
//
// Rows that lie near each other are read together, and what lies between them is read in vain. How far apart
// they may lie for that depends on the disk: 4 KiB take a SATA disk as long as half a read does, a virtual
// one or a cloud's volume a tenth of one. So the reads that are made are watched. Now and then a call reads
// across less or more than is thought best; how much longer its reads take than those of the call before, of
// the same file, and how much larger they are, tells what a byte costs, and what is left of the time is the
// read's. Of the same file, since it is read at the same time in every batch, and has to wait for the
// processor as long.
#pragma once

#include <atomic>
#include <cstdint>

namespace gz {

class ReadCost {
 public:
  // Bytes that rows may lie apart: where nothing is known yet, and what it may become.
  static constexpr uint64_t kUsualGap = 8 << 10, kLeastGap = 4 << 10, kMostGap = 32 << 10;

  // For the next call; for some the least or the most, to learn from.
  uint64_t next_gap();
  // Bytes that are read in vain in the time that another read takes.
  uint64_t gap() const { return gap_.load(std::memory_order_relaxed); }

  // The last call for a file: the mean size of its reads, and the time that each took. Under fork_mutex().
  struct Call {
    double reads = 0, size = 0, ns = 0;
  };
  // A call for a file kept a queue full with so many `reads`, and took `ns`. `last`: the file's.
  void note(Call& last, uint64_t reads, uint64_t bytes, uint64_t ns);

  // Of the disk that a file is on. Lives as long as the process.
  static ReadCost& of(uint64_t device);

 private:
  // Sums over the calls, and over the differences between two of a file: each counts as often as it has
  // reads, and the older ones less. Under fork_mutex().
  double reads_ = 0, bytes_ = 0, ns_ = 0;
  double pairs_ = 0, size_size_ = 0, size_ns_ = 0;
  std::atomic<uint64_t> gap_{kUsualGap}, calls_{0};
};

}  // namespace gz
