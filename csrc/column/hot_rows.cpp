#include "column/hot_rows.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kProbes = 32;           // places of a tier that are looked up to see if it is in memory
constexpr size_t kChunk = 2048;          // rows that a thread takes at once
constexpr size_t kIndexAhead = 16;       // cells on their way
constexpr size_t kRowBytesAhead = 4096;  // of rows on their way

int64_t value(const Feature& ids, uint64_t at) {
  const std::byte* data = ids.mapping->data() + ids.offset;
  if (ids.dtype == DType::kInt32) return reinterpret_cast<const int32_t*>(data)[at];
  return reinterpret_cast<const int64_t*>(data)[at];
}

[[noreturn]] void bad(const Feature& file, const std::string& rule) {
  throw FormatError(file.mapping->path(), rule);
}

}  // namespace

HotIndex::HotIndex(const Feature& ids, uint64_t count, uint64_t num_rows)
    : cells_(num_rows / 64 + 1), places_(count) {
  ids.mapping->advise(ids.offset, ids.bytes(), Advice::kSequential);
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t row = value(ids, i);
    if (static_cast<uint64_t>(row) >= num_rows)
      bad(ids, "row " + std::to_string(i) + " is " + std::to_string(row) + ", but the column has " +
                   std::to_string(num_rows) + " rows; run `gz verify`");
    Cell& cell = cells_[static_cast<uint64_t>(row) / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    if (cell.hot & bit) bad(ids, "names row " + std::to_string(row) + " twice; run `gz verify`");
    cell.hot |= bit;
  }
  uint64_t before = 0;
  for (Cell& cell : cells_) {
    cell.before = before;
    before += static_cast<uint64_t>(__builtin_popcountll(cell.hot));
  }
  for (uint64_t i = 0; i < count; ++i) {  // read again: the file may have changed, and is not trusted
    const auto row = static_cast<uint64_t>(value(ids, i));
    const uint64_t bit = uint64_t{1} << (row % 64);
    if (row >= num_rows || !(cells_[row / 64].hot & bit)) bad(ids, "changed while it was read");
    const Cell& cell = cells_[row / 64];
    places_[cell.before + static_cast<uint64_t>(__builtin_popcountll(cell.hot & (bit - 1)))] =
        static_cast<uint32_t>(i);
  }
}

HotRows::HotRows(const Feature& column, std::shared_ptr<Feature> ids,
                 std::vector<std::shared_ptr<Feature>> tiers)
    : ids_(std::move(ids)), num_rows_(column.num_rows()), row_bytes_(column.row_bytes) {
  if (ids_->shape.size() != 1 || (ids_->dtype != DType::kInt32 && ids_->dtype != DType::kInt64))
    bad(*ids_, "the rows that are hot must be a list of int32 or int64");
  for (auto& file : tiers) {
    if (file->dtype != column.dtype || file->shown != column.shown ||
        !std::equal(file->shape.begin() + 1, file->shape.end(), column.shape.begin() + 1, column.shape.end()))
      bad(*file, "rows that are hot must have the dtype and shape of their column");
    const uint64_t rows = file->num_rows();
    auto residency = std::make_unique<Residency>(file->mapping, false);
    residency->allow_loading(true);
    tiers_.push_back({std::move(file), std::move(residency), count_});
    count_ += rows;
  }
  if (count_ > ids_->num_rows() || count_ >= HotIndex::kNone)
    bad(*ids_, "names " + std::to_string(ids_->num_rows()) + " rows, but there are " +
                   std::to_string(count_) + " hot ones");
}

HotRows::~HotRows() {
  delete index_.load();
}

const HotIndex& HotRows::index() {
  if (const HotIndex* made = index_.load(std::memory_order_acquire)) return *made;
  std::lock_guard lock(fork_mutex());
  if (const HotIndex* made = index_.load(std::memory_order_acquire)) return *made;
  auto made = std::make_unique<const HotIndex>(*ids_, count_, num_rows_);
  index_.store(made.get(), std::memory_order_release);
  return *made.release();
}

// Rows of the tier, from its first on, that are in memory; has it read where they are not.
uint64_t HotRows::in_memory(Tier& tier) {
  const Feature& f = *tier.file;
  if (f.bytes() == 0) return f.num_rows();
  Rng rng(looks_.fetch_add(1, std::memory_order_relaxed));
  if (tier.residency->likely(kProbes, [&](size_t) { return f.offset + rng.below(f.bytes()); }))
    return f.num_rows();
  tier.residency->fetched(f.mapping->size());  // as many bytes as make it start
  const uint64_t loaded = tier.residency->loaded();
  return loaded <= f.offset ? 0 : std::min(f.num_rows(), (loaded - f.offset) / f.row_bytes);
}

// The tiers as far as they are in memory: up to the first that is not.
std::vector<HotRows::Ready> HotRows::ready() {
  std::vector<Ready> out;
  for (Tier& tier : tiers_) {
    const uint64_t rows = in_memory(tier);
    const auto* data = reinterpret_cast<const char*>(tier.file->mapping->data() + tier.file->offset);
    if (rows) out.push_back({tier.begin + rows, data, tier.begin});
    if (rows < tier.file->num_rows()) break;
  }
  return out;
}

size_t HotRows::take(const int64_t* ids, size_t count, char* out, RowRequest* rest) {
  const std::vector<Ready> tiers = ready();
  const size_t chunks = (count + kChunk - 1) / kChunk;
  std::vector<size_t> left(chunks, 0);
  const HotIndex* const index = tiers.empty() ? nullptr : &this->index();
  const size_t ahead = std::clamp<size_t>(kRowBytesAhead / row_bytes_, 1, 16);
  parallel_for(chunks, 1, [&](size_t begin, size_t end) {
    const char* from[kChunk];
    for (size_t c = begin; c < end; ++c) {
      const size_t first = c * kChunk, n = std::min(kChunk, count - first);
      size_t others = 0;
      for (size_t i = 0; i < n && index; ++i) {
        if (i + kIndexAhead < n) index->prefetch(static_cast<uint64_t>(ids[first + i + kIndexAhead]));
        const uint32_t place = index->find(static_cast<uint64_t>(ids[first + i]));
        const auto tier = std::find_if(tiers.begin(), tiers.end(),
                                       [&](const Ready& t) { return place >= t.begin && place < t.end; });
        from[i] = tier == tiers.end() ? nullptr : tier->data + (place - tier->begin) * row_bytes_;
      }
      for (size_t i = 0; i < n; ++i) {
        if (index && i + ahead < n && from[i + ahead])
          for (size_t at = 0; at < row_bytes_; at += 64) __builtin_prefetch(from[i + ahead] + at);
        if (index && from[i])
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
  return n;
}

}  // namespace gz
