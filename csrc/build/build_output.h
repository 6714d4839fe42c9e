// The file a Builder writes: sections appended in node order, then alias tables, positions and the header.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "build/builder.h"

namespace gz {

class Builder::Output {
 public:
  Output(const std::string& path, const BuildOptions& options, uint64_t num_nodes, uint64_t num_other,
         uint64_t num_input, uint64_t most_edges, bool exact, const std::vector<EdgeColumn>& columns);

  // Results in node order. A result may go on with the list the last one ended in.
  void append(std::vector<BucketResult>& results);
  void end_edges();
  bool alias_step();      // a piece of the alias tables; false when there is no more
  bool positions_step();  // a piece of edge_positions; false when there is no more
  void write_header(const EdgeRules& rules);

  bool wide_indices() const { return wide_indices_; }
  bool track_inputs() const { return options_.positions; }
  uint64_t num_edges() const { return num_edges_; }
  uint64_t num_edge_ids() const { return num_input_ + added_loops_; }

 private:
  void append_degrees(const BucketResult& r, std::vector<uint64_t>& indptr);
  void append_ids(std::vector<BucketResult>& results);
  void append_payload(const std::vector<BucketResult>& results);
  SectionWriter new_section(DType dtype, uint64_t bytes);
  void place(SectionWriter& section);

  const BuildOptions& options_;
  std::shared_ptr<OutFile> file_;
  const uint64_t num_nodes_, num_other_, num_input_;
  const bool exact_;  // the number of edges is known: every section can be written where it belongs
  const bool wide_indices_, wide_ids_, wide_positions_;
  uint64_t end_ = kPage;  // where the next section goes
  std::unique_ptr<SectionWriter> indptr_, indices_, ids_, weights_, alias_, positions_;
  std::vector<EdgeColumn> columns_;
  std::vector<std::unique_ptr<ColumnWriter>> column_files_;
  std::unique_ptr<Partition>
      places_;  // key: edge id, other: position; spills on its own, from the writing thread

  uint64_t num_edges_ = 0, added_loops_ = 0;
  uint64_t open_node_ = 0;  // the node whose end in indptr is not written yet
  uint64_t open_end_ = 0;
  uint64_t alias_node_ = 0, place_bucket_ = 0;
};

}  // namespace gz
