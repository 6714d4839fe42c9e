// Builds a .gl file from edges in any order, within a memory budget.
//
// Use: add() edges until there are no more (an edge's id is its place in that sequence), then begin(), then
// step() until it returns false. Work is done in steps so that the caller can show progress and be
// interrupted between them. The result does not depend on the budget, on the number of threads, or on how the
// edges were cut into chunks.
//
//   add    edges are partitioned by ranges of the grouped end (partition.h); reverses, if wanted, separately
//   step   a group of buckets that fits the budget is sorted on all threads (bucket.h) and appended to the
//   file;
//          a bucket too large is partitioned again, finer; a single list too large, by its other end
//   then   alias tables (from the weights just written) and edge_positions (partitioned by edge id)
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "build/bucket.h"
#include "build/partition.h"
#include "file/writer.h"

namespace gz {

// An edge column: a slice of the payload, written in topology order to its own .gd file.
struct EdgeColumn {
  std::string path;
  DType dtype;
  std::vector<uint64_t> row_shape;
  size_t offset;               // in the payload
  DType shown = DType::kNone;  // what its rows are read as, where they come encoded
};

struct BuildOptions {
  std::string directory;  // for temporary files
  Direction direction = Direction::kIn;
  size_t payload = 0;  // bytes that travel with each edge
  bool keep_ids = false;
  bool positions = false;  // also write the inverse of the edge ids
  bool ids_are_in_rows = false;
  bool arrives_sorted = false;  // the edges of a node arrive with ascending other ends
  EdgeRules rules;
  std::optional<size_t> weight_offset;  // a float32 in the payload
  uint64_t memory = uint64_t{1} << 30;
  uint64_t expected_nodes = 0;  // of the grouped end, if known
};

// Edges to add; ids 32 or 64 bits wide. Read as unsigned, so that a negative id is past any limit.
struct EdgeBatch {
  size_t count = 0;
  bool wide = false;
  const void* src = nullptr;
  const void* dst = nullptr;
  const char* payload = nullptr;
  uint64_t src_limit = UINT64_MAX, dst_limit = UINT64_MAX;  // ids must be below
};

class Builder {
 public:
  explicit Builder(BuildOptions options);
  ~Builder();

  // In two halves, so that parsers on several threads can each prepare their part and hand it over in order.
  struct Prepared {
    Partition::Block edges, reverses;
    size_t count = 0;
  };
  Prepared prepare(const EdgeBatch& batch, uint64_t first_id) const;
  void accept(Prepared part);
  // std::out_of_range when an id reaches its limit; finding out which is left to the caller, who knows the
  // row.
  void add(const EdgeBatch& batch);
  bool needs_ids() const { return layout_.has_seq; }
  size_t payload() const { return layout_.payload; }

  uint64_t num_input_edges() const { return num_input_; }
  // One more than the largest id seen; 0 when there was no edge.
  uint64_t nodes_seen() const { return nodes_seen_; }    // the grouped end
  uint64_t others_seen() const { return others_seen_; }  // the other end

  void begin(const std::string& path, uint64_t num_nodes, uint64_t num_other,
             std::vector<EdgeColumn> columns);
  bool step();
  double progress() const;  // 0 to 1
  uint64_t num_edges() const;
  uint64_t num_edge_ids() const;
  uint64_t spilled_bytes() const { return spill_->bytes(); }

 private:
  class Output;
  struct Level;
  enum class Phase { kAdding, kEdges, kAlias, kPositions, kDone };

  bool edges_step(Level& level);
  void wait_for_writer();
  void split(const BucketJob& job);

  BuildOptions options_;
  RecordLayout layout_;
  std::shared_ptr<SpillFile> spill_;
  std::unique_ptr<Partition> edges_, reverses_;
  uint64_t num_input_ = 0, nodes_seen_ = 0, others_seen_ = 0;
  Phase phase_ = Phase::kAdding;
  std::unique_ptr<Level> top_;
  std::unique_ptr<Output> out_;
  std::future<void> writing_;  // the last group, on its way to the file while the next is sorted
};

// Adds to `out` the edges of a finished `in` topology, transposed: the ids of `out` are then positions in
// `in`. Handles nodes [begin, end) and returns where it stopped (a memory-sized piece further on).
uint64_t add_transposed(Builder& out, const std::string& in_path, uint64_t begin, uint64_t memory);

}  // namespace gz
