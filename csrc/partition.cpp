#include "partition.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "threads.h"

namespace gz {
namespace {

constexpr size_t kBlockRecords = size_t{1} << 20;
constexpr size_t kWriteBytes = size_t{4} << 20;

// [first, last) in `starts` of the records of a wide bucket in something made with a smaller or equal shift.
template <class T>
std::pair<T, T> range_of(const std::vector<T>& starts, unsigned own_shift, uint64_t bucket, unsigned shift) {
  const uint64_t buckets = starts.size() - 1;
  const unsigned up = shift - own_shift;
  // A bucket number moved back to narrow buckets may overflow 64 bits only when it is past the end anyway.
  const auto narrow = [&](uint64_t b) {
    return up >= 64 || b > (buckets >> up) ? (b ? buckets : 0) : std::min(b << up, buckets);
  };
  return {starts[narrow(bucket)], starts[narrow(bucket + 1)]};
}

void widen(const char* from, char* to, size_t count, const RecordLayout& layout) {
  const size_t rest = layout.bytes(false) - 8;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t ids[2] = {load_id(from, false, 0), load_id(from, false, 1)};
    std::memcpy(to, ids, 16);
    std::memcpy(to + 16, from + 8, rest);
    from += 8 + rest;
    to += 16 + rest;
  }
}

template <class In>
uint64_t max_of(const In* p, size_t n) {
  In m = 0;
  for (size_t i = 0; i < n; ++i) m = std::max(m, p[i]);
  return m;
}

// The counting pass. In: the width of the batch's ids; Out: the width of the block's.
template <class In, class Out>
void scatter(const RecordBatch& b, const RecordLayout& layout, Partition::Block& block) {
  const In* key = static_cast<const In*>(b.key);
  const In* other = static_cast<const In*>(b.other);
  const unsigned shift = block.shift;
  std::vector<uint32_t>& starts = block.starts;
  // starts[k + 2] counts bucket k, becomes the start of k + 1 ... so that after the pass starts[k] is in
  // place.
  for (size_t i = 0; i < b.count; ++i) ++starts[(key[i] >> shift) + 2];
  for (size_t k = 2; k < starts.size(); ++k) starts[k] += starts[k - 1];
  char* out = block.data.data();
  if (!layout.has_seq && layout.payload == 0) {
    struct Pair {
      Out key, other;
    };
    Pair* pairs = reinterpret_cast<Pair*>(out);
    for (size_t i = 0; i < b.count; ++i)
      pairs[starts[(key[i] >> shift) + 1]++] = {static_cast<Out>(key[i]), static_cast<Out>(other[i])};
  } else {
    const size_t bytes = layout.bytes(sizeof(Out) == 8);
    for (size_t i = 0; i < b.count; ++i) {
      char* to = out + starts[(key[i] >> shift) + 1]++ * bytes;
      const Out ids[2] = {static_cast<Out>(key[i]), static_cast<Out>(other[i])};
      std::memcpy(to, ids, sizeof ids);
      to += sizeof ids;
      if (layout.has_seq) {
        const uint64_t seq = b.seqs ? b.seqs[i] : b.first_seq + i;
        std::memcpy(to, &seq, 8);
        to += 8;
      }
      if (layout.payload) std::memcpy(to, b.payload + i * layout.payload, layout.payload);
    }
  }
  starts.pop_back();
}

}  // namespace

uint64_t SpillFile::reserve(uint64_t bytes) {
  if (!file_) file_ = std::make_unique<OutFile>(directory_, OutFile::Mode::kTemporary);
  const uint64_t at = end_;
  end_ += bytes;
  return at;
}

unsigned shift_for(uint64_t limit) {
  const unsigned bits = limit ? std::bit_width(limit - 1) : 0;
  constexpr unsigned kBucketBits = std::bit_width(kMaxBuckets) - 1;
  return bits > kBucketBits ? bits - kBucketBits : 0;
}

Partition::Partition(std::shared_ptr<SpillFile> spill, RecordLayout layout, size_t memory)
    : spill_(std::move(spill)), layout_(layout), memory_(memory) {}

void Partition::expect_keys(uint64_t limit) {
  shift_ = std::max(shift_, shift_for(limit));
}

Partition::Block Partition::make_block(const RecordBatch& batch) const {
  Block block;
  if (batch.count == 0) return block;
  if (batch.wide) {
    block.max_key = max_of(static_cast<const uint64_t*>(batch.key), batch.count);
    block.max_other = max_of(static_cast<const uint64_t*>(batch.other), batch.count);
  } else {
    block.max_key = max_of(static_cast<const uint32_t*>(batch.key), batch.count);
    block.max_other = max_of(static_cast<const uint32_t*>(batch.other), batch.count);
  }
  block.wide = std::max(block.max_key, block.max_other) > UINT32_MAX;
  block.shift = std::max(shift_, block.max_key == UINT64_MAX ? 54u : shift_for(block.max_key + 1));
  block.data = Buffer(batch.count * layout_.bytes(block.wide));
  block.starts.assign((block.max_key >> block.shift) + 3, 0);
  if (!batch.wide)
    scatter<uint32_t, uint32_t>(batch, layout_, block);
  else if (block.wide)
    scatter<uint64_t, uint64_t>(batch, layout_, block);
  else
    scatter<uint64_t, uint32_t>(batch, layout_, block);
  return block;
}

void Partition::add(Block block) {
  if (block.count() == 0) return;
  if (!blocks_.empty() && held_ + block.data.capacity() > memory_) spill();
  held_ += block.data.capacity();
  count_ += block.count();
  max_key_ = std::max(max_key_, block.max_key);
  max_other_ = std::max(max_other_, block.max_other);
  shift_ = std::max(shift_, block.shift);
  blocks_.push_back(std::move(block));
}

