// What part of a mapped file is in memory, and getting it there.
//
// Page faults bring in one page per thread and wait for it. So before rows or lists are read through the
// mapping, a few of the places about to be read are looked up (mincore); if some are missing, the caller
// reads what is not there (page_map.h) with deep queues instead. A file that may be held in memory as a whole
// (allow_loading) is read from front to back in the background once that is likely to pay.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "file/mapping.h"
#include "file/page_map.h"
#include "memory/governor.h"
#include "read/extents.h"

namespace gz {

class Residency {
 public:
  // `by_page`: it is read through the page cache, so that there it should have what room there is even where
  // it may not be held as a whole.
  explicit Residency(std::shared_ptr<Mapping> mapping, bool by_page = true);
  ~Residency();

  const std::shared_ptr<Mapping>& mapping() const { return mapping_; }

  void allow_loading(bool allowed, governor::Hold hold = governor::Hold::kWhole);
  // It is read by the page and seldom: others have the room in the page cache.
  void claim_no_pages();
  // What was fetched of such a file has been used. Where it has become more than other files leave, its pages
  // are dropped: the kernel would take theirs, too.
  void drop_used();
  bool may_load() const { return may_load_.load(std::memory_order_relaxed); }
  // Bytes from the start of the file that the background load has brought in; 0 when there is none.
  uint64_t loaded() const;
  bool loading() const;
  bool was_loaded() const;  // a load was begun once

  // Whether nearly all of `count` places are in memory, by a sample. place(i): the i-th byte offset in the
  // file.
  template <class Place>
  bool likely(size_t count, Place&& place) const {
    if (!can_tell_ || only_mapping() || skip_this_look()) return true;
    const size_t samples = count < kSamples ? count : kSamples;
    const bool warm = missing(samples, count, place) * kSamples <= samples;  // one in kSamples
    warm_looks_.store(warm ? warm_looks_.load(std::memory_order_relaxed) + 1 : 0, std::memory_order_relaxed);
    return warm;
  }

  // Whether all of some places are in memory, which are looked up each time.
  template <class Place>
  bool all_there(size_t samples, Place&& place) const {
    return !can_tell_ || only_mapping() || missing(samples, samples, place) == 0;
  }

  // Both: whether some were missing, which are there now.
  template <class Range>
  bool fetch_missing(size_t count, Range&& range) {
    if (likely(count, [&](size_t i) { return range(i).first; })) return false;
    fetch(count, range);
    return true;
  }

  // Tells of bytes that had to be fetched; may start the background load.
  void fetched(uint64_t bytes);

  // Of all reads of the file, whoever makes them.
  ReadCounts& counts() { return counts_; }
  const ReadCounts& counts() const { return counts_; }

  // Brings the pages of `count` ranges into the page cache, those that are not there, many at a time, and
  // returns how many these were. range(i): {offset, bytes}; 0 bytes for none.
  template <class Range>
  size_t fetch(size_t count, Range&& range) {
    PageMap& there = map();
    there.forget_if_old();
    PooledArray<RowRequest> pages;
    size_t n = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto [offset, bytes] = range(i);
      if (bytes == 0) continue;
      for (uint64_t page = offset / kPage; page <= (offset + bytes - 1) / kPage; ++page) {
        if ((n && pages[n - 1].row == page) || there.has(page)) continue;
        if (n == pages.size()) pages.resize(n ? n * 2 : 1024);
        pages[n++] = {page, 0};
      }
    }
    pages.resize(n);
    fetch_pages(pages);
    return n;
  }

 private:
  static constexpr size_t kSamples = 32;
  static constexpr uint32_t kWarmLooks = 4, kSkip = 4;

  // A look costs 2 us a sample. What was found warm some times in a row is looked at every kSkip-th time
  // only.
  bool skip_this_look() const {
    return warm_looks_.load(std::memory_order_relaxed) >= kWarmLooks &&
           asked_.fetch_add(1, std::memory_order_relaxed) % kSkip != 0;
  }
  bool resident(uint64_t offset) const;
  template <class Place>
  size_t missing(size_t samples, size_t count, Place& place) const {
    size_t n = 0;
    for (size_t s = 0; s < samples; ++s) n += !resident(place(s * count / samples));
    return n;
  }
  PageMap& map() const;  // made on first use
  void start_loading();
  void fetch_pages(PooledArray<RowRequest>& pages);

  struct Load;  // shared with the background thread

  std::shared_ptr<Mapping> mapping_;
  std::atomic<bool> by_page_;
  bool can_tell_;
  std::atomic<uint64_t> unclaimed_{0};  // bytes fetched since pages were dropped
  std::atomic<bool> may_load_{false};
  std::atomic<uint64_t> fetched_{0};
  mutable std::atomic<uint32_t> warm_looks_{0}, asked_{0};
  std::shared_ptr<Load> load_;
  ReadCounts counts_;
  mutable std::atomic<PageMap*> map_{nullptr};
  std::shared_ptr<governor::PagesWanted> wanted_;  // under fork_mutex()
  std::unique_ptr<ReadFile> through_;              // made on first use, under fork_mutex()
};

}  // namespace gz
