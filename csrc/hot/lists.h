// The lists of a topology that are sampled most, once more, side by side, in files of their own.
//
// In a topology lists lie by node, and the nodes that training asks for lie anywhere among the others: nearly
// every page has a few of their lists, and all pages are wanted. Copied together they are a small part of it,
// which memory can hold where it cannot hold the topology. What is sampled stays the same: a list lies in the
// copy as it lies in the topology, and an edge keeps its position there.
//
//   ids      the nodes whose lists are here, int32 or int64, each once
//   starts   for each, where its list begins: in the topology, and in the copy. int64, two a node
//   lists    the lists, one after the other: ids as wide as those of the topology
//
// The files are read by the page, in deep queues, or held (Residency), like those of any column of small
// rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "column/feature.h"
#include "hot/index.h"

namespace gz {

struct Topology;

class HotLists {
 public:
  static constexpr uint64_t kElsewhere = UINT64_MAX;

  // Throws FormatError where the files and the topology do not go together.
  HotLists(const Topology& topology, std::shared_ptr<Feature> ids, std::shared_ptr<Feature> starts,
           std::shared_ptr<Feature> lists);

  struct List {
    uint64_t begin;   // of its edges' positions in the topology
    uint64_t degree;  // how many
    uint64_t copy;    // where it begins in the copy
  };
  // The places of `nodes`, which must be below the number of nodes; HotIndex::kNone where a list is not here.
  void find(const int64_t* nodes, size_t count, uint32_t* places);
  // Brings in what list() will read of `count` of them, where it is not in memory; place(i): of the i-th.
  template <class Place>
  void fetch_starts(size_t count, Place&& place) {
    found_.fetch_add(count, std::memory_order_relaxed);
    const uint64_t first = starts_->offset, width = starts_->row_bytes;
    if (there(*starts_, count, [&](size_t i) { return first + place(i) * width; })) return;
    starts_->source->residency()->fetch(count, [&](size_t i) {
      const uint64_t at = place(i);  // the end of a list is the beginning of the next
      return std::pair<uint64_t, uint64_t>(first + at * width, at + 1 < count_ ? 2 * width : width);
    });
  }
  // Throws FormatError where what the files say cannot be.
  List list(uint32_t place) const;

  void prefetch_start(uint32_t place) const { __builtin_prefetch(start_of(place)); }

  // Ids of the copied lists: Id is uint32_t or uint64_t, as for the topology.
  template <class Id>
  const Id* ids() const {
    return reinterpret_cast<const Id*>(lists_->mapping->data() + lists_->offset);
  }

  // Whether some of `count` entries of the copy are not in memory; at(i): the i-th.
  template <class At>
  bool cold(size_t count, At&& at) const {
    return !there(*lists_, count, [&](size_t i) { return lists_->offset + at(i) * lists_->row_bytes; });
  }
  // Brings them in, many at a time; at(i): kElsewhere for none.
  template <class At>
  void fetch(size_t count, At&& at) const {
    const uint64_t first = lists_->offset, width = lists_->row_bytes;
    lists_->source->residency()->fetch(count, [&](size_t i) {
      const uint64_t entry = at(i);
      return entry == kElsewhere ? std::pair<uint64_t, uint64_t>(0, 0)
                                 : std::pair<uint64_t, uint64_t>(first + entry * width, width);
    });
  }

  [[noreturn]] void damaged_entry(uint64_t entry, uint64_t limit) const;

  struct Stats {
    uint64_t found, reads, bytes;  // lists that were here; what was read for them
    double seconds;
  };
  Stats stats() const;

 private:
  // By some of the places: of what is read so often a part that is missing costs more than looking.
  template <class Place>
  static bool there(const Feature& file, size_t count, Place&& place) {
    const size_t looks = std::min<size_t>(count, 32);
    return file.source->residency()->all_there(looks, [&](size_t i) { return place(i * count / looks); });
  }
  const int64_t* start_of(uint64_t place) const {
    return reinterpret_cast<const int64_t*>(starts_->mapping->data() + starts_->offset) + 2 * place;
  }

  const std::shared_ptr<Feature> ids_, starts_, lists_;
  const uint64_t num_nodes_, num_edges_, count_, entries_;
  LazyHotIndex index_;
  std::atomic<uint64_t> found_{0};
};

}  // namespace gz
