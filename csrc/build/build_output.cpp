#include "build/build_output.h"

#include <algorithm>
#include <cstring>

#include "base/threads.h"
#include "column/alias.h"
#include "file/encoding.h"

namespace gz {
namespace {

size_t row_bytes(const EdgeColumn& c) {
  size_t values = 1;
  for (uint64_t d : c.row_shape) values *= d;
  return RowFormat(c.dtype, c.shown, values).stored_bytes;
}

// One field of every payload row, packed.
Buffer pick(const BucketResult& r, size_t payload, size_t offset, size_t bytes) {
  Buffer out(r.count * bytes);
  const char* from = r.payload.data() + offset;
  char* to = out.data();
  for (size_t i = 0; i < r.count; ++i, from += payload, to += bytes) std::memcpy(to, from, bytes);
  return out;
}

DType id_type(bool wide) {
  return wide ? DType::kInt64 : DType::kUInt32;
}

}  // namespace

Builder::Output::Output(const std::string& path, const BuildOptions& options, uint64_t num_nodes,
                        uint64_t num_other, uint64_t num_input, uint64_t most_edges, bool exact,
                        const std::vector<EdgeColumn>& columns)
    : options_(options),
      file_(std::make_shared<OutFile>(path, OutFile::Mode::kCreate)),
      num_nodes_(num_nodes),
      num_other_(num_other),
      num_input_(num_input),
      exact_(exact),
      wide_indices_(!fits_32_bits(num_other)),
      wide_ids_(!fits_32_bits(num_input + (options.rules.self_loops == SelfLoops::kAdd ? num_nodes : 0))),
      wide_positions_(most_edges > UINT32_MAX),  // all ones must stay free to mean "no such edge"
      columns_(columns) {
  const auto section = [&](DType dtype, uint64_t bytes) {
    return std::make_unique<SectionWriter>(new_section(dtype, bytes));
  };
  const uint64_t n = most_edges;
  indptr_ = std::make_unique<SectionWriter>(file_, end_, DType::kUInt64);
  end_ = align_to_page(end_ + (num_nodes + 1) * 8);
  indices_ = std::make_unique<SectionWriter>(file_, end_, id_type(wide_indices_));
  if (exact_) end_ = align_to_page(end_ + n * (wide_indices_ ? 8 : 4));
  if (options_.keep_ids) ids_ = section(id_type(wide_ids_), n * (wide_ids_ ? 8 : 4));
  if (options_.positions) {
    if (exact_) positions_ = section(id_type(wide_positions_), num_input * (wide_positions_ ? 8 : 4));
    places_ = std::make_unique<Partition>(std::make_shared<SpillFile>(options_.directory), RecordLayout{},
                                          options_.memory / 8);
    places_->expect_keys(num_input);
  }
  if (options_.weight_offset) {
    weights_ = section(DType::kFloat32, n * 4);
    if (exact_) alias_ = section(DType::kUInt32, n * 8);
  }
  for (const EdgeColumn& c : columns_)
    column_files_.push_back(std::make_unique<ColumnWriter>(c.path, c.dtype, c.row_shape, c.shown));
  const uint64_t zero = 0;
  indptr_->append(&zero, 8);
}

SectionWriter Builder::Output::new_section(DType dtype, uint64_t bytes) {
  if (!exact_) return {std::make_shared<OutFile>(options_.directory, OutFile::Mode::kTemporary), 0, dtype};
  const uint64_t at = end_;
  end_ = align_to_page(end_ + bytes);
  return {file_, at, dtype};
}

void Builder::Output::append_degrees(const BucketResult& r, std::vector<uint64_t>& indptr) {
  for (size_t i = 0; i < r.degrees.size(); ++i) {
    const uint64_t node = r.nodes_begin + i;
    if (node != open_node_) {
      indptr.push_back(open_end_);
      open_node_ = node;
    }
    open_end_ += r.degrees[i];
  }
}

void Builder::Output::append_ids(std::vector<BucketResult>& results) {
  std::vector<uint64_t> loops, loop_places;
  uint64_t base = num_edges_;
  for (BucketResult& r : results) {
    uint64_t* ids = r.edge_ids.as<uint64_t>();
    if (r.added_loops)
      for (size_t i = 0; i < r.count; ++i)
        if (ids[i] == kAddedLoop) {
          ids[i] = num_input_ + added_loops_++;
          loops.push_back(ids[i]);
          loop_places.push_back(base + i);
        }
    if (!wide_ids_) {
      uint32_t* narrow = r.edge_ids.as<uint32_t>();  // in place: never overtakes what is still to be read
      for (size_t i = 0; i < r.count; ++i) narrow[i] = static_cast<uint32_t>(ids[i]);
    }
    if (places_) {
      uint64_t* places = r.input_places.as<uint64_t>();
      for (size_t i = 0; i < r.num_inputs; ++i) places[i] += base;
      places_->add_batch({.count = r.num_inputs, .wide = true, .key = r.input_ids.data(), .other = places});
    }
    base += r.count;
  }
  if (places_)
    places_->add_batch(
        {.count = loops.size(), .wide = true, .key = loops.data(), .other = loop_places.data()});
  std::vector<Span> spans;
  for (const BucketResult& r : results) spans.push_back({r.edge_ids.data(), r.count * (wide_ids_ ? 8 : 4)});
  ids_->append(spans);
}

void Builder::Output::append_payload(const std::vector<BucketResult>& results) {
  const auto field = [&](size_t offset, size_t bytes, auto&& sink) {
    std::vector<Buffer> picked(results.size());
    std::vector<Span> spans(results.size());
    const bool whole = bytes == options_.payload;
    parallel_for(results.size(), 1, [&](size_t i, size_t end) {
      for (; i < end; ++i) {
        if (!whole) picked[i] = pick(results[i], options_.payload, offset, bytes);
        spans[i] = {whole ? results[i].payload.data() : picked[i].data(), results[i].count * bytes};
      }
    });
    sink(spans);
  };
  if (weights_) field(*options_.weight_offset, 4, [&](const auto& spans) { weights_->append(spans); });
  for (size_t c = 0; c < columns_.size(); ++c)
    field(columns_[c].offset, row_bytes(columns_[c]),
          [&](const auto& spans) { column_files_[c]->append(spans); });
}

void Builder::Output::append(std::vector<BucketResult>& results) {
  std::vector<uint64_t> indptr;
  std::vector<Span> spans;
  for (const BucketResult& r : results) {
    append_degrees(r, indptr);
    spans.push_back({r.indices.data(), r.count * (wide_indices_ ? 8 : 4)});
  }
  indptr_->append(indptr.data(), indptr.size() * 8);
  indices_->append(spans);
  for (BucketResult& r : results) r.indices = Buffer();
  if (ids_) append_ids(results);
  if (options_.payload) append_payload(results);
  for (const BucketResult& r : results) {
    num_edges_ += r.count;
    if (!ids_) added_loops_ += r.added_loops;
  }
}

// Moves a section out of its temporary file to its place, now that the sizes are known.
void Builder::Output::place(SectionWriter& section) {
  section.finish();
  if (exact_) return;
  section.copy_to(file_, end_);
  end_ = align_to_page(end_ + section.bytes());
}

void Builder::Output::end_edges() {
  if (num_nodes_) indptr_->append(&open_end_, 8);
  indptr_->finish();
  indices_->finish();
  if (!exact_) end_ = align_to_page(end_ + indices_->bytes());
  if (ids_) place(*ids_);
  if (options_.positions && !exact_) {
    positions_ = std::make_unique<SectionWriter>(file_, end_, id_type(wide_positions_));
    end_ = align_to_page(end_ + num_edge_ids() * (wide_positions_ ? 8 : 4));
  }
  if (weights_) place(*weights_);
  if (weights_ && !exact_) {
    alias_ = std::make_unique<SectionWriter>(file_, end_, DType::kUInt32);
    end_ = align_to_page(end_ + num_edges_ * 8);
  }
  for (auto& c : column_files_) c->finish(num_edges_);
}

bool Builder::Output::alias_step() {
  if (alias_node_ >= num_nodes_) return false;
  constexpr uint64_t kNodes = uint64_t{1} << 18;
  const uint64_t most_edges =
      std::max<uint64_t>(options_.memory / 4 / (sizeof(float) + sizeof(AliasEntry)), 1);
  std::vector<uint64_t> indptr(std::min(kNodes, num_nodes_ - alias_node_) + 1);
  indptr_->read_back(alias_node_ * 8, indptr.data(), indptr.size() * 8);
  size_t nodes = 1;
  while (nodes + 1 < indptr.size() && indptr[nodes + 1] - indptr[0] <= most_edges) ++nodes;
  const uint64_t count = indptr[nodes] - indptr[0];
  Buffer weights(count * sizeof(float)), entries(count * sizeof(AliasEntry));
  weights_->read_back(indptr[0] * sizeof(float), weights.data(), count * sizeof(float));
  parallel_for(nodes, 2048, [&](size_t v, size_t end) {
    AliasBuilder builder;
    for (; v < end; ++v) {
      const uint64_t at = indptr[v] - indptr[0];
      builder.build(weights.as<float>() + at, indptr[v + 1] - indptr[v], entries.as<AliasEntry>() + at);
    }
  });
  alias_->append(entries.data(), count * sizeof(AliasEntry));
  alias_node_ += nodes;
  return true;
}

bool Builder::Output::positions_step() {
  const unsigned shift = std::max(places_->min_shift(), shift_for(num_edge_ids()));
  const uint64_t begin = place_bucket_ << shift;
  if (begin >= num_edge_ids()) return false;
  const uint64_t end = std::min(num_edge_ids(), begin + (uint64_t{1} << shift));
  const auto fill = [&](auto* out) {
    using Id = std::remove_reference_t<decltype(*out)>;
    std::fill(out, out + (end - begin), static_cast<Id>(~uint64_t{0}));
    places_->read(place_bucket_, shift, size_t{1} << 17, [&](const Segment& s) {
      for (size_t i = 0; i < s.count; ++i) out[s.key(i) - begin] = static_cast<Id>(s.other(i));
    });
    positions_->append(out, (end - begin) * sizeof(Id));
  };
  Buffer buffer((end - begin) * 8);
  wide_positions_ ? fill(buffer.as<uint64_t>()) : fill(buffer.as<uint32_t>());
  ++place_bucket_;
  return true;
}

void Builder::Output::write_header(const EdgeRules& rules) {
  Header h = new_header(Kind::kTopology);
  if (positions_) positions_->finish();
  if (alias_) alias_->finish();
  const std::pair<TopologySection, const SectionWriter*> sections[] = {
      {kIndptr, indptr_.get()},           {kIndices, indices_.get()}, {kEdgeIds, ids_.get()},
      {kEdgePositions, positions_.get()}, {kWeights, weights_.get()}, {kAlias, alias_.get()}};
  h.file_bytes = kPage;
  for (const auto& [which, writer] : sections) {
    if (!writer) continue;
    h.sections[which] = writer->section();
    h.file_bytes = std::max(h.file_bytes, writer->section().offset + writer->bytes());
  }
  h.topology.num_nodes = num_nodes_;
  h.topology.num_other = num_other_;
  h.topology.num_edges = num_edges_;
  h.topology.num_edge_ids = ids_ ? num_edge_ids() : num_edges_;
  h.topology.direction = options_.direction;
  if (rules.sort_by_id || options_.arrives_sorted) h.flags |= kSortedLists;
  if (options_.ids_are_in_rows) h.flags |= kIdsAreInRows;
  seal_header(h);
  file_->set_length(h.file_bytes);
  file_->write_at(0, &h, sizeof h);
  file_->sync();
}

}  // namespace gz
