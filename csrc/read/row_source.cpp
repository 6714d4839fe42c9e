#include "read/row_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/system.h"
#include "base/threads.h"
#include "read/check.h"
#include "read/gather.h"

namespace gz {
namespace {

// Rows smaller than this are fetched by the page, into the page cache: a cache of rows would spend more on
// finding them than on holding them, and a page holds many.
constexpr size_t kSmallRow = 128;

uint64_t nanoseconds() {
  using namespace std::chrono;
  return static_cast<uint64_t>(
      duration_cast<std::chrono::nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

}  // namespace

RowSource::RowSource(std::shared_ptr<Mapping> mapping, uint64_t first, uint64_t num_rows, size_t row_bytes)
    : mapping_(std::move(mapping)),
      first_(first),
      num_rows_(num_rows),
      row_bytes_(row_bytes),
      residency_(std::make_shared<Residency>(mapping_, row_bytes < kSmallRow)) {}

RowSource::~RowSource() = default;

void RowSource::configure(uint64_t cache, bool load) {
  const bool small = row_bytes_ < kSmallRow;
  residency_->allow_loading(load);
  struct stat st = {};
  if (::fstat(mapping_->fd(), &st) != 0 || small) cache = 0;
  cache_.set({.device = st.st_dev,
              .inode = st.st_ino,
              .modified_ns = system::modified_ns(st),
              .file_bytes = mapping_->size(),
              .first = first_,
              .num_rows = num_rows_,
              .row_bytes = row_bytes_},
             cache);
}

void RowSource::gather(const int64_t* ids, size_t count, char* out) {
  gather(ids, count, out, RowFormat(DType::kUInt8, DType::kNone, row_bytes_));
}

void RowSource::gather(const int64_t* ids, size_t count, char* out, const RowFormat& format) {
  check_ids(ids, count, num_rows_, "row");
  if (count == 0 || row_bytes_ == 0) return;
  const auto place = [&](int64_t id) { return first_ + static_cast<uint64_t>(id) * row_bytes_; };
  if (!residency_->likely(count, [&](size_t i) { return place(ids[i]); })) {
    const PooledArray<int64_t> own = checked_copy(ids, count, num_rows_, "row");
    if (row_bytes_ >= kSmallRow) return gather_cold_as(format, own.data(), count, out);
    residency_->fetch(count,
                      [&](size_t i) { return std::pair<uint64_t, uint64_t>(place(own[i]), row_bytes_); });
  }
  mapped_.fetch_add(count, std::memory_order_relaxed);
  const std::byte* const rows = mapping_->data() + first_;
  if (format.plain())
    gather_checked(rows, num_rows_, row_bytes_, ids, count, out);
  else
    gather_decoded(rows, num_rows_, format, ids, count, out);
}

void RowSource::gather_cold_as(const RowFormat& format, const int64_t* ids, size_t count, char* out) {
  if (format.plain()) return gather_cold(ids, count, out);
  const PooledArray<char> stored(checked_product(count, row_bytes_));
  gather_cold(ids, count, stored.data());
  decode_rows(format, stored.data(), count, out);
}

void RowSource::gather_cold(const int64_t* ids, size_t count, char* out) {
  PooledArray<RowRequest> wanted(count);
  if (near_) {
    wanted.resize(near_->take(ids, count, out, wanted.data()));
    taken_.fetch_add(count - wanted.size(), std::memory_order_relaxed);
    mapped_.fetch_add(count - wanted.size(), std::memory_order_relaxed);
  } else {
    for (size_t i = 0; i < count; ++i) wanted[i] = {static_cast<uint64_t>(ids[i]), i};
  }
  const std::shared_ptr<SharedCache> cache = residency_->may_load() ? nullptr : cache_.get();
  const auto slabs = cache ? cache->slabs() : nullptr;
  if (slabs)
    gather_cached(wanted, out, *cache, *slabs);
  else
    gather_uncached(wanted, out, cache.get());
}

// What a background load has brought in already is copied, the rest is read.
void RowSource::gather_uncached(PooledArray<RowRequest>& wanted, char* out, SharedCache* cache) {
  const uint64_t loaded = residency_->loaded();
  size_t n = 0;
  for (const RowRequest r : wanted) {
    if (first_ + (r.row + 1) * row_bytes_ <= loaded)
      std::memcpy(out + r.place * row_bytes_, mapping_->data() + first_ + r.row * row_bytes_, row_bytes_);
    else
      wanted[n++] = r;
  }
  mapped_.fetch_add(wanted.size() - n, std::memory_order_relaxed);
  wanted.resize(n);
  const uint64_t start = nanoseconds();
  read(wanted, out);
  if (cache) cache->note(0, n, 0, nanoseconds() - start);
}

// Slab by slab, so that each lock is taken once and each table stays in the processor's cache.
void RowSource::gather_cached(const PooledArray<RowRequest>& wanted, char* out, SharedCache& cache,
                              const RowCache::Slabs& slabs) {
  const uint64_t start = nanoseconds();
  const size_t count = wanted.size();
  std::vector<size_t> bounds(slabs.count() + 1, 0);
  for (const RowRequest& r : wanted) ++bounds[slabs.slab_of(r.row) + 1];
  for (size_t s = 0; s < slabs.count(); ++s) bounds[s + 1] += bounds[s];
  PooledArray<RowRequest> requests(count);
  std::vector<size_t> at(bounds.begin(), bounds.end() - 1);
  for (const RowRequest& r : wanted) requests[at[slabs.slab_of(r.row)]++] = r;
  std::vector<std::vector<RowRequest>> missed_of(slabs.count());
  const size_t grain = std::max<size_t>(1, slabs.count() / 64);
  parallel_for(slabs.count(), grain, [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s)
      if (bounds[s] < bounds[s + 1])
        slabs[s].find(requests.data() + bounds[s], bounds[s + 1] - bounds[s], out, missed_of[s]);
  });
  PooledArray<RowRequest> missed(count);
  size_t n = 0;
  for (const auto& part : missed_of)
    for (const RowRequest& r : part) missed[n++] = r;
  missed.resize(n);
  hits_.fetch_add(count - n, std::memory_order_relaxed);
  const uint64_t found = nanoseconds();
  read(missed, out);
  const uint64_t read_end = nanoseconds();
  parallel_for(slabs.count(), grain, [&](size_t begin, size_t end) {
    for (size_t s = begin; s < end; ++s)
      if (!missed_of[s].empty()) slabs[s].insert(missed_of[s].data(), missed_of[s].size(), out);
  });
  cache.note(count - n, n, found - start + nanoseconds() - read_end, read_end - found);
}

void RowSource::read(PooledArray<RowRequest>& requests, char* out) {
  if (requests.size() == 0) return;
  {
    std::lock_guard lock(fork_mutex());
    if (!past_) past_ = std::make_unique<ReadFile>(mapping_, ReadFile::Caching::kPast);
  }
  misses_.fetch_add(requests.size(), std::memory_order_relaxed);
  if (near_) near_->read(requests, out);
  const size_t rows = requests.size();
  read_rows(*past_, first_, row_bytes_, requests, out, residency_->counts());
  residency_->fetched(rows * row_bytes_);
}

RowSource::Stats RowSource::stats() const {
  const std::shared_ptr<SharedCache> cache = cache_.peek();
  const SharedCache::Stats c = cache ? cache->stats() : SharedCache::Stats{};
  const ReadCounts& counts = residency_->counts();
  const uint64_t waits = counts.waits;
  const NearRows::Reads near = near_ ? near_->reads() : NearRows::Reads{};
  // Rows may lie across two pages, and a gather that is under way has counted its pages and not yet its rows.
  const uint64_t mapped = mapped_, taken = taken_, paged = std::min({near.pages, taken, mapped});
  return {.mapped = mapped - paged,
          .near = taken - paged,
          .hits = hits_,
          .misses = misses_ + paged,
          .reads = counts.reads + near.reads,
          .bytes_read = counts.bytes + near.bytes,
          .read_seconds = counts.seconds() + near.seconds,
          .queue_depth = waits ? static_cast<double>(counts.in_flight) / static_cast<double>(waits) : 0.0,
          .cache_bytes = c.size.bytes,
          .cache_rows = c.size.rows,
          .cached_rows = c.size.filled_rows,
          .cache_most = c.most,
          .cache_why = c.why,
          .loaded = residency_->loaded()};
}

}  // namespace gz
