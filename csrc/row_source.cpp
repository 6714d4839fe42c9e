#include "row_source.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "check.h"
#include "fork.h"
#include "gather.h"
#include "threads.h"

namespace gz {
namespace {

// Rows smaller than this are fetched by the page, into the page cache: a cache of rows would spend more on
// finding them than on holding them, and a page holds many.
constexpr size_t kSmallRow = 128;
constexpr uint64_t kShareOfForked = 4;  // a forked worker's cache is this part of its parent's

}  // namespace

RowSource::RowSource(std::shared_ptr<Mapping> mapping, uint64_t first, uint64_t num_rows, size_t row_bytes)
    : mapping_(std::move(mapping)),
      first_(first),
      num_rows_(num_rows),
      row_bytes_(row_bytes),
      residency_(mapping_) {}

RowSource::~RowSource() = default;

void RowSource::configure(uint64_t cache, bool load) {
  std::lock_guard lock(fork_mutex());
  residency_.allow_loading(load);
  cache_budget_ = row_bytes_ < kSmallRow ? 0 : std::min(cache, num_rows_ * (row_bytes_ + kPage));
  cache_.reset();
  cache_pid_ = ::getpid();
}

std::shared_ptr<RowCache> RowSource::cache() {
  std::lock_guard lock(fork_mutex());
  if (cache_budget_ == 0) return nullptr;
  if (cache_pid_ != ::getpid()) {
    // A forked child. Locks of the parent's cache may be held for ever here and its memory reads as zero: it
    // is left alone.
    if (cache_) new std::shared_ptr<RowCache>(std::move(cache_));
    cache_.reset();
    cache_pid_ = ::getpid();
    cache_budget_ /= kShareOfForked;
  }
  if (!cache_) cache_ = std::make_shared<RowCache>(cache_budget_, row_bytes_);
  return cache_->capacity() ? cache_ : nullptr;
}

void RowSource::gather(const int64_t* ids, size_t count, char* out) {
  check_ids(ids, count, num_rows_, "row");
  if (count == 0 || row_bytes_ == 0) return;
  const auto place = [&](size_t i) { return first_ + static_cast<uint64_t>(ids[i]) * row_bytes_; };
  if (!residency_.likely(count, place)) {
    if (row_bytes_ >= kSmallRow) return gather_cold(ids, count, out);
    residency_.fetch(
        count, [&](size_t i) { return std::pair<uint64_t, uint64_t>(place(i), row_bytes_); }, counts_);
  }
  mapped_.fetch_add(count, std::memory_order_relaxed);
  gz::gather(mapping_->data() + first_, num_rows_, row_bytes_, ids, count, out);
}

void RowSource::gather_cold(const int64_t* ids, size_t count, char* out) {
  const std::shared_ptr<RowCache> cache = this->cache();
  PooledArray<RowRequest> missed(count);
  if (!cache) {
    // What a background load has brought in already is copied, the rest is read.
    const uint64_t loaded = residency_.loaded();
    size_t n = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto row = static_cast<uint64_t>(ids[i]);
      if (first_ + (row + 1) * row_bytes_ <= loaded)
        std::memcpy(out + i * row_bytes_, mapping_->data() + first_ + row * row_bytes_, row_bytes_);
      else
        missed[n++] = {row, i};
    }
    missed.resize(n);
    mapped_.fetch_add(count - n, std::memory_order_relaxed);
    return read(missed, out);
  }

  // Shard by shard, so that each lock is taken once and each table stays in the processor's cache.
  const size_t shards = cache->num_shards();
  std::vector<size_t> bounds(shards + 1, 0);
  for (size_t i = 0; i < count; ++i) ++bounds[cache->shard_of(static_cast<uint64_t>(ids[i])) + 1];
  for (size_t s = 0; s < shards; ++s) bounds[s + 1] += bounds[s];
  PooledArray<RowRequest> requests(count);
  std::vector<size_t> at(bounds.begin(), bounds.end() - 1);
  for (size_t i = 0; i < count; ++i) {
    const auto row = static_cast<uint64_t>(ids[i]);
    requests[at[cache->shard_of(row)]++] = {row, i};
  }
  std::vector<std::vector<RowRequest>> missed_of(shards);
  parallel_for(shards, std::max<size_t>(1, shards / 64), [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s)
      if (bounds[s] < bounds[s + 1])
        cache->find(s, requests.data() + bounds[s], bounds[s + 1] - bounds[s], out, missed_of[s]);
  });
  size_t n = 0;
  for (const auto& part : missed_of)
    for (const RowRequest& r : part) missed[n++] = r;
  missed.resize(n);
  hits_.fetch_add(count - n, std::memory_order_relaxed);
  read(missed, out);
  parallel_for(shards, std::max<size_t>(1, shards / 64), [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s)
      if (!missed_of[s].empty()) cache->insert(s, missed_of[s].data(), missed_of[s].size(), out);
  });
}

void RowSource::read(PooledArray<RowRequest>& requests, char* out) {
  if (requests.size() == 0) return;
  {
    std::lock_guard lock(fork_mutex());
    if (!past_) past_ = std::make_unique<ReadFile>(mapping_, ReadFile::Caching::kPast);
  }
  misses_.fetch_add(requests.size(), std::memory_order_relaxed);
  const size_t rows = requests.size();
  read_rows(*past_, first_, row_bytes_, requests, out, counts_);
  residency_.fetched(rows * row_bytes_);
}

RowSource::Stats RowSource::stats() const {
  std::shared_ptr<RowCache> cache;
  {
    std::lock_guard lock(fork_mutex());
    if (cache_pid_ == ::getpid()) cache = cache_;
  }
  const uint64_t waits = counts_.waits;
  return {.mapped = mapped_,
          .hits = hits_,
          .misses = misses_,
          .reads = counts_.reads,
          .bytes_read = counts_.bytes,
          .queue_depth = waits ? static_cast<double>(counts_.in_flight) / static_cast<double>(waits) : 0.0,
          .cache_bytes = cache ? cache->bytes() : 0,
          .cache_rows = cache ? cache->capacity() : 0,
          .cached_rows = cache ? cache->size() : 0,
          .loaded = residency_.loaded()};
}

}  // namespace gz
