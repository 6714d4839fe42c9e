// Numbers the nodes of a sample in the order they are first seen, on all threads, with a result that does not
// depend on how many there are.
//
// The table is split into parts by hash, each small enough for the cache of a core. Candidates are numbered
// in four passes, in none of which two threads write to the same place:
//   1. chunk by chunk, candidates are sorted by part, in their order;
//   2. part by part, they are looked up. One that is not there is inserted, and is the first of its node; of
//      every other it is noted what it met: a number, or where the first one stands;
//   3. chunk by chunk, what they met is put back in the candidates' order, first ones are counted up, and
//      every one but the repeats of new nodes is given its number;
//   4. chunk by chunk, those repeats take the numbers of their first ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "memory/pool.h"

namespace gz {

template <class Key>
class NodeTable {
 public:
  using KeyType = Key;
  static constexpr size_t kMost = 0x7FFFFFFF;  // candidates, and nodes

  // Gives `key` the number `local` unless it has one. For seeds, one by one.
  void insert_one(Key key, uint32_t local) {
    const uint64_t h = hash(key);
    Part& part = parts_[part_of(key, parts_.size())];
    part.reserve(part.count + 1);
    Slot& slot = part.table().find(h, key);
    if (slot.value != kEmpty) return;
    slot = {key, local};
    ++part.count;
  }

