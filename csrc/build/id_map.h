// Dense ids for arbitrary keys (64-bit integers or text), within a memory budget.
//
// Keys arrive in sequence; dense ids are given in the order of first appearance. No table of all keys is ever
// in memory:
//   add      (hash, sequence number) is partitioned by hash, and the key itself spooled in order
//   count    per hash bucket: a table of its distinct keys, and when each was first seen
//   number   the first appearances, in order, get ids 0, 1, 2, ...
//   resolve  per hash bucket again: every appearance gets its key's id; the lookup columns are written,
//   sorted by hash restore  ids in the order of the sequence; the keys in the order of their ids
// Integers are told apart by a hash that is a permutation of the 64-bit numbers, so exactly; text by 128 bits
// of hash.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "build/partition.h"
#include "file/writer.h"

namespace gz {

// The hash the stored lookup is sorted by.
uint64_t hash_integer(uint64_t key);
uint64_t hash_text(std::string_view key);

// Key i of many in one text: all[offsets[i] .. offsets[i + 1]). std::invalid_argument where that is not
// inside.
std::string_view text_key(const uint64_t* offsets, size_t i, std::string_view all);

class IdAssigner {
 public:
  // `directory`: for temporary files. `text`: keys are text, else integers.
  IdAssigner(const std::string& directory, bool text, uint64_t memory);

  void add_integers(const int64_t* keys, size_t count);
  void add_text(const uint64_t* offsets, size_t count, std::string_view all);  // offsets[count + 1]
  // The keys of both ends of `count` edges, as a[0], b[0], a[1], b[1], ...
  void add_text_pairs(const uint64_t* a, std::string_view all_a, const uint64_t* b, std::string_view all_b,
                      size_t count);
  // Only keys seen so far may appear from here on, and each must have appeared once (a node table).
  void close_keys() { closed_ = sequence_; }

  // Prefix of the files to write: PREFIXkeys.gd (or PREFIXoffsets.gd and PREFIXbytes.gd), PREFIXhash.gd,
  // PREFIXdense.gd.
  void begin(const std::string& prefix);
  // Instead of begin(), after close_keys(): ids are those of a mapping that was written before, in the order
  // of the keys before close_keys(). Nothing is counted, and no file is written.
  void begin_lookup();
  bool step();  // false when done
  uint64_t num_ids() const { return num_ids_; }
  uint64_t num_added() const { return sequence_; }

  // A key that broke the rule of close_keys(): its place in the sequence and the key as text. None: place is
  // 2^64 - 1.
  uint64_t offender() const { return offender_; }
  const std::string& offending_key() const { return offending_key_; }

  // After the last step: dense ids [first, first + count) of the sequence.
  void read_ids(uint64_t first, size_t count, uint64_t* out) const;

 private:
  enum class Phase { kAdding, kCount, kNumber, kSlots, kResolve, kRestore, kDone };
  struct Table;

  void count_wave();
  void number_bucket();
  void slots_bucket();
  void resolve_wave();
  void restore_bucket();
  void look_up_bucket();
  std::string spooled_text(uint64_t at) const;
  void finish();
  void next_phase();
  std::string spooled_key(size_t i) const;

  std::string directory_;
  bool text_;
  uint64_t memory_;
  uint64_t sequence_ = 0, closed_ = 0, num_ids_ = 0;
  Phase phase_ = Phase::kAdding;
  uint64_t bucket_ = 0;
  bool lookup_ = false;

  std::unique_ptr<Partition> seen_;       // key: hash, other: second hash, seq
  std::unique_ptr<Partition> firsts_;     // key: sequence number of the first appearance, other: slot
  std::unique_ptr<Partition> numbered_;   // key: slot, other: dense id
  std::unique_ptr<Partition> resolved_;   // key: sequence number, other: dense id
  std::vector<uint64_t> slot_base_;       // by hash bucket: the first of its slots
  std::unique_ptr<OutFile> slots_, ids_;  // dense id by slot; dense id by sequence number

  std::unique_ptr<OutFile> spool_, spool_lengths_;
  uint64_t spool_end_ = 0, spool_at_ = 0;
  std::vector<int64_t> spooled_ints_;
  std::vector<uint32_t> spooled_lengths_;
  std::vector<char> spooled_bytes_;
  std::vector<uint64_t> spooled_starts_;

  std::unique_ptr<ColumnWriter> keys_, offsets_, bytes_, hash_, dense_;
  uint64_t bytes_written_ = 0;
  uint64_t offender_ = UINT64_MAX;
  std::string offending_key_;
};

}  // namespace gz
