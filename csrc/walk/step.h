// What both kinds of walks are made of: the stream of a walk, a draw from a list, a neighbour read and
// checked.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "column/topology.h"

namespace gz {

inline constexpr size_t kWalksInFlight = 64;  // per thread, so that their cache misses overlap
inline constexpr size_t kWalksPerTask = kWalksInFlight * 16;
inline constexpr size_t kColdWalks = 1 << 16;  // in flight together where reads wait for the disk

inline Rng walk_rng(uint64_t rng_seed, size_t index, int64_t start) {
  return Rng(fold(fold(fold(1, rng_seed), index), static_cast<uint64_t>(start)));
}

// A slot of a list and, where there are weights, the number to hold against its threshold.
struct Draw {
  uint64_t slot;
  uint32_t low;
};

inline Draw draw(Rng& rng, uint64_t degree) {
  return {rng.below(degree), 0};
}

inline Draw draw_alias(Rng& rng, uint64_t degree) {
  const uint64_t slot = rng.below(degree);
  return {slot, static_cast<uint32_t>(rng.next() >> 32)};
}

// The slot that the alias table sends a draw to, or the list's size when it has no weight at all.
inline uint64_t resolve(const Topology& t, const Topology::Range& list, const Draw& d) {
  const AliasEntry& entry = t.alias[list.begin + d.slot];
  if (d.low < entry.threshold || entry.threshold == UINT32_MAX) return d.slot;
  if (entry.partner == d.slot) return list.size();  // how a list without weight is written; docs/format.md
  if (entry.partner >= list.size()) [[unlikely]]
    t.damaged_alias(list.begin + d.slot);
  return entry.partner;
}

// Whether walks from `starts` would wait for the disk: at the starts of their lists, or at the lists.
inline bool walks_are_cold(const Topology& t, const int64_t* starts, size_t count) {
  return t.cold(count, [&](size_t i) { return t.indptr + starts[i]; }) || t.cold(count, [&](size_t i) {
    return t.indices.address(t.edges_of(static_cast<uint64_t>(starts[i])).begin);
  });
}

template <class Id>
int64_t neighbour_at(const Topology& t, const Id* indices, uint64_t position) {
  const auto v = static_cast<uint64_t>(indices[position]);
  if (v >= t.num_other || v >= t.num_nodes) [[unlikely]]
    t.damaged_index(position);
  return static_cast<int64_t>(v);
}

}  // namespace gz
