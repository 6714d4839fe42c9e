// The rows of a column that are read most, once more, in files of their own that fit into memory.
//
// They lie in tiers, the most read rows in the first. A tier is read front to back by a background thread
// when rows are first asked for, the next one when that is done, and is then copied from like any file in the
// page cache: the kernel may take pages of it back, and the governor knows of it (Residency). Such a page is
// read again, with many others, when a row of it is wanted: it holds rows that are wanted as often. Rows of a
// tier that was not loaded yet come from the column itself.
//
// Tiers that memory has no place for are read past the page cache, row by row, where the column would be:
// what one batch wants of them lies closer together, and several rows come with a read. How many are held is
// a guess at first, made before the script has shown what it takes. Where pages of held tiers have to be read
// again and again, it was too many: the last of them, whose rows are read least, is held no longer. Where
// none have, and the script's peaks leave room for one more, that is held, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "column/feature.h"
#include "hot/index.h"
#include "read/residency.h"
#include "read/row_source.h"

namespace gz {

class HotRows : public NearRows {
 public:
  // `ids`: int32 or int64, the rows of `column` that lie in the tiers, one after the other. The first `held`
  // tiers are held in memory. Throws FormatError where they do not go together.
  HotRows(const Feature& column, std::shared_ptr<Feature> ids, std::vector<std::shared_ptr<Feature>> tiers,
          size_t held);

  size_t held() const { return held_.load(std::memory_order_acquire); }
  size_t take(const int64_t* ids, size_t count, char* out, RowRequest* rest) override;
  void read(PooledArray<RowRequest>& requests, char* out) override;
  Reads reads() const override;

 private:
  struct Tier {
    std::shared_ptr<Feature> file;
    std::unique_ptr<Residency> residency;
    uint64_t begin;                            // its first row's place
    std::unique_ptr<std::atomic<int>> doubts;  // looks for which it counts as not all in memory
    std::unique_ptr<ReadFile> past;            // where it is not held, once it was read; under fork_mutex()
  };
  // What can be taken from a tier now: its rows up to the place `end`.
  struct Ready {
    uint64_t begin, end;
    const char* data;
    Tier* by_page;  // pages of it may be missing; null: none is

    bool has(uint32_t place) const { return place >= begin && place < end; }
  };
  Ready ready(Tier& tier);
  std::vector<Ready> ready();
  size_t fetch(const Ready& tier, const PooledArray<uint32_t>& places);
  void hold_what_fits(uint64_t taken, uint64_t pages);
  void hold(size_t before, size_t now);
  const HotIndex& index() { return index_.get(*ids_, count_, num_rows_, "row", "the column"); }

  const std::shared_ptr<Feature> ids_;
  const uint64_t num_rows_;
  const size_t row_bytes_;
  std::vector<Tier> tiers_;
  std::atomic<size_t> held_;  // the first of them
  // Rows taken from held tiers since the last look, and pages that were read for them; looks that found many
  // pages, and looks that found few, one after the other; whether fewer are held than once were. Under
  // fork_mutex().
  uint64_t lately_taken_ = 0, lately_pages_ = 0;
  int short_looks_ = 0, roomy_looks_ = 0;
  bool were_too_many_ = false;
  uint64_t count_ = 0;  // rows in all of them
  LazyHotIndex index_;
  std::atomic<uint64_t> looks_{0}, read_{0};
};

}  // namespace gz
