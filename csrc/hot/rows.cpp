#include "hot/rows.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/rng.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kProbes = 32;  // places of a tier that are looked up to see if it is in memory
constexpr int kDoubts = 64;     // looks after one that found a place missing
// A tier too many is held where so often one page had to be read for this many rows, in looks at as many rows
// as a part of those that are held.
constexpr uint64_t kRowsAPage = 50, kLookShare = 2;
constexpr int kShortLooks = 2;
// One more is held after so many looks, at which one page was read for this many rows at most.
constexpr int kRoomyLooks = 2;
constexpr uint64_t kRowsAPageThen = 500;
constexpr size_t kChunk = 2048;          // rows that a thread takes at once
constexpr size_t kRowBytesAhead = 4096;  // of rows on their way

}  // namespace

HotRows::HotRows(const Feature& column, std::shared_ptr<Feature> ids,
                 std::vector<std::shared_ptr<Feature>> tiers, size_t held)
    : ids_(std::move(ids)),
      num_rows_(column.num_rows()),
      row_bytes_(column.row_bytes),
      held_(std::min(held, tiers.size())) {
  check_hot_ids(*ids_, "the rows");
  for (auto& file : tiers) {
    if (file->dtype != column.dtype || file->shown != column.shown ||
        !std::equal(file->shape.begin() + 1, file->shape.end(), column.shape.begin() + 1, column.shape.end()))
      refuse(*file, "rows that are hot must have the dtype and shape of their column");
    const uint64_t rows = file->num_rows();
    const bool in_memory = tiers_.size() < this->held();
    auto residency = std::make_unique<Residency>(file->mapping, in_memory);
    residency->allow_loading(in_memory, governor::Hold::kHotRows);
    tiers_.push_back(
        {std::move(file), std::move(residency), count_, std::make_unique<std::atomic<int>>(0), nullptr});
    count_ += rows;
  }
  if (count_ > ids_->num_rows() || count_ >= HotIndex::kNone)
    refuse(*ids_, "names " + std::to_string(ids_->num_rows()) + " rows, but there are " +
                      std::to_string(count_) + " hot ones");
}

// All of a tier, page by page where some were found missing not long ago. Before that it is read as a whole,
// and gives what has come.
HotRows::Ready HotRows::ready(Tier& tier) {
  const Feature& f = *tier.file;
  Residency& there = *tier.residency;
  Ready all{.begin = tier.begin,
            .end = tier.begin + f.num_rows(),
            .data = reinterpret_cast<const char*>(f.mapping->data() + f.offset),
            .by_page = nullptr};
  if (f.bytes() == 0) return all;
  Rng rng(looks_.fetch_add(1, std::memory_order_relaxed));
  if (!there.all_there(kProbes, [&](size_t) { return f.offset + rng.below(f.bytes()); })) {
    if (!there.was_loaded()) there.fetched(f.mapping->size());  // as many bytes as make it start
    tier.doubts->store(kDoubts, std::memory_order_relaxed);
  }
  if (there.loading()) {
    const uint64_t loaded = there.loaded();
    all.end = loaded <= f.offset
                  ? tier.begin
                  : std::min(all.end, tier.begin + (loaded - f.offset) / static_cast<uint64_t>(row_bytes_));
  } else if (tier.doubts->load(std::memory_order_relaxed) > 0) {
    tier.doubts->fetch_sub(1, std::memory_order_relaxed);
    all.by_page = &tier;
  }
  return all;
}

// The held tiers up to the first that is still being read.
std::vector<HotRows::Ready> HotRows::ready() {
  std::vector<Ready> out;
  for (size_t i = 0, held = this->held(); i < held; ++i) {
    Tier& tier = tiers_[i];
    const Ready now = ready(tier);
    if (now.end > now.begin) out.push_back(now);
    if (now.end < tier.begin + tier.file->num_rows()) break;
  }
  return out;
}

size_t HotRows::fetch(const Ready& tier, const PooledArray<uint32_t>& places) {
  Residency& there = *tier.by_page->residency;
  const uint64_t first = tier.by_page->file->offset;
  const size_t pages = there.fetch(places.size(), [&](size_t i) {
    return tier.has(places[i])
               ? std::pair<uint64_t, uint64_t>(first + (places[i] - tier.begin) * row_bytes_, row_bytes_)
               : std::pair<uint64_t, uint64_t>(0, 0);
  });
  read_.fetch_add(pages, std::memory_order_relaxed);
  return pages;
}

void HotRows::hold_what_fits(uint64_t taken, uint64_t pages) {
  size_t held;
  bool fewer, more;
  {
    std::lock_guard lock(fork_mutex());
    held = this->held();
    lately_taken_ += taken;
    lately_pages_ += pages;
    const uint64_t rows = held < tiers_.size() ? tiers_[held].begin : count_;
    if (held == 0 || lately_taken_ < rows / kLookShare) return;
    short_looks_ = lately_pages_ > lately_taken_ / kRowsAPage ? short_looks_ + 1 : 0;
    roomy_looks_ = lately_pages_ <= lately_taken_ / kRowsAPageThen ? roomy_looks_ + 1 : 0;
    lately_taken_ = lately_pages_ = 0;
    if (tiers_[held - 1].residency->loading()) return;
    fewer = short_looks_ >= kShortLooks && held > 1;
    more = roomy_looks_ >= kRoomyLooks && held < tiers_.size() && !were_too_many_;
  }
  if (fewer) hold(held, held - 1);
  if (more && governor::beside_held() >= tiers_[held].file->mapping->size()) hold(held, held + 1);
}

