// A topology: who is joined to whom, grouped by one end. Over a mapped .gl file, or over arrays in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "column/shown_file.h"
#include "file/format.h"
#include "file/mapping.h"
#include "memory/pool.h"
#include "read/held_copy.h"
#include "read/residency.h"

namespace gz {

// Ids as they lie on disk: 32 bits when they fit, else 64.
struct IdArray {
  const void* data = nullptr;
  bool wide = false;

  explicit operator bool() const { return data != nullptr; }
  uint64_t operator[](uint64_t i) const {
    return wide ? static_cast<const uint64_t*>(data)[i] : static_cast<const uint32_t*>(data)[i];
  }
  const void* address(uint64_t i) const { return static_cast<const char*>(data) + i * (wide ? 8 : 4); }
};

// Calls fn with a typed pointer to the ids, so that inner loops are compiled once per width.
template <class Fn>
decltype(auto) with_width(const IdArray& ids, Fn&& fn) {
  if (ids.wide) return fn(static_cast<const uint64_t*>(ids.data));
  return fn(static_cast<const uint32_t*>(ids.data));
}

class HotLists;

struct AliasEntry {
  uint32_t threshold;  // keep this slot when a 32-bit draw is below it, or when it is 2^32 - 1
  uint32_t partner;    // else take this slot of the same list
};
static_assert(sizeof(AliasEntry) == 8);

struct Topology {
  uint64_t num_nodes = 0;
  uint64_t num_other = 0;
  uint64_t num_edges = 0;
  uint64_t num_edge_ids = 0;
  Direction direction = Direction::kIn;
  bool sorted = false;  // every list ascends
  bool ids_are_in_rows = false;
  const uint64_t* indptr = nullptr;
  IdArray indices;
  IdArray edge_ids;  // empty: an edge's id is its position
  IdArray edge_positions;
  const float* weights = nullptr;
  const AliasEntry* alias = nullptr;
  std::string name;                      // the file's path, or what the arrays are; for messages
  std::shared_ptr<const void> owner;     // keeps the memory alive
  std::shared_ptr<Mapping> mapping;      // null for arrays
  WritableCopy tensors;                  // what users see of it
  std::shared_ptr<Residency> residency;  // null for arrays
  std::shared_ptr<HeldCopy> held;  // of the lists and their starts; null for arrays, and where it cannot pay
  std::shared_ptr<HotLists> hot;   // lists that are sampled most, once more; null where there are none

  // Opens a .gl file: checks the header and both ends of indptr. Reads three pages whatever the size.
  // `opened`: as in Mapping::open.
  static std::shared_ptr<Topology> open(const std::string& path, int opened = -1);

  // Lists are looked for in these from now on, before the first sample. The topology itself then has no claim
  // on the page cache: what is not among them is hardly read, but for ids and weights of its edges.
  void use(std::shared_ptr<HotLists> lists);

  struct Range {
    uint64_t begin, end;
    uint64_t size() const { return end - begin; }
  };
  // The edges of node v. v must be below num_nodes. A damaged indptr is a FormatError, never a wild read.
  Range edges_of(uint64_t v) const {
    const Range r{indptr[v], indptr[v + 1]};
    if (r.begin > r.end || r.end > num_edges) [[unlikely]]
      damaged_indptr(v);
    return r;
  }
  // For edges_of(v), some time before it. An entry and the next one may lie in two lines of the cache.
  void prefetch_start(uint64_t v) const {
    __builtin_prefetch(indptr + v);
    __builtin_prefetch(indptr + v + 1);
  }
  // Rows of the edge columns that the edges lie in.
  uint64_t num_rows() const { return ids_are_in_rows ? num_edge_ids : num_edges; }
  // The id that edge_ids holds for a position. A damaged one is a FormatError, never a wild id.
  uint64_t id_at(uint64_t position) const {
    const uint64_t id = edge_ids[position];
    if (id >= num_edge_ids) [[unlikely]]
      damaged_edge_id(position);
    return id;
  }
  uint64_t row_at(uint64_t position) const { return ids_are_in_rows ? id_at(position) : position; }
  // id_at() of many positions, which must be below num_edges, with their reads in flight together. `out` may
  // be `positions`.
  void ids_at(const int64_t* positions, size_t count, int64_t* out) const;

  // Degrees of `nodes`; throws std::out_of_range for an id outside the graph.
  void degrees(const int64_t* nodes, size_t count, int64_t* out) const;
  // Neighbours of one node and the positions of its edges, in stored order.
  void list(int64_t node, PooledArray<int64_t>& neighbours, PooledArray<int64_t>& positions) const;
  // Lists of many nodes, one after the other, as they lie in the file, and where each begins there. Throws
  // std::out_of_range.
  void lists(const int64_t* nodes, size_t count, PooledArray<int64_t>& begins, PooledArray<char>& ids) const;
  uint64_t max_degree() const;  // reads all of indptr

  // Whether some of `count` places about to be read are not in memory. address(i): of the i-th.
  template <class Address>
  bool cold(size_t count, Address&& address) const {
    return residency && count && !residency->likely(count, [&](size_t i) { return offset_of(address(i)); });
  }
  // Brings them in, many at a time, where page faults would do it one by one.
  template <class Address>
  void fetch(size_t count, Address&& address, size_t bytes) const {
    residency->fetch(count,
                     [&](size_t i) { return std::pair<uint64_t, uint64_t>(offset_of(address(i)), bytes); });
  }

  // The same for ranges, {address, bytes} of the i-th, 0 bytes for none.
  template <class Range>
  void fetch_ranges(size_t count, Range&& range) const {
    residency->fetch(count, [&](size_t i) {
      const auto [address, bytes] = range(i);
      return std::pair<uint64_t, uint64_t>(offset_of(address), bytes);
    });
  }

  // Both: whether some were missing. range(i): {address, bytes} of the i-th.
  template <class Range>
  bool fetch_missing(size_t count, Range&& range) const {
    return residency && residency->fetch_missing(count, [&](size_t i) {
      const auto [address, bytes] = range(i);
      return std::pair<uint64_t, uint64_t>(offset_of(address), bytes);
    });
  }

  // Both for the starts of lists.
  void fetch_starts(const int64_t* nodes, size_t count) const;
  // And for whole lists with their starts.
  void fetch_lists(const int64_t* nodes, size_t count) const;

  [[noreturn]] void damaged_indptr(uint64_t v) const;
  [[noreturn]] void damaged_index(uint64_t position) const;
  [[noreturn]] void damaged_edge_id(uint64_t position) const;
  [[noreturn]] void damaged_alias(uint64_t position) const;
  [[noreturn]] void damaged_weight(uint64_t position) const;

 private:
  uint64_t offset_of(const void* address) const {
    return static_cast<uint64_t>(static_cast<const std::byte*>(address) - mapping->data());
  }
};

}  // namespace gz
