#include "build/partition.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/threads.h"

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

// At least one, so that a record is never empty.
uint8_t bytes_for(uint64_t max) {
  return static_cast<uint8_t>(std::max(1, (static_cast<int>(std::bit_width(max)) + 7) / 8));
}
uint64_t mask_of(uint8_t bytes) {
  return bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1;
}

// The low `bytes` bytes of v, and nothing beyond them.
inline void store_bytes(char* to, uint64_t v, uint8_t bytes) {
  if (bytes & 8) {
    std::memcpy(to, &v, 8);
    return;
  }
  if (bytes & 4) {
    std::memcpy(to, &v, 4);
    to += 4;
    v >>= 32;
  }
  if (bytes & 2) {
    std::memcpy(to, &v, 2);
    to += 2;
    v >>= 16;
  }
  if (bytes & 1) std::memcpy(to, &v, 1);
}

constexpr size_t kSlack = 8;  // a record's ids are loaded eight bytes at a time

template <class In>
uint64_t max_of(const In* p, size_t n) {
  In m = 0;
  for (size_t i = 0; i < n; ++i) m = std::max(m, p[i]);
  return m;
}

// The counting pass, for ids of one width.
template <class Id>
void scatter(const RecordBatch& b, const RecordLayout& layout, Partition::Block& block) {
  const Id* key = static_cast<const Id*>(b.key);
  const Id* other = static_cast<const Id*>(b.other);
  const unsigned shift = block.shift;
  std::vector<uint32_t>& starts = block.starts;
  // starts[k + 2] counts bucket k, becomes the start of k + 1 ... so that after the pass starts[k] is in
  // place.
  for (size_t i = 0; i < b.count; ++i) ++starts[(key[i] >> shift) + 2];
  for (size_t k = 2; k < starts.size(); ++k) starts[k] += starts[k - 1];
  char* out = block.data.data();
  const uint64_t low = (uint64_t{1} << shift) - 1;
  const IdBytes ids = block.ids;
  const size_t stride = ids.total() + layout.tail_bytes();
  if (layout.tail_bytes() == 0 && stride <= 8) {
    // Both ids in one word.
    const unsigned up = 8 * ids.key;
    const auto put = [&](auto width) {
      for (size_t i = 0; i < b.count; ++i)
        store_bytes(out + size_t{starts[(key[i] >> shift) + 1]++} * width(),
                    (key[i] & low) | uint64_t{other[i]} << up, width());
    };
    switch (stride) {
      case 4:
        return put([] { return uint8_t{4}; }), starts.pop_back();
      case 5:
        return put([] { return uint8_t{5}; }), starts.pop_back();
      case 6:
        return put([] { return uint8_t{6}; }), starts.pop_back();
      default:
        return put([stride] { return static_cast<uint8_t>(stride); }), starts.pop_back();
    }
  }
  for (size_t i = 0; i < b.count; ++i) {
    char* to = out + size_t{starts[(key[i] >> shift) + 1]++} * stride;
    store_bytes(to, key[i] & low, ids.key);
    store_bytes(to + ids.key, other[i], ids.other);
    to += ids.total();
    if (layout.has_seq) {
      const uint64_t seq = b.seqs ? b.seqs[i] : b.first_seq + i;
      std::memcpy(to, &seq, 8);
      to += 8;
    }
    if (layout.payload) std::memcpy(to, b.payload + i * layout.payload, layout.payload);
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
  block.shift = std::max(shift_, block.max_key == UINT64_MAX ? 54u : shift_for(block.max_key + 1));
  block.ids = {static_cast<uint8_t>((block.shift + 7) / 8), bytes_for(block.max_other)};
  block.data = Buffer(batch.count * (block.ids.total() + layout_.tail_bytes()) + kSlack);
  block.starts.assign((block.max_key >> block.shift) + 3, 0);
  batch.wide ? scatter<uint64_t>(batch, layout_, block) : scatter<uint32_t>(batch, layout_, block);
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

// The segments of narrow buckets [first, last) whose records start at `data`.
template <class Starts>
void Partition::emit(const Starts& starts, unsigned own_shift, IdBytes ids, uint64_t first, uint64_t last,
                     const char* data, const std::function<void(const Segment&)>& fn) const {
  const size_t stride = ids.total() + layout_.tail_bytes();
  uint64_t k = std::upper_bound(starts.begin(), starts.end(), first) - starts.begin() - 1;
  for (; first < last; ++k) {
    const uint64_t end = std::min<uint64_t>(last, starts[k + 1]);
    if (end == first) continue;
    fn({data, static_cast<size_t>(end - first), k << own_shift, mask_of(ids.key), mask_of(ids.other), stride,
        ids.key, static_cast<uint8_t>(ids.total())});
    data += (end - first) * stride;
    first = end;
  }
}

void Partition::spill() {
  if (blocks_.empty()) return;
  Run run;
  uint64_t max_key = 0, max_other = 0;
  for (const Block& b : blocks_) {
    run.shift = std::max(run.shift, b.shift);
    max_key = std::max(max_key, b.max_key);
    max_other = std::max(max_other, b.max_other);
  }
  run.ids = {static_cast<uint8_t>((run.shift + 7) / 8), bytes_for(max_other)};
  const uint64_t buckets = (max_key >> run.shift) + 1;
  run.starts.assign(buckets + 1, 0);
  for (uint64_t k = 0; k < buckets; ++k) {
    uint64_t n = 0;
    for (const Block& b : blocks_) {
      const auto [first, last] = range_of(b.starts, b.shift, k, run.shift);
      n += last - first;
    }
    run.starts[k + 1] = run.starts[k] + n;
  }
  const size_t tail = layout_.tail_bytes();
  const size_t stride = run.ids.total() + tail;
  run.offset = spill_->reserve(run.starts.back() * stride);
  const uint64_t low = (uint64_t{1} << run.shift) - 1;

  // Buckets in groups of about kWriteBytes, so that each task writes one long stretch.
  std::vector<uint64_t> groups{0};
  for (uint64_t k = 0; k < buckets; ++k)
    if ((run.starts[k + 1] - run.starts[groups.back()]) * stride >= kWriteBytes || k + 1 == buckets)
      groups.push_back(k + 1);
  parallel_for(groups.size() - 1, 1, [&](size_t g, size_t end) {
    Buffer buffer(std::max(kWriteBytes, stride));
    for (; g < end; ++g) {
      uint64_t at = run.offset + run.starts[groups[g]] * stride;
      size_t filled = 0;
      const auto flush = [&] {
        spill_->file().write_at(at, buffer.data(), filled);
        at += filled;
        filled = 0;
      };
      const auto put = [&](const Segment& s) {
        const bool same = s.stride == stride && s.key_bytes == run.ids.key && (s.key_base & low) == 0;
        for (size_t done = 0; done < s.count;) {
          const size_t n = std::min(s.count - done, (buffer.capacity() - filled) / stride);
          if (n == 0) {
            flush();
            continue;
          }
          char* to = buffer.data() + filled;
          if (same) {
            std::memcpy(to, s.data + done * stride, n * stride);
          } else {
            for (size_t i = done; i < done + n; ++i, to += stride) {
              store_bytes(to, s.key(i) & low, run.ids.key);
              store_bytes(to + run.ids.key, s.other(i), run.ids.other);
              std::memcpy(to + run.ids.total(), s.tail(i), tail);
            }
          }
          filled += n * stride;
          done += n;
        }
      };
      for (uint64_t k = groups[g]; k < groups[g + 1]; ++k)
        for (const Block& b : blocks_) {
          const auto [first, last] = range_of(b.starts, b.shift, k, run.shift);
          emit(b.starts, b.shift, b.ids, first, last, b.data.data() + first * (b.ids.total() + tail), put);
        }
      if (filled) flush();
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

void Partition::read(uint64_t bucket, unsigned shift, size_t step,
                     const std::function<void(const Segment&)>& fn) const {
  Buffer scratch;
  for (const Run& r : runs_) {
    auto [first, last] = range_of(r.starts, r.shift, bucket, shift);
    const size_t stride = r.ids.total() + layout_.tail_bytes();
    while (first < last) {
      const size_t n = std::min<uint64_t>(step, last - first);
      scratch.reserve(n * stride + kSlack);
      spill_->file().read_at(r.offset + first * stride, scratch.data(), n * stride);
      emit(r.starts, r.shift, r.ids, first, first + n, scratch.data(), fn);
      first += n;
    }
  }
  for (const Block& b : blocks_) {
    auto [first, last] = range_of(b.starts, b.shift, bucket, shift);
    const size_t stride = b.ids.total() + layout_.tail_bytes();
    while (first < last) {
      const size_t n = std::min<size_t>(step, last - first);
      emit(b.starts, b.shift, b.ids, first, first + n, b.data.data() + first * stride, fn);
      first += static_cast<uint32_t>(n);
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
