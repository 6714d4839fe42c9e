#include "cache/row_slab.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/system.h"

namespace gz {
namespace {

constexpr size_t kAhead = 16;

}  // namespace

size_t RowSlab::table_size(uint32_t rows) {
  return std::bit_ceil(size_t{rows} * 2);
}

uint64_t RowSlab::index_bytes(uint32_t rows) {
  return rows ? rows * sizeof(Entry) + table_size(rows) * sizeof(uint32_t) : 0;
}

uint64_t RowSlab::bytes_for(uint32_t rows, size_t row_bytes) {
  return row_pages(rows, row_bytes) * kPageBytes + index_bytes(rows);
}

uint32_t RowSlab::rows_in(uint64_t bytes, size_t row_bytes) {
  // At least two places of the table a row; near the end of a doubling four, which the loop takes off.
  const uint64_t rows = bytes / (row_bytes + sizeof(Entry) + 2 * sizeof(uint32_t));
  auto fit = static_cast<uint32_t>(std::min<uint64_t>(rows, UINT32_MAX / 4));
  while (fit && bytes_for(fit, row_bytes) > bytes) fit -= std::max<uint32_t>(1, fit / 1024);
  return fit;
}

RowSlab::RowSlab(uint32_t rows, size_t row_bytes)
    : row_bytes_(row_bytes),
      capacity_(rows),
      rows_(row_pages(rows, row_bytes) * kPageBytes),
      index_(index_bytes(rows)),
      entries_(index_.as<Entry>()),
      table_(reinterpret_cast<uint32_t*>(entries_ + rows)),
      mask_(table_size(rows) - 1) {
  // A forked child starts with caches of its own instead of copies of these page by page.
  for (const Buffer* b : {&rows_, &index_}) system::wipe_in_children(b->data(), b->capacity());
}

void RowSlab::find(const RowRequest* requests, size_t count, char* out, std::vector<RowRequest>& missed) {
  std::lock_guard lock(mutex_);
  if (capacity_ == 0) {
    missed.insert(missed.end(), requests, requests + count);
    return;
  }
  for (size_t i = 0; i < std::min(count, 2 * kAhead); ++i) prefetch_place(requests[i].row);
  for (size_t i = 0; i < count; ++i) {
    if (i + 2 * kAhead < count) prefetch_place(requests[i + 2 * kAhead].row);
    if (i + kAhead < count) prefetch_row(requests[i + kAhead].row);
    const uint32_t e = entry_of(requests[i].row);
    if (e == kNone || !copy_out(e, out + requests[i].place * row_bytes_))
      missed.push_back(requests[i]);
    else
      entries_[e].asked = 1;
  }
}

void RowSlab::insert(const RowRequest* requests, size_t count, const char* out) {
  std::lock_guard lock(mutex_);
  if (capacity_ == 0) return;
  for (size_t i = 0; i < count; ++i) insert_one(requests[i].row, out + requests[i].place * row_bytes_);
  // Writing to a page makes it the kernel's to keep; this lets it go again.
  ::madvise(rows_.data(), row_pages(size(), row_bytes_) * kPageBytes, MADV_FREE);
}

void RowSlab::drop() {
  std::lock_guard lock(mutex_);
  capacity_ = 0;
  size_ = 0;
  rows_ = Buffer();
  index_ = Buffer();
}

void RowSlab::prefetch_row(uint64_t row) const {
  const uint32_t e = table_[home(row)];
  if (e == 0) return;
  __builtin_prefetch(entries_ + e - 1);
  pieces(e - 1, [](const char* at, size_t, size_t bytes) {
    for (size_t b = 0; b < std::min<size_t>(bytes, 512); b += 64) __builtin_prefetch(at + b);
  });
}

bool RowSlab::copy_out(uint32_t e, char* to) const {
  pieces(e, [&](const char* at, size_t done, size_t bytes) { std::memcpy(to + done, at, bytes); });
  // The marks are looked at after the copy: a page that is there now was there then, for only insert(), which
  // waits for the lock, brings one back.
  std::atomic_thread_fence(std::memory_order_acquire);
  return intact(e);
}

bool RowSlab::intact(uint32_t e) const {
  bool there = !entries_[e].lost;
  pieces(e, [&](const char* at, size_t, size_t) {
    there &= std::atomic_ref<uint64_t>(*mark_of(at)).load(std::memory_order_relaxed) != 0;
  });
  return there;
}

void RowSlab::copy_in(uint32_t e, const char* from) {
  entries_[e].lost = 0;
  pieces(e, [&](char* at, size_t done, size_t bytes) {
    uint64_t* const mark = mark_of(at);
    if (*mark == 0) {
      // New, or taken: what else was in it is gone. A page that is taken after this look is written without
      // a mark and counts as taken still.
      const uint64_t first = static_cast<uint64_t>(reinterpret_cast<char*>(mark) - rows_.data()) / kPageBytes;
      const uint64_t begin = first * kPayload / row_bytes_;
      const uint64_t end = std::min<uint64_t>(((first + 1) * kPayload - 1) / row_bytes_ + 1, size());
      for (uint64_t other = begin; other < end; ++other) entries_[other].lost |= other != e;
      *mark = 1;
    }
    std::memcpy(at, from + done, bytes);
  });
}

uint32_t RowSlab::entry_of(uint64_t row) const {
  for (size_t at = home(row); table_[at]; at = (at + 1) & mask_)
    if (entries_[table_[at] - 1].row == row) return table_[at] - 1;
  return kNone;
}

void RowSlab::insert_one(uint64_t row, const char* bytes) {
  if (const uint32_t known = entry_of(row); known != kNone) {
    if (!intact(known)) copy_in(known, bytes);
    entries_[known].asked = 1;  // before by another batch of the same gather, or by another gather meanwhile
    return;
  }
  const uint32_t e = size() < capacity_ ? size_.fetch_add(1, std::memory_order_relaxed) : evict();
  entries_[e] = {row, kNone, head_, 0, 0};
  if (head_ != kNone) entries_[head_].newer = e;
  head_ = e;
  if (tail_ == kNone) tail_ = e;
  copy_in(e, bytes);
  size_t at = home(row);
  while (table_[at]) at = (at + 1) & mask_;
  table_[at] = e + 1;
}

uint32_t RowSlab::evict() {
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
void RowSlab::forget(uint64_t row) {
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

}  // namespace gz