void Partition::add_batch(const RecordBatch& batch) {
  const size_t id = batch.wide ? 8 : 4;
  const size_t pieces = (batch.count + kBlockRecords - 1) / kBlockRecords;
  const size_t wave = static_cast<size_t>(num_threads());
  for (size_t first = 0; first < pieces; first += wave) {
    std::vector<Block> made(std::min(wave, pieces - first));
    parallel_for(made.size(), 1, [&](size_t i, size_t end) {
      for (; i < end; ++i) {
        RecordBatch b = batch;
        const size_t at = (first + i) * kBlockRecords;
        b.count = std::min(kBlockRecords, batch.count - at);
        b.key = static_cast<const char*>(batch.key) + at * id;
        b.other = static_cast<const char*>(batch.other) + at * id;
        b.first_seq += at;
        if (b.seqs) b.seqs += at;
        if (b.payload) b.payload += at * layout_.payload;
        made[i] = make_block(b);
      }
    });
    for (Block& b : made) add(std::move(b));
  }
}

void Partition::spill() {
  if (blocks_.empty()) return;
  Run run;
  run.shift = 0;
  run.wide = false;
  uint64_t buckets = 0;
  for (const Block& b : blocks_) {
    run.shift = std::max(run.shift, b.shift);
    run.wide |= b.wide;
  }
  for (const Block& b : blocks_) buckets = std::max(buckets, (b.max_key >> run.shift) + 1);
  run.starts.assign(buckets + 1, 0);
  for (uint64_t k = 0; k < buckets; ++k) {
    uint64_t n = 0;
    for (const Block& b : blocks_) {
      const auto [first, last] = range_of(b.starts, b.shift, k, run.shift);
      n += last - first;
    }
    run.starts[k + 1] = run.starts[k] + n;
  }
  const size_t bytes = layout_.bytes(run.wide);
  run.offset = spill_->reserve(run.starts.back() * bytes);

  // Buckets in groups of about kWriteBytes, so that each task writes one long stretch.
  std::vector<uint64_t> groups{0};
  for (uint64_t k = 0; k < buckets; ++k)
    if ((run.starts[k + 1] - run.starts[groups.back()]) * bytes >= kWriteBytes || k + 1 == buckets)
      groups.push_back(k + 1);
  parallel_for(groups.size() - 1, 1, [&](size_t g, size_t end) {
    Buffer buffer(kWriteBytes);
    for (; g < end; ++g) {
      uint64_t at = run.offset + run.starts[groups[g]] * bytes;
      size_t filled = 0;
      for (uint64_t k = groups[g]; k < groups[g + 1]; ++k) {
        for (const Block& b : blocks_) {
          auto [first, last] = range_of(b.starts, b.shift, k, run.shift);
          while (first < last) {
            const size_t n = std::min<size_t>(last - first, (buffer.capacity() - filled) / bytes);
            if (n == 0) {
              spill_->file().write_at(at, buffer.data(), filled);
              at += filled;
              filled = 0;
              if (buffer.capacity() < bytes) buffer = Buffer(bytes);
              continue;
            }
            const char* from = b.data.data() + first * layout_.bytes(b.wide);
            if (b.wide == run.wide)
              std::memcpy(buffer.data() + filled, from, n * bytes);
            else
              widen(from, buffer.data() + filled, n, layout_);
            filled += n * bytes;
            first += static_cast<uint32_t>(n);
          }
        }
      }
      if (filled) spill_->file().write_at(at, buffer.data(), filled);
    }
  });
  runs_.push_back(std::move(run));
  blocks_.clear();
  held_ = 0;
}

uint64_t Partition::count_in(uint64_t bucket, unsigned shift) const {
  uint64_t n = 0;
  for (const Run& r : runs_) {
    const auto [first, last] = range_of(r.starts, r.shift, bucket, shift);
    n += last - first;
  }
  for (const Block& b : blocks_) {
    const auto [first, last] = range_of(b.starts, b.shift, bucket, shift);
    n += last - first;
  }
  return n;
}

uint64_t Partition::bytes_in(uint64_t bucket, unsigned shift) const {
  return count_in(bucket, shift) * layout_.bytes(max_key_ > UINT32_MAX || max_other_ > UINT32_MAX);
}

void Partition::read(uint64_t bucket, unsigned shift, size_t step,
                     const std::function<void(const Segment&)>& fn) const {
  Buffer scratch;
  for (const Run& r : runs_) {
    auto [first, last] = range_of(r.starts, r.shift, bucket, shift);
    const size_t bytes = layout_.bytes(r.wide);
    for (; first < last; first += std::min<uint64_t>(step, last - first)) {
      const size_t n = std::min<uint64_t>(step, last - first);
      scratch.reserve(n * bytes);
      spill_->file().read_at(r.offset + first * bytes, scratch.data(), n * bytes);
      fn({scratch.data(), n, r.wide});
    }
  }
  for (const Block& b : blocks_) {
    auto [first, last] = range_of(b.starts, b.shift, bucket, shift);
    for (; first < last; first += std::min<uint32_t>(step, last - first)) {
      const size_t n = std::min<size_t>(step, last - first);
      fn({b.data.data() + first * layout_.bytes(b.wide), n, b.wide});
    }
  }
}

void Partition::clear() {
  runs_.clear();
  blocks_.clear();
  held_ = 0;
  count_ = 0;
}

}  // namespace gz