void HotRows::hold(size_t before, size_t now) {
  {
    std::lock_guard lock(fork_mutex());
    if (held() != before) return;  // another thread was first
    held_.store(now, std::memory_order_release);
    short_looks_ = roomy_looks_ = 0;
    were_too_many_ |= now < before;
  }
  Residency& changed = *tiers_[std::min(before, now)].residency;
  if (now > before) return changed.allow_loading(true, governor::Hold::kHotRows);
  changed.claim_no_pages();
  changed.mapping()->drop_pages();
}

void HotRows::read(PooledArray<RowRequest>& requests, char* out) {
  const size_t held = this->held();
  if (held == tiers_.size()) return;
  const size_t count = requests.size();
  PooledArray<int64_t> ids(count);
  PooledArray<uint32_t> places(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int64_t>(requests[i].row);
  index().find(ids.data(), count, places.data());
  // The tier that a place lies in, or how many there are.
  const auto tier_of = [&](uint32_t place) {
    if (place == HotIndex::kNone || place < tiers_[held].begin) return tiers_.size();
    size_t t = held;
    while (t + 1 < tiers_.size() && place >= tiers_[t + 1].begin) ++t;
    return t;
  };
  std::vector<size_t> counts(tiers_.size() + 1, 0);
  for (size_t i = 0; i < count; ++i) ++counts[tier_of(places[i])];
  std::vector<PooledArray<RowRequest>> wanted(tiers_.size());
  for (size_t t = held; t < tiers_.size(); ++t) wanted[t].resize(std::exchange(counts[t], 0));
  size_t others = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t t = tier_of(places[i]);
    if (t == tiers_.size())
      requests[others++] = requests[i];
    else
      wanted[t][counts[t]++] = {places[i] - tiers_[t].begin, requests[i].place};
  }
  requests.resize(others);
  for (size_t t = held; t < tiers_.size(); ++t) {
    if (wanted[t].size() == 0) continue;
    Tier& tier = tiers_[t];
    {
      std::lock_guard lock(fork_mutex());
      if (!tier.past) tier.past = std::make_unique<ReadFile>(tier.file->mapping, ReadFile::Caching::kPast);
    }
    read_rows(*tier.past, tier.file->offset, row_bytes_, wanted[t], out, tier.residency->counts());
  }
}

NearRows::Reads HotRows::reads() const {
  Reads sum{.pages = read_.load(std::memory_order_relaxed)};
  for (const Tier& tier : tiers_) {
    const ReadCounts& counts = tier.residency->counts();
    sum.reads += counts.reads;
    sum.bytes += counts.bytes;
    sum.seconds += counts.seconds();
  }
  return sum;
}

size_t HotRows::take(const int64_t* ids, size_t count, char* out, RowRequest* rest) {
  const std::vector<Ready> tiers = ready();
  if (tiers.empty()) {
    for (size_t i = 0; i < count; ++i) rest[i] = {static_cast<uint64_t>(ids[i]), i};
    return count;
  }
  PooledArray<uint32_t> places(count);
  index().find(ids, count, places.data());
  size_t pages = 0;
  for (const Ready& tier : tiers)
    if (tier.by_page) pages += fetch(tier, places);

  const size_t chunks = (count + kChunk - 1) / kChunk;
  std::vector<size_t> left(chunks, 0);
  const size_t ahead = std::clamp<size_t>(kRowBytesAhead / row_bytes_, 1, 16);
  parallel_for(chunks, 1, [&](size_t begin, size_t end) {
    const char* from[kChunk];
    for (size_t c = begin; c < end; ++c) {
      const size_t first = c * kChunk, n = std::min(kChunk, count - first);
      size_t others = 0;
      for (size_t i = 0; i < n; ++i) {
        const uint32_t place = places[first + i];
        const auto tier =
            std::find_if(tiers.begin(), tiers.end(), [&](const Ready& t) { return t.has(place); });
        from[i] = tier == tiers.end() ? nullptr : tier->data + (place - tier->begin) * row_bytes_;
      }
      for (size_t i = 0; i < n; ++i) {
        if (i + ahead < n && from[i + ahead])
          for (size_t at = 0; at < row_bytes_; at += 64) __builtin_prefetch(from[i + ahead] + at);
        if (from[i])
          std::memcpy(out + (first + i) * row_bytes_, from[i], row_bytes_);
        else
          rest[first + others++] = {static_cast<uint64_t>(ids[first + i]), first + i};
      }
      left[c] = others;
    }
  });
  size_t n = 0;
  for (size_t c = 0; c < chunks; ++c) {
    std::memmove(rest + n, rest + c * kChunk, left[c] * sizeof(RowRequest));
    n += left[c];
  }
  hold_what_fits(count - n, pages);
  return n;
}

}  // namespace gz
