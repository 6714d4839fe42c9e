#include "row_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace gz {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kRowsPerShard = 4096;  // enough to lock seldom, few enough for tables that stay cached
constexpr size_t kMostShards = 1024;
constexpr size_t kAhead = 16;

struct Entry {  // of a queue
  uint64_t row;
  uint32_t newer, older;
  uint32_t asked;  // since the hand last came by
};

// What a row costs beside its bytes: its entry, and two to four places of the table.
constexpr size_t kOverhead = sizeof(Entry) + 4 * sizeof(uint32_t);

}  // namespace

class RowCache::Shard {
 public:
  // `memory`: capacity rows, then capacity entries, then the table.
  Shard(char* memory, uint32_t capacity, size_t row_bytes)
      : row_bytes_(row_bytes),
        capacity_(capacity),
        rows_(memory),
        entries_(reinterpret_cast<Entry*>(memory + capacity * align(row_bytes))),
        table_(reinterpret_cast<uint32_t*>(entries_ + capacity)),
        mask_(table_size(capacity) - 1) {}

  static size_t align(size_t row_bytes) { return (row_bytes + 63) / 64 * 64; }
  static size_t table_size(uint32_t capacity) { return std::bit_ceil(size_t{capacity} * 2); }
  static size_t memory_for(uint32_t capacity, size_t row_bytes) {
    const size_t bytes =
        capacity * (align(row_bytes) + sizeof(Entry)) + table_size(capacity) * sizeof(uint32_t);
    return (bytes + 63) / 64 * 64;
  }

  std::mutex mutex;

  // All below with the mutex held. Table places hold entry + 1, so that untouched memory, which is zero,
  // means empty: a cache costs nothing until it is used.

  // Bits of the product that shard_of() does not use: within a shard those are all the same.
  size_t home(uint64_t row) const { return (row * kGolden) >> 42 & mask_; }
  void prefetch_place(uint64_t row) const { __builtin_prefetch(table_ + home(row)); }
  void prefetch_row(uint64_t row) const {
    const uint32_t e = table_[home(row)];
    if (e == 0) return;
    __builtin_prefetch(entries_ + e - 1);
    const char* at = row_at(e - 1);
    for (size_t b = 0; b < std::min<size_t>(row_bytes_, 512); b += 64) __builtin_prefetch(at + b);
  }

  const char* find(uint64_t row) const {
    const uint32_t e = entry_of(row);
    if (e == kNone) return nullptr;
    entries_[e].asked = 1;
    return row_at(e);
  }

  void insert(uint64_t row, const char* bytes) {
    if (entry_of(row) != kNone) return;
    uint32_t e = size_ < capacity_ ? size_++ : evict();
    entries_[e] = {row, kNone, head_, 0};
    if (head_ != kNone) entries_[head_].newer = e;
    head_ = e;
    if (tail_ == kNone) tail_ = e;
    std::memcpy(row_at(e), bytes, row_bytes_);
    size_t at = home(row);
    while (table_[at]) at = (at + 1) & mask_;
    table_[at] = e + 1;
  }

  uint32_t size() const { return size_; }

 private:
  char* row_at(uint32_t e) const { return rows_ + e * align(row_bytes_); }

  uint32_t entry_of(uint64_t row) const {
    for (size_t at = home(row); table_[at]; at = (at + 1) & mask_)
      if (entries_[table_[at] - 1].row == row) return table_[at] - 1;
    return kNone;
  }

  uint32_t evict() {
    uint32_t e = hand_ == kNone ? tail_ : hand_;
    while (entries_[e].asked) {
      entries_[e].asked = 0;
      e = entries_[e].newer == kNone ? tail_ : entries_[e].newer;
    }
    const Entry victim = entries_[e];
    hand_ = victim.newer;
    (victim.newer == kNone ? head_ : entries_[victim.newer].older) = victim.older;
    (victim.older == kNone ? tail_ : entries_[victim.older].newer) = victim.newer;
    forget(victim.row);
    return e;
  }

  // Takes a row out of the table and moves up what had to make way for it, so that no search stops too early.
  void forget(uint64_t row) {
    size_t at = home(row);
    while (entries_[table_[at] - 1].row != row) at = (at + 1) & mask_;
    for (size_t next = (at + 1) & mask_; table_[next]; next = (next + 1) & mask_) {
      const size_t wanted = home(entries_[table_[next] - 1].row);
      if (((next - wanted) & mask_) < ((next - at) & mask_)) continue;
      table_[at] = table_[next];
      at = next;
    }
    table_[at] = 0;
  }

  size_t row_bytes_;
  uint32_t capacity_, size_ = 0;
  uint32_t head_ = kNone, tail_ = kNone, hand_ = kNone;
  char* rows_;
  Entry* entries_;
  uint32_t* table_;
  size_t mask_;
};

RowCache::RowCache(uint64_t budget, size_t row_bytes) : row_bytes_(row_bytes) {
  const uint64_t rows = budget / (Shard::align(row_bytes) + kOverhead);
  const size_t shards = std::bit_floor(std::clamp<uint64_t>(rows / kRowsPerShard, 1, kMostShards));
  auto each = static_cast<uint32_t>(std::min<uint64_t>(rows / shards, UINT32_MAX / 4));
  while (each && Shard::memory_for(each, row_bytes) * shards > budget) --each;  // rounding
  if (each == 0) return;
  capacity_ = each * shards;
  const size_t shard_bytes = Shard::memory_for(each, row_bytes);
  bytes_ = shard_bytes * shards;
  memory_ = Buffer(bytes_);
  // A forked child starts with an empty cache of its own instead of a copy of this one page by page.
  ::madvise(memory_.data(), memory_.capacity(), MADV_WIPEONFORK);
  for (size_t s = 0; s < shards; ++s)
    shards_.push_back(std::make_unique<Shard>(memory_.data() + s * shard_bytes, each, row_bytes));
}

RowCache::~RowCache() = default;

uint64_t RowCache::size() const {
  uint64_t rows = 0;
  for (const auto& shard : shards_) {
    std::lock_guard lock(shard->mutex);
    rows += shard->size();
  }
  return rows;
}

void RowCache::find(size_t shard, const RowRequest* requests, size_t count, char* out,
                    std::vector<RowRequest>& missed) {
  Shard& s = *shards_[shard];
  std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < std::min(count, 2 * kAhead); ++i) s.prefetch_place(requests[i].row);
  for (size_t i = 0; i < count; ++i) {
    if (i + 2 * kAhead < count) s.prefetch_place(requests[i + 2 * kAhead].row);
    if (i + kAhead < count) s.prefetch_row(requests[i + kAhead].row);
    if (const char* bytes = s.find(requests[i].row))
      std::memcpy(out + requests[i].place * row_bytes_, bytes, row_bytes_);
    else
      missed.push_back(requests[i]);
  }
}

void RowCache::insert(size_t shard, const RowRequest* requests, size_t count, const char* out) {
  Shard& s = *shards_[shard];
  std::lock_guard lock(s.mutex);
  for (size_t i = 0; i < count; ++i) s.insert(requests[i].row, out + requests[i].place * row_bytes_);
}

}  // namespace gz
