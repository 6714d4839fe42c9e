#include "cache/row_cache.h"

#include <algorithm>
#include <utility>

namespace gz {
namespace {

// Small enough to give back little by little and to find rows in from many threads; so few that a gather
// visits each of them for a good number of rows.
constexpr uint64_t kSlabBytes = 4 << 20;
constexpr uint64_t kMostSlabs = 1024;
constexpr size_t kNobody = UINT16_MAX;

}  // namespace

RowCache::RowCache(uint64_t ceiling, size_t row_bytes) : row_bytes_(row_bytes) {
  const uint64_t slabs = std::clamp<uint64_t>(ceiling / kSlabBytes, 1, kMostSlabs);
  slab_rows_ = RowSlab::rows_in(ceiling / slabs, row_bytes);
  if (slab_rows_ == 0) return;
  slab_bytes_ = RowSlab::bytes_for(slab_rows_, row_bytes);
  most_slabs_ = slabs;
}

std::shared_ptr<const RowCache::Slabs> RowCache::slabs() const {
  std::lock_guard lock(mutex_);
  return slabs_;
}

void RowCache::resize(uint64_t bytes) {
  if (most_slabs_ == 0) return;
  const uint64_t wanted = std::min(bytes / slab_bytes_, most_slabs_);
  std::shared_ptr<const Slabs> before;
  std::vector<std::shared_ptr<RowSlab>> gone;
  {
    std::lock_guard lock(mutex_);
    const uint64_t had = slabs_ ? slabs_->count() : 0;
    if (wanted == had) return;
    std::shared_ptr<Slabs> changed;
    if (wanted > 0) {
      changed = std::make_shared<Slabs>();
      if (slabs_)
        *changed = *slabs_;
      else
        changed->owner_.fill(kNobody);
      while (changed->count() < wanted)
        changed->slabs_.push_back(std::make_shared<RowSlab>(slab_rows_, row_bytes_));
      changed->slabs_.resize(wanted);
      changed->deal();
    }
    if (wanted < had)
      gone.assign(slabs_->slabs_.begin() + static_cast<ptrdiff_t>(wanted), slabs_->slabs_.end());
    before = std::exchange(slabs_, std::move(changed));
  }
  for (const auto& slab : gone) slab->drop();
}

void RowCache::Slabs::deal() {
  const size_t n = slabs_.size(), each = kBuckets / n;
  size_t larger = kBuckets % n;  // so many slabs have one bucket more than `each`
  std::vector<size_t> count(n, 0);
  std::vector<size_t> homeless;
  for (size_t b = 0; b < kBuckets; ++b) {
    const size_t slab = owner_[b];
    if (slab < n && count[slab] < each) {
      ++count[slab];
    } else if (slab < n && count[slab] == each && larger > 0) {
      ++count[slab];
      --larger;
    } else {
      homeless.push_back(b);
    }
  }
  size_t slab = 0;
  for (const size_t b : homeless) {
    while (count[slab] >= each + (larger > 0)) {
      ++slab;
    }
    if (count[slab]++ == each) --larger;
    owner_[b] = static_cast<uint16_t>(slab);
  }
}

RowCache::Size RowCache::size() const {
  const auto slabs = this->slabs();
  Size s{};
  if (!slabs) return s;
  s.bytes = slab_bytes_ * slabs->count();
  s.rows = uint64_t{slab_rows_} * slabs->count();
  for (size_t i = 0; i < slabs->count(); ++i) s.filled_rows += (*slabs)[i].size();
  s.pinned = RowSlab::pinned_bytes(slab_rows_) * slabs->count();
  return s;
}

}  // namespace gz
