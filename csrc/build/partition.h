// Records split by ranges of their key, in memory up to a limit and beyond that in a spill file.
//
// This is the out-of-core half of ingest. Records arrive in blocks; a block is grouped by bucket (a range of
// 2^shift keys) by one stable counting pass. When the blocks held exceed the limit they are merged into one
// run, bucket by bucket, and written to the spill file in one sequential sweep, so that reading a bucket
// later costs one read per run. Every block and run keeps the shift it was made with: when larger keys appear
// the shift grows, and a bucket of the wider kind is simply a range of neighbouring narrow ones. Within a
// bucket, records of equal key keep the order in which they arrived.
//
// A record is the key (only what lies below the bucket's first key), the other id, each in as few bytes as
// its block needs, then, if asked for, an 8-byte sequence number, then a payload of fixed size. Small records
// matter more than aligned ones: they decide whether an edge list fits the budget or goes through the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "file/writer.h"
#include "memory/buffer.h"

namespace gz {

// A temporary file that only grows; shared by the partitions of one build.
class SpillFile {
 public:
  explicit SpillFile(const std::string& directory) : directory_(directory) {}
  uint64_t reserve(uint64_t bytes);  // opens the file on first use
  const OutFile& file() const { return *file_; }
  uint64_t bytes() const { return end_; }

 private:
  std::string directory_;
  std::unique_ptr<OutFile> file_;
  uint64_t end_ = 0;
};

// What follows the two ids in a record.
struct RecordLayout {
  bool has_seq = false;
  size_t payload = 0;

  size_t payload_offset() const { return has_seq ? 8 : 0; }
  size_t tail_bytes() const { return payload_offset() + payload; }
};

// How many bytes the two ids of a record take.
struct IdBytes {
  uint8_t key = 0;
  uint8_t other = 0;
  size_t total() const { return size_t{key} + other; }
};

// Records to add. Ids are 32 or 64 bits wide as the flag says. seq is first_seq + i, or seqs[i] where given.
struct RecordBatch {
  size_t count = 0;
  bool wide = false;
  const void* key = nullptr;
  const void* other = nullptr;
  uint64_t first_seq = 0;
  const uint64_t* seqs = nullptr;
  const char* payload = nullptr;
};

inline uint64_t load_u64(const char* p) {
  uint64_t v;
  __builtin_memcpy(&v, p, 8);
  return v;
}

// Records that share a bucket, as they lie. At least 8 readable bytes follow the last one.
struct Segment {
  const char* data;
  size_t count;
  uint64_t key_base;
  uint64_t key_mask, other_mask;
  size_t stride;
  uint8_t key_bytes;
  uint8_t id_bytes;

  uint64_t key(size_t i) const { return key_base + (load_u64(data + i * stride) & key_mask); }
  uint64_t other(size_t i) const { return load_u64(data + i * stride + key_bytes) & other_mask; }
  const char* tail(size_t i) const { return data + i * stride + id_bytes; }  // sequence number, payload
};

class Partition {
 public:
  Partition(std::shared_ptr<SpillFile> spill, RecordLayout layout, size_t memory);

  struct Block {
    Buffer data;
    std::vector<uint32_t> starts;  // by bucket, in records; one more than there are buckets
    unsigned shift = 0;
    IdBytes ids;
    uint64_t max_key = 0, max_other = 0;
    size_t count() const { return starts.empty() ? 0 : starts.back(); }
  };
  // Groups a batch by bucket. Thread-safe: several threads make blocks at once, then add() takes them in
  // order.
  Block make_block(const RecordBatch& batch) const;
  // Takes the block (empty ones are fine) and spills if the limit is passed. Not thread-safe.
  void add(Block block);
  void add_batch(const RecordBatch& batch);  // cut into pieces, made into blocks on all threads, added
  // Keys will be below this: choose the shift for it from the start.
  void expect_keys(uint64_t limit);

  uint64_t count() const { return count_; }
  uint64_t max_key() const { return max_key_; }      // 0 when empty
  uint64_t max_other() const { return max_other_; }  // 0 when empty
  const RecordLayout& layout() const { return layout_; }
  size_t bytes_in_memory() const { return held_; }
  void spill();  // writes everything held to the spill file

  // For reading: buckets of 2^shift keys. `shift` must be at least min_shift().
  unsigned min_shift() const { return shift_; }
  uint64_t count_in(uint64_t bucket, unsigned shift) const;
  // Calls fn with the bucket's segments in arrival order; those of runs are read in pieces of at most `step`
  // records.
  void read(uint64_t bucket, unsigned shift, size_t step,
            const std::function<void(const Segment&)>& fn) const;
  // Forgets the records; the spill file keeps its space.
  void clear();

 private:
  struct Run {
    uint64_t offset = 0;
    std::vector<uint64_t> starts;
    unsigned shift = 0;
    IdBytes ids;
  };
  template <class Starts>
  void emit(const Starts& starts, unsigned own_shift, IdBytes ids, uint64_t first, uint64_t last,
            const char* data, const std::function<void(const Segment&)>& fn) const;

  std::shared_ptr<SpillFile> spill_;
  RecordLayout layout_;
  size_t memory_;
  unsigned shift_ = 0;
  std::vector<Run> runs_;
  std::vector<Block> blocks_;
  size_t held_ = 0;
  uint64_t count_ = 0, max_key_ = 0, max_other_ = 0;
};

// The smallest shift that splits keys below `limit` into at most kMaxBuckets buckets.
inline constexpr unsigned kMaxBuckets = 1024;
unsigned shift_for(uint64_t limit);

}  // namespace gz
