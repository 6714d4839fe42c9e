// How much of the memory gz may hold: decided from what is seen, again and again, by rules without I/O.
//
// What is free counts page cache, and the rows of the row caches, which the kernel can take back by itself
// (cache/row_slab.h). Added to it is what gz holds beside and could give back (batches made ahead, what finds
// the cached rows): that is the room the script leaves. Its lowest value shows the script's peaks: that of
// the last half minute or minute for row caches, which the kernel can take; that of the last half hour or
// hour for what it cannot, because a peak that comes once an epoch comes again. Off that low goes a reserve,
// because the next peak may be higher and is seen a moment late. The rest is what gz may hold, divided by the
// processes that share it: first batches ahead, as far as files that should be held as a whole have room
// beside them, or in place of hot rows, half of them; and a quarter of it buffers that the pool keeps; then
// row caches, which also leave room for the files that the page cache should hold, and grow in steps, only
// when they are full.
//
// Where a script's peaks come near the limit, pages of what it freed that its allocator keeps are given back:
// after some batches of training they are hundreds of megabytes, and the next peak comes on top of them.
//
// When the room shrinks, no more batches are begun; when it is less than the reserve, the pool gives back
// what it keeps; caches shrink to what the script's new peak leaves them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace gz {

// The lowest of the values of the last one to two windows.
class RecentLow {
 public:
  explicit RecentLow(double window) : window_(window) {}
  void note(double now, uint64_t value);
  uint64_t value() const { return std::min(low_, before_); }

 private:
  double window_, start_ = 0;
  bool begun_ = false;
  uint64_t low_ = 0, before_ = 0;  // of this window and of the one before
};

struct MemoryState {
  double now = 0;  // seconds since anything
  uint64_t limit = 0, free = 0;
  uint64_t stalled_us = 0, refaults = 0;  // counters, as in MemoryReading
  // Of all the processes that share the memory, this one included:
  uint64_t held_by_all = 0;  // batches ahead, and what row caches hold that the kernel cannot take back
  unsigned sharers = 1;      // processes the room is divided by
  unsigned processes = 1;    // all of them
  bool others_wait = false;  // other processes read rows, and this one has not for a while
  // Files the page cache should have room for: as a whole; as far as it goes.
  uint64_t pages_held = 0, pages_useful = 0;
  uint64_t pages_of_hot_rows = 0;  // of those held: rows in the order of how often they are read
  // Of this process:
  uint64_t cache = 0;                    // size of the row caches
  uint64_t cache_unit = 1;               // they change by at least so much
  bool cache_full = false;               // one of them would profit from more
  uint64_t cache_hits = 0;               // counter: rows that were not read because they were there
  uint64_t ahead = 0, ahead_wanted = 0;  // bytes of batches made ahead, and what all that are asked for take
  uint64_t pool = 0;                     // kept by the pool of output buffers
  uint64_t pool_idle = 0;                // of that, what nobody has needed for a while
  double trim_took = 0;                  // seconds that trimming the heap took the last time
};

struct MemoryOrders {
  uint64_t cache = 0;   // size the row caches of this process may have together
  uint64_t pool = 0;    // bytes the pool may keep
  uint64_t loose = 0;   // and with those that the kernel may take from it
  uint64_t ahead = 0;   // bytes that more batches ahead may take
  double sleep = 0.05;  // seconds until the next look
  bool trim = false;    // the heap is to give back what is free in it
  std::string why;      // what changed and why; empty when nothing did
};

class MemoryPolicy {
 public:
  MemoryPolicy() = default;
  // For a child of the process that `parent` decided for: it knows what the script takes at its peaks.
  static MemoryPolicy in_child(const MemoryPolicy& parent);

  MemoryOrders decide(const MemoryState& state);

  // What a new cache may have at once, before it has shown anything.
  uint64_t first_grant(bool asked_for) const { return spare_ / (asked_for ? 2 : 8); }

  uint64_t reserve() const { return reserve_; }
  uint64_t lowest_room() const { return recent_.value(); }  // what the script left at its peak
  uint64_t pages() const { return pages_; }
  // What the script's peaks, the reserve, batches ahead and files that are to be held leave of memory.
  uint64_t beside_held() const { return beside_held_; }

 private:
  void observe(const MemoryState& s);
  void pages_and_room(const MemoryState& s);
  bool pages_come_back(const MemoryState& s);
  void make_up(const MemoryState& s, MemoryOrders& o);
  void shrink(const MemoryState& s, MemoryOrders& o);
  void grow(const MemoryState& s, MemoryOrders& o);
  void trim(const MemoryState& s, MemoryOrders& o);

  static constexpr double kWindow = 30, kLongWindow = 1800;  // seconds

  bool begun_ = false;
  double last_now_ = 0;
  RecentLow recent_{kWindow}, lasting_{kLongWindow};  // of the room
  uint64_t last_room_ = 0, swing_ = 0;
  uint64_t reserve_ = 0, pages_ = 0, beside_held_ = 0, for_ahead_ = 0, for_pool_ = 0, for_cache_ = 0,
           spare_ = 0;
  double new_low_at_ = 0, urgent_at_ = -1e9, grown_at_ = -1e9, cramped_since_ = -1, trimmed_at_ = -1e9;
  // Pages of files dropped and read again: counters at the last check, and how large the caches may be since
  // it found that they cost more reads than they save.
  double checked_at_ = -1e9, thrash_until_ = -1e9, thrash_pause_ = 0;
  uint64_t stalled_then_ = 0, refaults_then_ = 0, hits_then_ = 0;
  uint64_t thrash_most_ = UINT64_MAX;
};

}  // namespace gz