  // Numbers `count` candidates. New ones get first_local, first_local + 1, ... in order of first occurrence.
  // With `final` the table need not remember the new nodes, and forgets the others.
  //   candidates.key(i)            what it is
  //   candidates.allocate(n)       called once, before the following: there are n new nodes
  //   candidates.append(rank, i)   once for each new node, from several threads, before i is numbered
  //   candidates.number(i, local)  once for each candidate, from several threads
  //   candidates.number_of(i)      what it was given
  template <class Candidates>
  void number(size_t count, uint32_t first_local, bool final, Candidates&& candidates) {
    if (count > kMost) throw std::length_error("a hop of 2^31 or more edges; use smaller batches or fanouts");
    if (count > kChunk && parts_.size() == 1) split();
    const size_t chunks = (count + kChunk - 1) / kChunk;
    const auto size_of = [&](size_t c) { return std::min(kChunk, count - c * kChunk); };
    entries_.resize(0);  // what is in it is not wanted any more
    entries_.resize(count);
    starts_.resize(chunks * (parts_.size() + 1));
    firsts_.resize(chunks * parts_.size());
    parallel_for(chunks, 1, [&](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c) sort_chunk(c, size_of(c), candidates);
    });
    parallel_for(parts_.size(), 1, [&](size_t from, size_t to) {
      for (size_t p = from; p < to; ++p) look_up(p, chunks, final);
    });
    const size_t new_nodes = rank_chunks(chunks);
    if (first_local + new_nodes >= kNew)
      throw std::length_error("a sample of 2^31 or more nodes; use smaller batches");
    candidates.allocate(new_nodes);
    parallel_for(chunks, 1, [&](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c) number_chunk(c, size_of(c), first_local, candidates);
    });
    parallel_for(chunks, 1, [&, entries = entries_.data()](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c)
        for (const Entry *e = entries + c * kChunk, *end = e + repeats_[c]; e < end; ++e)
          candidates.number(e->index, candidates.number_of(static_cast<size_t>(e->key)));
    });
    if (final) return;
    parallel_for(parts_.size(), 1, [&](size_t from, size_t to) {
      for (size_t p = from; p < to; ++p)
        for (Slot* slot : parts_[p].fresh) slot->value = candidates.number_of(slot->value & ~kNew);
    });
  }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFF;
  static constexpr uint32_t kNew =
      0x80000000;                         // value = kNew | index of the first occurrence, until numbered
  static constexpr size_t kChunk = 8192;  // candidates
  static constexpr int kToSecondLevel = 2;
  static constexpr int kPartBits = 6;
  static constexpr size_t kParts = size_t{1} << kPartBits;
  static constexpr int kLeastBits = 6;

  struct Slot {
    Key key;
    uint32_t value;
  };

  struct Entry {
    Key key;  // after pass 2: what was met. After pass 3: of a repeat, where the first one stands
    uint32_t index;
  };

  static constexpr size_t kEntriesOfLine = 64 / sizeof(Entry);

  struct Table {
    Slot* slots;
    size_t mask;
    int shift;

    Slot& find(uint64_t h, Key key) const {
      for (size_t at = h >> shift;; at = (at + 1) & mask)
        if (slots[at].value == kEmpty || slots[at].key == key) return slots[at];
    }
  };

  struct Part {
    PooledArray<Slot> slots;
    std::vector<Slot*> fresh;  // slots of this batch's new nodes
    size_t count = 0;
    int shift = 64;

    Table table() const { return {slots.data(), slots.size() - 1, shift}; }

    // Room for `wanted` nodes with at most two thirds of the slots in use; half of them when made.
    void reserve(size_t wanted) {
      if (wanted + wanted / 2 <= slots.size()) return;
      PooledArray<Slot> old = std::move(slots);
      const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(wanted * 2)));
      slots = PooledArray<Slot>(size_t{1} << bits);
      std::memset(static_cast<void*>(slots.data()), 0xFF, slots.size() * sizeof(Slot));
      shift = 64 - bits;
      // First moved together: which slots are in use cannot be guessed, and wrong guesses cost more.
      size_t used = 0;
      for (const Slot& s : old) {
        old[used] = s;
        used += s.value != kEmpty;
      }
      const Table to = table();
      for (size_t i = 0; i < used; ++i) to.find(hash(old[i].key), old[i].key) = old[i];
    }
  };

  static uint64_t hash(Key key) {
    if constexpr (sizeof(Key) == 8) return mix64(key);
    return (key + uint64_t{1}) * kGolden;
  }
  // The top bits choose the slot, those of the lower half the part: of 32-bit keys these are found by 32-bit
  // products, of which processors make several at a time.
  static uint8_t part_of(Key key, size_t parts) {
    uint32_t low;
    if constexpr (sizeof(Key) == 8)
      low = static_cast<uint32_t>(hash(key));
    else
      low = (key + 1) * static_cast<uint32_t>(kGolden);
    return static_cast<uint8_t>((low >> (32 - kPartBits)) & (static_cast<uint32_t>(parts) - 1));
  }

  // A few nodes need no parts; the first hop that has more makes them.
  void split() {
    const std::vector<Part> old = std::exchange(parts_, std::vector<Part>(kParts));
    for (const Slot& s : old.front().slots)
      if (s.value != kEmpty) insert_one(s.key, s.value);
  }

  uint32_t* starts(size_t chunk) const { return starts_.data() + chunk * (parts_.size() + 1); }

  // Copies where a loop writes to bytes or entries: for all the compiler knows, the originals change with
  // them.
  template <class Candidates>
  void sort_chunk(size_t c, size_t count, const Candidates candidates) {
    const size_t base = c * kChunk, parts = parts_.size();
    uint8_t part[kChunk];
    uint32_t at[kParts] = {};
    // Below, stores go to as many places as there are parts, and each would wait for its line of the cache.
    Entry* const entries = entries_.data() + base;
    for (size_t i = 0; i < count; i += kEntriesOfLine) __builtin_prefetch(entries + i, 1, kToSecondLevel);
    for (size_t i = 0; i < count; ++i) part[i] = part_of(candidates.key(base + i), parts);
    for (size_t i = 0; i < count; ++i) ++at[part[i]];
    uint32_t* const start = starts(c);
    uint32_t total = 0;
    for (size_t p = 0; p < parts; ++p) {
      start[p] = total;
      total += std::exchange(at[p], total);
    }
    start[parts] = total;
    for (size_t i = 0; i < count; ++i)
      entries[at[part[i]]++] = {candidates.key(base + i), static_cast<uint32_t>(base + i)};
  }

  size_t candidates_of(size_t p, size_t chunks) const {
    size_t candidates = 0;
    for (size_t c = 0; c < chunks; ++c) candidates += starts(c)[p + 1] - starts(c)[p];
    return candidates;
  }

  // A part's entries lie in short runs, one a chunk, which the processor does not foresee.
  void prefetch_run(size_t p, size_t c) const {
    const Entry* const entries = entries_.data() + c * kChunk;
    for (uint32_t i = starts(c)[p], end = starts(c)[p + 1]; i < end; i += kEntriesOfLine)
      __builtin_prefetch(entries + i);
  }

  void look_up(size_t p, size_t chunks, bool final) {
    Part last;  // one for the last time: the next part takes its memory, which is in the cache by then
    if (final) std::swap(last, parts_[p]);
    Part& part = final ? last : parts_[p];
    part.fresh.clear();
    part.reserve(part.count + candidates_of(p, chunks));  // growing is dear: as if all were new
    const Table table = part.table();
    prefetch_run(p, 0);
    for (size_t c = 0; c < chunks; ++c) {
      if (c + 1 < chunks) prefetch_run(p, c + 1);
      Entry* const entries = entries_.data() + c * kChunk;
      uint32_t first = 0;
      for (uint32_t i = starts(c)[p], end = starts(c)[p + 1]; i < end; ++i) {
        Entry& e = entries[i];
        Slot& slot = table.find(hash(e.key), e.key);
        if (slot.value == kEmpty) {
          slot = {e.key, kNew | e.index};
          if (!final) part.fresh.push_back(&slot);
          ++first;
        }
        e.key = slot.value;
      }
      part.count += first;
      firsts_[p * chunks + c] = first;
    }
  }

  // How many first ones stand before each chunk; returns how many there are.
  size_t rank_chunks(size_t chunks) {
    before_.resize(chunks);
    repeats_.resize(chunks);
    uint32_t total = 0;
    for (size_t c = 0; c < chunks; ++c) {
      before_[c] = total;
      for (size_t p = 0; p < parts_.size(); ++p) total += firsts_[p * chunks + c];
    }
    return total;
  }

  template <class Candidates>
  void number_chunk(size_t c, size_t count, uint32_t first_local, const Candidates candidates) {
    const size_t base = c * kChunk;
    Entry* const entries = entries_.data() + base;
    uint32_t met[kChunk];
    for (size_t i = 0; i < count; ++i) met[entries[i].index - base] = static_cast<uint32_t>(entries[i].key);
    uint32_t rank = before_[c];
    size_t repeats = 0;
    for (size_t at = 0; at < count; ++at) {
      const auto i = static_cast<uint32_t>(base + at);
      if (met[at] == (kNew | i)) {
        candidates.append(rank, i);
        candidates.number(i, first_local + rank++);
      } else if (met[at] < kNew) {
        candidates.number(i, met[at]);
      } else {
        entries[repeats++] = {static_cast<Key>(met[at] & ~kNew), i};
      }
    }
    repeats_[c] = repeats;
  }

  std::vector<Part> parts_ = std::vector<Part>(1);
  PooledArray<Entry> entries_;    // by chunk, then by part, then by index
  PooledArray<uint32_t> starts_;  // by chunk: where the entries of each part begin, and where the last ends
  PooledArray<uint32_t> firsts_;  // by part: first ones in each chunk
  std::vector<uint32_t> before_;  // by chunk: first ones before it
  std::vector<size_t> repeats_;   // by chunk: repeats of new nodes, at the front of its entries
};

// Candidates that are the ids in an array: numbers take their places, new nodes go to the end of another.
template <class Key>
struct IdsToNumber {
  int64_t* ids;
  PooledArray<int64_t>& nodes;
  size_t room = 0;  // behind each new node, for those to come
  int64_t* added = nullptr;

  Key key(size_t i) const { return static_cast<Key>(ids[i]); }
  void allocate(size_t count) {
    nodes.resize(nodes.size() + count, count * room);
    added = nodes.end() - count;
  }
  void append(uint32_t rank, size_t i) const { added[rank] = ids[i]; }
  void number(size_t i, uint32_t local) const { ids[i] = local; }
  uint32_t number_of(size_t i) const { return static_cast<uint32_t>(ids[i]); }
};

}  // namespace gz
