#include "build/builder.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "base/error.h"
#include "base/threads.h"
#include "build/build_output.h"
#include "memory/pool.h"

namespace gz {
namespace {

// How the budget is shared out: what is held while edges arrive (and while they are sorted), and what a group
// of buckets takes. Parsers need their memory only before groups do.
size_t held_share(uint64_t memory, bool undirected) {
  return memory / 5 * 4 / (undirected ? 2 : 1);
}
size_t group_share(uint64_t memory) {
  return memory / 6;
}
size_t split_share(uint64_t memory) {
  return memory / 12;
}

}  // namespace

// A partition on its way to the file, bucket by bucket.
struct Builder::Level {
  const Partition* edges;
  const Partition* reverses;
  unsigned shift;
  uint64_t buckets;
  uint64_t key_base;
  uint64_t nodes_begin, nodes_end;
  uint64_t others_begin, others_end;
  bool by_other;
  uint64_t next = 0;

  BucketJob job(uint64_t bucket) const {
    BucketJob j{.edges = edges,
                .reverses = reverses,
                .bucket = bucket,
                .shift = shift,
                .key_base = key_base,
                .nodes_begin = nodes_begin,
                .nodes_end = nodes_end,
                .others_begin = others_begin,
                .others_end = others_end,
                .by_other = by_other};
    uint64_t& begin = by_other ? j.others_begin : j.nodes_begin;
    uint64_t& end = by_other ? j.others_end : j.nodes_end;
    begin = key_base + (bucket << shift);
    if (end - begin > uint64_t{1} << shift) end = begin + (uint64_t{1} << shift);
    return j;
  }
};

Builder::Builder(BuildOptions options) : options_(std::move(options)) {
  layout_.has_seq = options_.keep_ids;
  layout_.payload = options_.payload;
  if (options_.positions && !options_.keep_ids) throw std::invalid_argument("edge positions need edge ids");
  if (options_.weight_offset && *options_.weight_offset + 4 > options_.payload)
    throw std::invalid_argument("the weight lies outside the payload");
  options_.rules.loop_payload.resize(options_.payload);
  spill_ = std::make_shared<SpillFile>(options_.directory);
  const size_t held = held_share(options_.memory, options_.rules.undirected);
  edges_ = std::make_unique<Partition>(spill_, layout_, held);
  edges_->expect_keys(options_.expected_nodes);
  if (options_.rules.undirected) {
    reverses_ = std::make_unique<Partition>(spill_, layout_, held);
    reverses_->expect_keys(options_.expected_nodes);
  }
}

Builder::~Builder() {
  if (writing_.valid()) writing_.wait();
}

Builder::Prepared Builder::prepare(const EdgeBatch& batch, uint64_t first_id) const {
  RecordBatch r{.count = batch.count,
                .wide = batch.wide,
                .key = batch.dst,
                .other = batch.src,
                .first_seq = first_id,
                .payload = batch.payload};
  if (options_.direction == Direction::kOut) std::swap(r.key, r.other);
  Prepared p;
  p.count = batch.count;
  p.edges = edges_->make_block(r);
  // The block's own pass has found the largest ids: no pass of its own for the check.
  const bool out = options_.direction == Direction::kOut;
  if (batch.count && (p.edges.max_key >= (out ? batch.src_limit : batch.dst_limit) ||
                      p.edges.max_other >= (out ? batch.dst_limit : batch.src_limit)))
    throw std::out_of_range("an id is out of range");
  if (reverses_) {
    std::swap(r.key, r.other);
    p.reverses = reverses_->make_block(r);
  }
  return p;
}

void Builder::accept(Prepared part) {
  if (phase_ != Phase::kAdding) throw std::logic_error("edges added after begin()");
  num_input_ += part.count;
  if (part.count == 0) return;
  nodes_seen_ = std::max(nodes_seen_, part.edges.max_key + 1);
  others_seen_ = std::max(others_seen_, part.edges.max_other + 1);
  edges_->add(std::move(part.edges));
  if (reverses_) reverses_->add(std::move(part.reverses));
}

void Builder::add(const EdgeBatch& batch) {
  // Pieces small enough that a batch of any size keeps every thread busy, large enough that a bucket's part
  // of a block is worth a call.
  constexpr size_t kLeast = size_t{1} << 17, kMost = size_t{1} << 20;
  const auto threads = static_cast<size_t>(num_threads());
  const size_t piece = std::clamp((batch.count + threads - 1) / threads, kLeast, kMost);
  const size_t id = batch.wide ? 8 : 4;
  const size_t wave = piece * threads;
  for (size_t at = 0; at < batch.count; at += wave) {
    const size_t pieces = (std::min(wave, batch.count - at) + piece - 1) / piece;
    std::vector<Prepared> made(pieces);
    const uint64_t first_id = num_input_;
    parallel_for(pieces, 1, [&](size_t i, size_t end) {
      for (; i < end; ++i) {
        const size_t begin = at + i * piece;
        EdgeBatch b = batch;
        b.count = std::min(piece, batch.count - begin);
        // A copy: a block is laid out by what its ids are, and the caller's other threads may change those.
        const PooledArray<char> ids(2 * b.count * id);
        char* const dst = ids.data() + b.count * id;
        std::memcpy(ids.data(), static_cast<const char*>(batch.src) + begin * id, b.count * id);
        std::memcpy(dst, static_cast<const char*>(batch.dst) + begin * id, b.count * id);
        b.src = ids.data();
        b.dst = dst;
        if (b.payload) b.payload += begin * layout_.payload;
        made[i] = prepare(b, first_id + i * piece);
      }
    });
    for (Prepared& p : made) accept(std::move(p));
  }
}

void Builder::begin(const std::string& path, uint64_t num_nodes, uint64_t num_other,
                    std::vector<EdgeColumn> columns) {
  if (phase_ != Phase::kAdding) throw std::logic_error("begin() called twice");
  if (nodes_seen_ > num_nodes || others_seen_ > num_other)
    throw std::invalid_argument("edges reach node " +
                                std::to_string(std::max(nodes_seen_, others_seen_) - 1) +
                                ", past the number of nodes given");
  if ((options_.rules.undirected || options_.rules.self_loops == SelfLoops::kAdd) && num_nodes != num_other)
    throw std::invalid_argument("undirected edges and added self loops need the same nodes at both ends");
  uint64_t most = edges_->count() + (reverses_ ? reverses_->count() : 0);
  if (options_.rules.self_loops == SelfLoops::kAdd) most += num_nodes;
  out_ = std::make_unique<Output>(path, options_, num_nodes, num_other, num_input_, most,
                                  options_.rules.plain(), columns);
  const unsigned shift =
      std::max({edges_->min_shift(), reverses_ ? reverses_->min_shift() : 0, shift_for(num_nodes)});
  const uint64_t width = uint64_t{1} << shift;
  top_ = std::make_unique<Level>(Level{.edges = edges_.get(),
                                       .reverses = reverses_.get(),
                                       .shift = shift,
                                       .buckets = num_nodes / width + (num_nodes % width != 0),
                                       .key_base = 0,
                                       .nodes_begin = 0,
                                       .nodes_end = num_nodes,
                                       .others_begin = 0,
                                       .others_end = num_other,
                                       .by_other = false});
  phase_ = Phase::kEdges;
}

// Sorts and writes the next group of buckets. False when the level has none left.
bool Builder::edges_step(Level& level) {
  if (level.next >= level.buckets) return false;
  const uint64_t limit =
      group_share(options_.memory) / 2;  // one group is being sorted while another is written
  const size_t read_step =
      std::clamp<size_t>(options_.memory / 64 / (16 + layout_.tail_bytes()), 64, size_t{1} << 17);
  std::vector<BucketJob> jobs;
  uint64_t memory = 0;
  for (; level.next < level.buckets; ++level.next) {
    BucketJob job = level.job(level.next);
    job.read_step = read_step;
    const uint64_t nodes = job.nodes_end - job.nodes_begin;
    const uint64_t need = bucket_memory(job.count(), nodes, layout_, out_->wide_indices(), options_.rules);
    const bool can_split = nodes > 1 || (options_.rules.sort_by_id && job.others_end - job.others_begin > 1);
    // Below this many records a split costs more than it saves.
    if (need > limit && can_split && job.count() > 64) {
      if (!jobs.empty()) break;
      ++level.next;
      split(job);
      return true;
    }
    if (!jobs.empty() && memory + need > limit) break;
    memory += need;
    jobs.push_back(job);
  }
  std::vector<BucketResult> results(jobs.size());
  parallel_for(jobs.size(), 1, [&](size_t i, size_t end) {
    for (; i < end; ++i)
      results[i] = sort_bucket(jobs[i], options_.rules, out_->wide_indices(), out_->track_inputs());
  });
  wait_for_writer();
  const auto kept = std::make_shared<std::vector<BucketResult>>(std::move(results));
  try {
    writing_ = std::async(std::launch::async, [this, kept] { out_->append(*kept); });
  } catch (const std::system_error&) {  // the system grants no thread
    out_->append(*kept);
  }
  return true;
}

void Builder::wait_for_writer() {
  if (writing_.valid()) writing_.get();
}

// Partitions the records of a bucket anew, by finer ranges, and works through the result.
void Builder::split(const BucketJob& job) {
  const bool by_other = job.nodes_end - job.nodes_begin == 1;
  const uint64_t base = by_other ? job.others_begin : job.nodes_begin;
  const uint64_t width = (by_other ? job.others_end : job.nodes_end) - base;
  const size_t step =
      std::clamp<size_t>(options_.memory / 24 / (32 + layout_.payload), 1024, size_t{1} << 19);
  const auto redo = [&](const Partition& from) {
    auto to = std::make_unique<Partition>(spill_, layout_, split_share(options_.memory));
    to->expect_keys(width);
    std::vector<uint64_t> key(step), other(step), seq(layout_.has_seq ? step : 0);
    std::vector<char> payload(step * layout_.payload);
    from.read(job.bucket, job.shift, step, [&](const Segment& s) {
      for (size_t i = 0; i < s.count; ++i) {
        const uint64_t a = s.key(i) + job.key_base;
        const uint64_t b = job.by_other ? job.nodes_begin : s.other(i);
        const uint64_t node = job.by_other ? b : a, far_end = job.by_other ? a : b;
        key[i] = (by_other ? far_end : node) - base;
        other[i] = by_other ? node : far_end;
        if (layout_.has_seq) seq[i] = load_u64(s.tail(i));
        if (layout_.payload)
          std::memcpy(payload.data() + i * layout_.payload, s.tail(i) + layout_.payload_offset(),
                      layout_.payload);
      }
      to->add(to->make_block({.count = s.count,
                              .wide = true,
                              .key = key.data(),
                              .other = other.data(),
                              .seqs = layout_.has_seq ? seq.data() : nullptr,
                              .payload = payload.data()}));
    });
    return to;
  };
  const auto edges = redo(*job.edges);
  const auto reverses = job.reverses ? redo(*job.reverses) : nullptr;
  const unsigned shift = std::max(edges->min_shift(), reverses ? reverses->min_shift() : 0);
  const uint64_t span = uint64_t{1} << shift;
  Level level{.edges = edges.get(),
              .reverses = reverses.get(),
              .shift = shift,
              .buckets = width / span + (width % span != 0),
              .key_base = base,
              .nodes_begin = job.nodes_begin,
              .nodes_end = job.nodes_end,
              .others_begin = job.others_begin,
              .others_end = job.others_end,
              .by_other = by_other};
  while (edges_step(level)) {
  }
}

bool Builder::step() {
  switch (phase_) {
    case Phase::kAdding:
      throw std::logic_error("step() called before begin()");
    case Phase::kEdges:
      if (edges_step(*top_)) return true;
      wait_for_writer();
      edges_.reset();
      reverses_.reset();
      out_->end_edges();
      phase_ = Phase::kAlias;
      return true;
    case Phase::kAlias:
      if (options_.weight_offset && out_->alias_step()) return true;
      phase_ = Phase::kPositions;
      return true;
    case Phase::kPositions:
      if (options_.positions && out_->positions_step()) return true;
      out_->write_header(options_.rules);
      phase_ = Phase::kDone;
      return false;
    case Phase::kDone:
      return false;
  }
  return false;
}

double Builder::progress() const {
  if (phase_ == Phase::kAdding) return 0;
  if (phase_ != Phase::kEdges) return 1;
  return top_->buckets ? static_cast<double>(top_->next) / static_cast<double>(top_->buckets) : 1;
}

uint64_t Builder::num_edges() const {
  return phase_ > Phase::kEdges ? out_->num_edges() : 0;
}
uint64_t Builder::num_edge_ids() const {
  return phase_ > Phase::kEdges ? out_->num_edge_ids() : num_input_;
}

}  // namespace gz
