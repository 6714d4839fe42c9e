// A topology: who is joined to whom, grouped by one end. Over a mapped .gl file, or over arrays in memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "format.h"
#include "mapping.h"
#include "pool.h"

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
  std::string name;                   // the file's path, or what the arrays are; for messages
  std::shared_ptr<const void> owner;  // keeps the memory alive
  std::shared_ptr<Mapping> mapping;   // null for arrays

  // Opens a .gl file: checks the header and both ends of indptr. Reads three pages whatever the size.
  static std::shared_ptr<Topology> open(const std::string& path);

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
  // Degrees of `nodes`; throws std::out_of_range for an id outside the graph.
  void degrees(const int64_t* nodes, size_t count, int64_t* out) const;
  // Neighbours of one node and the positions of its edges, in stored order.
  void list(int64_t node, PooledArray<int64_t>& neighbours, PooledArray<int64_t>& positions) const;
  uint64_t max_degree() const;  // reads all of indptr

  [[noreturn]] void damaged_indptr(uint64_t v) const;
  [[noreturn]] void damaged_index(uint64_t position) const;
};

}  // namespace gz
