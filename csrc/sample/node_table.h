// Numbers the nodes of a sample in the order they are first seen, on all threads, with a result that does not
// depend on how many there are.
//
// The table is split into parts by hash, each small enough for the cache of a core. Candidates are numbered
// in four passes, in none of which two threads write to the same place:
//   1. chunk by chunk, candidates are sorted by part, in their order;
//   2. part by part, they are looked up. One that is not there is inserted, and is the first of its node; of
//      every other it is noted what it met: a number, or where the first one stands;
//   3. chunk by chunk, first ones are marked in bits with running counts, so that "how many first ones stand
//      before i" is one look-up;
//   4. chunk by chunk, every candidate is given its number, and new nodes are appended in that order.
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
    Part& part = parts_[part_of(h)];
    part.reserve(part.count + 1);
    Slot& slot = part.find(h, key);
    if (slot.value != kEmpty) return;
    slot = {key, local};
    ++part.count;
  }

  // Numbers candidates key(0..count-1). New ones get first_local, first_local + 1, ... in order of first
  // occurrence. append(rank, i) is called once for each new node, from several threads; number(i, local) once
  // per candidate, after it. allocate(new_nodes) is called between, once. With `final` the table need not
  // remember the new nodes.
  template <class KeyOf, class Allocate, class Append, class Number>
  void number(size_t count, uint32_t first_local, bool final, KeyOf&& key, Allocate&& allocate,
              Append&& append, Number&& number) {
    if (count > kMost) throw std::length_error("a hop of 2^31 or more edges; use smaller batches or fanouts");
    if (count > kChunk && parts_.size() == 1) split();
    const size_t chunks = (count + kChunk - 1) / kChunk;
    entries_.resize(count);
    starts_.resize(chunks * (parts_.size() + 1));
    firsts_.resize(chunks * parts_.size());
    parallel_for(chunks, 1, [&](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c) sort_chunk(c, std::min(kChunk, count - c * kChunk), key);
    });
    parallel_for(parts_.size(), 1, [&](size_t from, size_t to) {
      for (size_t p = from; p < to; ++p) look_up(p, chunks, !final);
    });
    const size_t new_nodes = rank_chunks(chunks);
    if (first_local + new_nodes >= kNew)
      throw std::length_error("a sample of 2^31 or more nodes; use smaller batches");
    words_.resize(chunks * kWords);
    ranks_.resize(chunks * kWords);
    parallel_for(chunks, 1, [&](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c) mark_chunk(c, count);
    });
    allocate(new_nodes);
    parallel_for(chunks, 1, [&, entries = entries_.data(), ranks = ranks()](size_t from, size_t to) {
      for (size_t i = from * kChunk, end = std::min(count, to * kChunk); i < end; ++i) {
        const Entry& e = entries[i];
        const auto met = static_cast<uint32_t>(e.key);
        if (met < kNew) {
          number(e.index, met);
          continue;
        }
        const uint32_t rank = ranks.of(met & ~kNew);
        if ((met & ~kNew) == e.index) append(rank, e.index);
        number(e.index, first_local + rank);
      }
    });
    if (final) return;
    parallel_for(parts_.size(), 1, [&, ranks = ranks()](size_t from, size_t to) {
      for (size_t p = from; p < to; ++p)
        for (Slot* slot : parts_[p].fresh) slot->value = first_local + ranks.of(slot->value & ~kNew);
    });
  }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFF;
  static constexpr uint32_t kNew =
      0x80000000;                         // value = kNew | index of the first occurrence, until numbered
  static constexpr size_t kChunk = 8192;  // candidates
  static constexpr size_t kWords = kChunk / 64;
  static constexpr size_t kParts = 64;
  static constexpr int kLeastBits = 6;

  struct Slot {
    Key key;
    uint32_t value;
  };

  struct Entry {
    Key key;  // after pass 2: what was met
    uint32_t index;
  };

  struct Part {
    PooledArray<Slot> slots;
    std::vector<Slot*> fresh;  // slots of this batch's new nodes
    size_t count = 0;
    int shift = 64;

    Slot& find(uint64_t h, Key key) const {
      Slot* const first = slots.data();
      for (size_t at = h >> shift, mask = slots.size() - 1;; at = (at + 1) & mask) {
        Slot& slot = first[at];
        if (slot.value == kEmpty || slot.key == key) return slot;
      }
    }

    // Room for `wanted` nodes with at most two thirds of the slots in use.
    void reserve(size_t wanted) {
      if (wanted + wanted / 2 <= slots.size()) return;
      PooledArray<Slot> old = std::move(slots);
      const int bits = std::max(kLeastBits, static_cast<int>(std::bit_width(wanted + wanted / 2)));
      slots = PooledArray<Slot>(size_t{1} << bits);
      std::memset(static_cast<void*>(slots.data()), 0xFF, slots.size() * sizeof(Slot));
      shift = 64 - bits;
      for (const Slot& s : old)
        if (s.value != kEmpty) find(hash(s.key), s.key) = s;
    }
  };

  static uint64_t hash(Key key) {
    if constexpr (sizeof(Key) == 8) return mix64(key);
    return (key + uint64_t{1}) * kGolden;
  }
  // The top bits choose the slot, the ones below them the part.
  size_t part_of(uint64_t h) const { return ((h & 0xFFFFFFFF) * parts_.size()) >> 32; }

  // A few nodes need no parts; the first hop that has more makes them.
  void split() {
    const std::vector<Part> old = std::exchange(parts_, std::vector<Part>(kParts));
    for (const Slot& s : old.front().slots)
      if (s.value != kEmpty) insert_one(s.key, s.value);
  }

  uint32_t* starts(size_t chunk) const { return starts_.data() + chunk * (parts_.size() + 1); }

  template <class KeyOf>
  void sort_chunk(size_t c, size_t count, KeyOf&& key) {
    const size_t base = c * kChunk;
    uint8_t part[kChunk];
    uint32_t at[kParts] = {};
    for (size_t i = 0; i < count; ++i) {
      part[i] = static_cast<uint8_t>(part_of(hash(key(base + i))));
      ++at[part[i]];
    }
    uint32_t* const start = starts(c);
    uint32_t total = 0;
    for (size_t p = 0; p < parts_.size(); ++p) {
      start[p] = total;
      total += std::exchange(at[p], total);
    }
    start[parts_.size()] = total;
    Entry* const entries = entries_.data() + base;
    for (size_t i = 0; i < count; ++i)
      entries[at[part[i]]++] = {key(base + i), static_cast<uint32_t>(base + i)};
  }

  void look_up(size_t p, size_t chunks, bool remember) {
    Part& part = parts_[p];
    part.fresh.clear();
    size_t candidates = 0;
    for (size_t c = 0; c < chunks; ++c) candidates += starts(c)[p + 1] - starts(c)[p];
    part.reserve(part.count + candidates);  // growing is dear: as if all were new
    for (size_t c = 0; c < chunks; ++c) {
      Entry* const entries = entries_.data() + c * kChunk;
      uint32_t first = 0;
      for (uint32_t i = starts(c)[p], end = starts(c)[p + 1]; i < end; ++i) {
        Entry& e = entries[i];
        Slot& slot = part.find(hash(e.key), e.key);
        if (slot.value == kEmpty) {
          slot = {e.key, kNew | e.index};
          if (remember) part.fresh.push_back(&slot);
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
    uint32_t total = 0;
    for (size_t c = 0; c < chunks; ++c) {
      before_[c] = total;
      for (size_t p = 0; p < parts_.size(); ++p) total += firsts_[p * chunks + c];
    }
    return total;
  }

  void mark_chunk(size_t c, size_t count) {
    uint64_t* const words = words_.data() + c * kWords;
    uint32_t* const ranks = ranks_.data() + c * kWords;
    std::memset(words, 0, kWords * sizeof *words);
    const Entry* const entries = entries_.data();
    for (size_t i = c * kChunk, end = std::min(count, i + kChunk); i < end; ++i) {
      const Entry& e = entries[i];
      const uint64_t first = static_cast<uint32_t>(e.key) == (kNew | e.index);
      words[e.index % kChunk / 64] |= first << (e.index % 64);
    }
    uint32_t rank = before_[c];
    for (size_t w = 0; w < kWords; ++w) {
      ranks[w] = rank;
      rank += static_cast<uint32_t>(std::popcount(words[w]));
    }
  }

  // How many first ones stand before candidate i.
  struct Ranks {
    const uint64_t* words;
    const uint32_t* before;  // each word

    uint32_t of(uint32_t i) const {
      return before[i / 64] +
             static_cast<uint32_t>(std::popcount(words[i / 64] & ((uint64_t{1} << (i % 64)) - 1)));
    }
  };
  Ranks ranks() const { return {words_.data(), ranks_.data()}; }

  std::vector<Part> parts_ = std::vector<Part>(1);
  PooledArray<Entry> entries_;    // by chunk, then by part, then by index
  PooledArray<uint32_t> starts_;  // by chunk: where the entries of each part begin, and where the last ends
  PooledArray<uint32_t> firsts_;  // by part: first ones in each chunk
  std::vector<uint32_t> before_;
  PooledArray<uint64_t> words_;
  PooledArray<uint32_t> ranks_;
};

}  // namespace gz
