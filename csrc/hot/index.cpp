#include "hot/index.h"

#include <mutex>

#include "base/error.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kGrain = 2048;  // that a thread looks up at once
constexpr size_t kAhead = 16;    // cells on their way

int64_t value(const Feature& ids, uint64_t at) {
  const std::byte* data = ids.mapping->data() + ids.offset;
  if (ids.dtype == DType::kInt32) return reinterpret_cast<const int32_t*>(data)[at];
  return reinterpret_cast<const int64_t*>(data)[at];
}

}  // namespace

HotIndex::HotIndex(const Feature& ids, uint64_t count, uint64_t all, const char* what, const char* where)
    : cells_(all / 64 + 1), places_(count) {
  ids.mapping->advise(ids.offset, ids.bytes(), Advice::kSequential);
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t id = value(ids, i);
    if (static_cast<uint64_t>(id) >= all)
      refuse(ids, "row " + std::to_string(i) + " is " + std::to_string(id) + ", but " + where + " has " +
                      std::to_string(all) + " " + what + "s; run `gz verify`");
    Cell& cell = cells_[static_cast<uint64_t>(id) / 64];
    const uint64_t bit = uint64_t{1} << (id % 64);
    if (cell.hot & bit)
      refuse(ids, std::string("names ") + what + " " + std::to_string(id) + " twice; run `gz verify`");
    cell.hot |= bit;
  }
  uint64_t before = 0;
  for (Cell& cell : cells_) {
    cell.before = before;
    before += static_cast<uint64_t>(__builtin_popcountll(cell.hot));
  }
  for (uint64_t i = 0; i < count; ++i) {  // read again: the file may have changed, and is not trusted
    const auto id = static_cast<uint64_t>(value(ids, i));
    const uint64_t bit = uint64_t{1} << (id % 64);
    if (id >= all || !(cells_[id / 64].hot & bit)) refuse(ids, "changed while it was read");
    const Cell& cell = cells_[id / 64];
    places_[cell.before + static_cast<uint64_t>(__builtin_popcountll(cell.hot & (bit - 1)))] =
        static_cast<uint32_t>(i);
  }
}

void HotIndex::find(const int64_t* ids, size_t count, uint32_t* places) const {
  parallel_for(count, kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) __builtin_prefetch(&cells_[static_cast<uint64_t>(ids[i + kAhead]) / 64]);
      places[i] = find(static_cast<uint64_t>(ids[i]));
    }
  });
}

const HotIndex& LazyHotIndex::get(const Feature& ids, uint64_t count, uint64_t all, const char* what,
                                  const char* where) {
  if (const HotIndex* made = made_.load(std::memory_order_acquire)) return *made;
  std::lock_guard lock(fork_mutex());
  if (const HotIndex* made = made_.load(std::memory_order_acquire)) return *made;
  auto made = std::make_unique<const HotIndex>(ids, count, all, what, where);
  made_.store(made.get(), std::memory_order_release);
  return *made.release();
}

void check_hot_ids(const Feature& ids, const char* what) {
  if (ids.shape.size() != 1 || (ids.dtype != DType::kInt32 && ids.dtype != DType::kInt64))
    refuse(ids, std::string(what) + " that are hot must be a list of int32 or int64");
}

void refuse(const Feature& file, const std::string& rule) {
  throw FormatError(file.mapping->path(), rule);
}

}  // namespace gz
