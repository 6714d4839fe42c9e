// Chooses edges for the nodes of one frontier: the random part of sampling, and all of it.
//
// What is drawn for a node depends only on (rng_seed, hop, edge type, node, and in disjoint mode the seed it
// belongs to), so the choice is the same for any number of threads.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "column/shown_file.h"
#include "column/topology.h"
#include "memory/pool.h"

namespace gz {

// A column of weights or times beside the edges or nodes, in its own dtype. Empty when there is none.
struct Column {
  const void* data = nullptr;
  DType dtype = DType::kNone;
  uint64_t size = 0;
  ArrayPlace place = {};

  explicit operator bool() const { return data != nullptr; }
  size_t width() const { return dtype_bytes(dtype); }
  // Brings in values about to be read that are not in memory; whether there were any. row(i): of the i-th;
  // one that is not below `size` is left to whoever reads it.
  template <class Row>
  bool fetch_missing(size_t count, Row&& row) const {
    return place.fetch_missing(count, width(), [&](size_t i) {
      const uint64_t at = row(i);
      return at < size ? at : UINT64_MAX;
    });
  }
};

// What an edge type's picks go by. Rows: those of the edge columns, Topology::num_rows() of them.
struct EdgeColumns {
  Column weights;          // float32, float64 or uint8 (a mask), by row
  Column edge_time;        // int32 or int64, by row
  Column node_time;        // int32 or int64, by neighbour
  bool ascending = false;  // every list ascends by time: see times.h
};

enum class TemporalStrategy { kUniform, kLast };

struct PickOptions {
  int64_t fanout = -1;  // < 0: all
  bool replace = false;
  uint64_t stream = 0;  // of (rng_seed, hop, edge type); nodes are folded into it
  TemporalStrategy strategy = TemporalStrategy::kUniform;
  uint64_t most = UINT64_MAX;  // edges that may come out; more are a std::length_error
  uint64_t room = 0;           // about how many edges of the next hop follow each; room is kept for them
};

// The frontier: nodes[i] with, in disjoint mode, the seed it belongs to, and in temporal mode that seed's
// time.
struct Frontier {
  const int64_t* nodes;
  size_t size;
  const int64_t* batch = nullptr;      // per node; null unless disjoint
  const int64_t* seed_time = nullptr;  // per seed; null unless temporal

  // The stream that the picks of node i are drawn from.
  uint64_t stream(size_t i, uint64_t of_hop) const {
    const uint64_t key = fold(of_hop, static_cast<uint64_t>(nodes[i]));
    return batch ? fold(key, static_cast<uint64_t>(batch[i])) : key;
  }
};

// Writes behind what the arrays already hold: for each picked edge, in frontier order, its position in the
// topology, its neighbour's id and the index (first_frontier + i) of the frontier node. Nodes must be below
// topology.num_nodes, columns long enough: expand.h checks both. Throws MemoryShortage before anything is
// drawn that would not fit.
void pick(const Topology& topology, const EdgeColumns& columns, const Frontier& frontier,
          int64_t first_frontier, const PickOptions& options, PooledArray<int64_t>& positions,
          PooledArray<int64_t>& neighbours, PooledArray<int64_t>& owners);

}  // namespace gz
