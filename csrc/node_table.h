// Numbers the nodes of a sample in the order they are first seen, on all threads, with a result that does not
// depend on how many there are.
//
// The table is split into parts by hash; one thread owns a part, so no slot is ever written by two. A batch
// of candidates is numbered in three passes:
//   1. each part scans all candidates and looks its own up, once: a first occurrence is inserted and marked
//   as new, of
//      any other it is noted where the first one stands;
//   2. the marks are packed into bits with running counts, so that "how many new ones stand before i" is one
//   lookup;
//   3. every candidate is replaced by its number, and new nodes are appended in that order.
// Lookups go in small blocks, prefetched one block ahead: the table rarely fits the cache, the misses
// overlap.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "pool.h"
#include "rng.h"
#include "threads.h"

namespace gz {

template <class Key>
class NodeTable {
 public:
  using KeyType = Key;

  explicit NodeTable(int parts) : parts_(static_cast<size_t>(parts)) {}

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
  // per candidate. allocate(new_nodes) is called between, once. With `final` the table need not remember the
  // new nodes.
  template <class KeyOf, class Allocate, class Append, class Number>
  void number(size_t count, uint32_t first_local, bool final, KeyOf&& key, Allocate&& allocate,
              Append&& append, Number&& number) {
    if (count >= kNew) throw std::length_error("a hop of 2^31 or more edges; use smaller batches or fanouts");
    is_new_.resize((count + 63) / 64 * 64);
    std::memset(is_new_.data(), 0, is_new_.size());
    found_.resize(count);
    const size_t grain = count < kSerialBelow ? parts_.size() : 1;
    parallel_for(parts_.size(), grain, [&](size_t begin, size_t end) {
      for (size_t p = begin; p < end; ++p) insert_part(p, count, key, !final);
    });
    const size_t new_nodes = rank_new(count);
    if (first_local + new_nodes >= kNew)
      throw std::length_error("a sample of 2^31 or more nodes; use smaller batches");
    allocate(new_nodes);
    parallel_for(words_.size(), kSerialBelow / 64, [&](size_t begin, size_t end) {
      for (size_t w = begin; w < end; ++w) {
        uint32_t rank = ranks_[w];
        for (uint64_t bits = words_[w]; bits; bits &= bits - 1, ++rank) {
          const size_t i = w * 64 + std::countr_zero(bits);
          append(rank, i);
          number(i, first_local + rank);
        }
        const size_t here = std::min<size_t>(64, count - w * 64);
        for (uint64_t bits = ~words_[w] & (~uint64_t{0} >> (64 - here)); bits; bits &= bits - 1) {
          const size_t i = w * 64 + std::countr_zero(bits);
          const uint32_t value = found_[i];
          number(i, value >= kNew ? first_local + rank_of(value & ~kNew) : value);
        }
      }
    });
    if (final) return;
    parallel_for(parts_.size(), grain, [&](size_t begin, size_t end) {
      for (size_t p = begin; p < end; ++p)
        for (Slot* slot : parts_[p].fresh) slot->value = first_local + rank_of(slot->value & ~kNew);
    });
  }

 private:
  static constexpr uint32_t kEmpty = 0xFFFFFFFF;
  static constexpr uint32_t kNew =
      0x80000000;  // value = kNew | index of the first occurrence, until numbered
  static constexpr size_t kBlock = 32;
  static constexpr size_t kSerialBelow = 8192;

  struct Slot {
    Key key;
    uint32_t value;
  };

  struct Part {
    PooledArray<Slot> slots;
    std::vector<Slot*> fresh;  // slots of this batch's new nodes
    size_t count = 0;
    int shift = 64;

    Slot& find(uint64_t h, Key key) const {
      for (size_t at = h >> shift, mask = slots.size() - 1;; at = (at + 1) & mask) {
        Slot& slot = slots[at];
        if (slot.value == kEmpty || slot.key == key) return slot;
      }
    }
    const Slot* home(uint64_t h) const { return slots.data() + (h >> shift); }

