// One bucket of edges, put in order: the in-memory half of the topology builder.
#pragma once

#include <cstdint>
#include <vector>

#include "build/partition.h"
#include "memory/buffer.h"

namespace gz {

enum class SelfLoops { kKeep, kRemove, kAdd };

// What becomes of the edges on their way into a neighbour list.
struct EdgeRules {
  bool sort_by_id = true;  // else in the order of arrival, added reverses last
  bool coalesce = false;   // of edges with the same two ends keep the first
  bool undirected =
      false;  // reverses wait in their own partition; one is dropped if its edge is there already
  SelfLoops self_loops = SelfLoops::kKeep;
  std::vector<char> loop_payload;  // the payload of an added self loop

  bool may_drop() const { return coalesce || undirected || self_loops == SelfLoops::kRemove; }
  bool plain() const { return !may_drop() && self_loops == SelfLoops::kKeep; }
};

// Which records. The key is the grouped end, counted from `nodes_begin`; or, when one node's list has been
// split
// (`by_other`), the other end, counted from `others_begin`.
struct BucketJob {
  const Partition* edges = nullptr;
  const Partition* reverses = nullptr;
  uint64_t bucket = 0;
  unsigned shift = 0;
  uint64_t key_base = 0;  // added to a key to give an id
  uint64_t nodes_begin = 0, nodes_end = 0;
  uint64_t others_begin = 0, others_end = UINT64_MAX;
  bool by_other = false;
  size_t read_step = size_t{1} << 17;  // records read from the spill file at a time

  uint64_t count() const {
    return edges->count_in(bucket, shift) + (reverses ? reverses->count_in(bucket, shift) : 0);
  }
};

inline constexpr uint64_t kAddedLoop =
    UINT64_MAX;  // the edge id of a self loop that no input edge stands for

struct BucketResult {
  uint64_t nodes_begin = 0;
  std::vector<uint64_t> degrees;
  size_t count = 0;
  Buffer indices;       // uint32 or uint64 as asked
  Buffer edge_ids;      // uint64; only when the records carry them
  Buffer payload;       // count rows
  Buffer input_ids;     // uint64: ids of input edges ...
  Buffer input_places;  // ... and where in this bucket each ended up (uint64)
  size_t num_inputs = 0;
  size_t added_loops = 0;
};

// Upper estimate of the memory sort_bucket takes for `count` records, the result included.
uint64_t bucket_memory(uint64_t count, uint64_t nodes, const RecordLayout& layout, bool wide,
                       const EdgeRules& rules);

// `track_inputs`: fill input_ids and input_places.
BucketResult sort_bucket(const BucketJob& job, const EdgeRules& rules, bool wide_indices, bool track_inputs);

}  // namespace gz