    // Room for `wanted` nodes with at most two thirds of the slots in use.
    void reserve(size_t wanted) {
      if (wanted + wanted / 2 <= slots.size()) return;
      PooledArray<Slot> old = std::move(slots);
      const int bits = std::max(10, static_cast<int>(std::bit_width(wanted + wanted / 2)));
      slots = PooledArray<Slot>(size_t{1} << bits);
      std::memset(static_cast<void*>(slots.data()), 0xFF, slots.size() * sizeof(Slot));
      shift = 64 - bits;
      fresh.clear();
      for (const Slot& s : old) {
        if (s.value == kEmpty) continue;
        Slot& slot = find(hash(s.key), s.key);
        slot = s;
        if (s.value >= kNew) fresh.push_back(&slot);
      }
    }
  };

  static uint64_t hash(Key key) {
    if constexpr (sizeof(Key) == 8) return mix64(key);
    return (key + uint64_t{1}) * kGolden;
  }
  // The top bits choose the slot, the ones below them the part.
  size_t part_of(uint64_t h) const { return ((h & 0xFFFFFFFF) * parts_.size()) >> 32; }

  struct Pending {
    uint64_t hash;
    uint32_t index;
  };

  template <class KeyOf>
  void insert_part(size_t p, size_t count, KeyOf&& key, bool remember) {
    Part& part = parts_[p];
    part.fresh.clear();
    part.reserve(part.count + count / parts_.size());  // growing is dear: as if all were new
    Pending blocks[2][kBlock + 1];
    size_t waiting = 0;  // entries of the block whose slots are on their way
    for (size_t at = 0, turn = 0; at < count || waiting; turn ^= 1) {
      Pending* const block = blocks[turn];
      size_t n = 0;
      for (; at < count && n < kBlock; ++at) {  // this part's own, without a branch to mispredict
        const uint64_t h = hash(key(at));
        block[n] = {h, static_cast<uint32_t>(at)};
        n += part_of(h) == p;
      }
      for (size_t j = 0; j < n; ++j) __builtin_prefetch(part.home(block[j].hash), 1);
      insert_block(part, blocks[turn ^ 1], waiting, key, remember);
      waiting = n;
    }
  }

  template <class KeyOf>
  void insert_block(Part& part, const Pending* block, size_t n, KeyOf&& key, bool remember) {
    part.reserve(part.count + n);
    for (size_t j = 0; j < n; ++j) {
      const uint32_t i = block[j].index;
      const Key k = key(i);
      Slot& slot = part.find(block[j].hash, k);
      if (slot.value != kEmpty) {
        found_[i] = slot.value;
        continue;
      }
      slot = {k, kNew | i};
      is_new_[i] = 1;
      if (remember) part.fresh.push_back(&slot);
      ++part.count;
    }
  }

  size_t rank_new(size_t count) {
    words_.resize((count + 63) / 64);
    ranks_.resize(words_.size());
    uint32_t total = 0;
    for (size_t w = 0; w < words_.size(); ++w) {
      uint64_t word = 0;
      for (int b = 0; b < 8; ++b) {  // eight 0/1 bytes to eight bits by one multiplication
        uint64_t bytes;
        std::memcpy(&bytes, is_new_.data() + w * 64 + b * 8, 8);
        word |= ((bytes * 0x0102040810204080ull) >> 56) << (b * 8);
      }
      words_[w] = word;
      ranks_[w] = total;
      total += static_cast<uint32_t>(std::popcount(word));
    }
    return total;
  }

  uint32_t rank_of(uint32_t i) const {
    return ranks_[i / 64] +
           static_cast<uint32_t>(std::popcount(words_[i / 64] & ((uint64_t{1} << (i % 64)) - 1)));
  }

  std::vector<Part> parts_;
  PooledArray<uint8_t> is_new_;  // per candidate
  PooledArray<uint32_t> found_;  // per candidate that is not new: the value it met
  PooledArray<uint64_t> words_;
  PooledArray<uint32_t> ranks_;
};

}  // namespace gz
