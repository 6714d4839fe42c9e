#include "build/id_map.h"

#include <algorithm>
#include <stdexcept>

#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kStep = size_t{1} << 16;

uint64_t bucket_count(const Partition& p) {
  return p.count() ? (p.max_key() >> p.min_shift()) + 1 : 0;
}

}  // namespace

// The distinct keys of one hash bucket, numbered as they come.
struct IdAssigner::Table {
  struct Entry {
    uint64_t h1, h2;
  };
  std::vector<Entry> entries;
  std::vector<uint32_t> slots;  // open addressing; entry number + 1
  size_t mask;

  Table() : slots(1024, 0), mask(1023) {}

  // The entry's number; `added` says whether it is new.
  size_t find(uint64_t h1, uint64_t h2, bool& added) {
    added = false;
    // The top bits are the bucket's; the low ones vary.
    for (size_t at = h1 & mask;; at = (at + 1) & mask) {
      if (slots[at] == 0) {
        if (entries.size() >= UINT32_MAX - 1) throw std::length_error("too many distinct ids in one bucket");
        entries.push_back({h1, h2});
        slots[at] = static_cast<uint32_t>(entries.size());
        added = true;
        const size_t number = entries.size() - 1;
        if (entries.size() * 2 > slots.size()) grow();
        return number;
      }
      const Entry& e = entries[slots[at] - 1];
      if (e.h1 == h1 && e.h2 == h2) return slots[at] - 1;
    }
  }

  void grow() {
    mask = slots.size() * 2 - 1;
    slots.assign(mask + 1, 0);
    for (size_t i = 0; i < entries.size(); ++i) {
      size_t at = entries[i].h1 & mask;
      while (slots[at]) at = (at + 1) & mask;
      slots[at] = static_cast<uint32_t>(i + 1);
    }
  }
};

IdAssigner::IdAssigner(const std::string& directory, bool text, uint64_t memory)
    : directory_(directory), text_(text), memory_(memory) {
  seen_ = std::make_unique<Partition>(std::make_shared<SpillFile>(directory),
                                      RecordLayout{.has_seq = true, .payload = 0}, memory / 3);
  seen_->expect_keys(UINT64_MAX);
  spool_ = std::make_unique<OutFile>(directory, OutFile::Mode::kTemporary);
  if (text_) spool_lengths_ = std::make_unique<OutFile>(directory, OutFile::Mode::kTemporary);
}

void IdAssigner::begin(const std::string& prefix) {
  if (phase_ != Phase::kAdding) throw std::logic_error("begin() called twice");
  const auto column = [&](const char* name, DType dtype) {
    return std::make_unique<ColumnWriter>(prefix + name + ".gd", dtype, std::vector<uint64_t>{});
  };
  if (text_) {
    offsets_ = column("offsets", DType::kInt64);
    bytes_ = column("bytes", DType::kUInt8);
    const int64_t zero = 0;
    offsets_->append(&zero, 8);
  } else {
    keys_ = column("keys", DType::kInt64);
  }
  hash_ = column("hash", DType::kInt64);
  dense_ = column("dense", DType::kInt64);
  const auto partition = [&] {
    return std::make_unique<Partition>(std::make_shared<SpillFile>(directory_), RecordLayout{}, memory_ / 6);
  };
  firsts_ = partition();
  numbered_ = partition();
  resolved_ = partition();
  firsts_->expect_keys(sequence_);
  resolved_->expect_keys(sequence_);
  slots_ = std::make_unique<OutFile>(directory_, OutFile::Mode::kTemporary);
  ids_ = std::make_unique<OutFile>(directory_, OutFile::Mode::kTemporary);
  slot_base_.assign(bucket_count(*seen_) + 1, 0);
  phase_ = Phase::kCount;
}

void IdAssigner::begin_lookup() {
  if (phase_ != Phase::kAdding) throw std::logic_error("begin() called twice");
  lookup_ = true;
  resolved_ =
      std::make_unique<Partition>(std::make_shared<SpillFile>(directory_), RecordLayout{}, memory_ / 2);
  resolved_->expect_keys(sequence_);
  ids_ = std::make_unique<OutFile>(directory_, OutFile::Mode::kTemporary);
  phase_ = Phase::kResolve;
}

void IdAssigner::count_wave() {
  const size_t n = std::min<uint64_t>(static_cast<size_t>(num_threads()), bucket_count(*seen_) - bucket_);
  std::vector<std::vector<uint64_t>> first(n);
  parallel_for(n, 1, [&](size_t i, size_t end) {
    for (; i < end; ++i) {
      Table table;
      seen_->read(bucket_ + i, seen_->min_shift(), kStep, [&](const Segment& s) {
        for (size_t r = 0; r < s.count; ++r) {
          bool added;
          table.find(s.key(r), s.other(r), added);
          if (added) first[i].push_back(load_u64(s.tail(r)));  // equal keys come in order: this is the first
        }
      });
    }
  });
  for (size_t i = 0; i < n; ++i, ++bucket_) {
    slot_base_[bucket_ + 1] = slot_base_[bucket_] + first[i].size();
    std::vector<uint64_t> slot(first[i].size());
    for (size_t k = 0; k < slot.size(); ++k) slot[k] = slot_base_[bucket_] + k;
    firsts_->add_batch({.count = slot.size(), .wide = true, .key = first[i].data(), .other = slot.data()});
  }
}

void IdAssigner::number_bucket() {
  std::vector<std::pair<uint64_t, uint64_t>> records;
  firsts_->read(bucket_++, firsts_->min_shift(), kStep, [&](const Segment& s) {
    for (size_t r = 0; r < s.count; ++r) records.emplace_back(s.key(r), s.other(r));
  });
  std::sort(records.begin(), records.end());
  std::vector<uint64_t> slot(records.size()), dense(records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    slot[i] = records[i].second;
    dense[i] = num_ids_++;
  }
  numbered_->add_batch({.count = slot.size(), .wide = true, .key = slot.data(), .other = dense.data()});
}

void IdAssigner::slots_bucket() {
  const unsigned shift = numbered_->min_shift();
  const uint64_t begin = bucket_ << shift, end = std::min(num_ids_, begin + (uint64_t{1} << shift));
  std::vector<uint64_t> dense(end - begin);
  numbered_->read(bucket_++, shift, kStep, [&](const Segment& s) {
    for (size_t r = 0; r < s.count; ++r) dense[s.key(r) - begin] = s.other(r);
  });
  slots_->write_at(begin * 8, dense.data(), dense.size() * 8);
}

void IdAssigner::resolve_wave() {
  const size_t n = std::min<uint64_t>(static_cast<size_t>(num_threads()), bucket_count(*seen_) - bucket_);
  struct Work {
    std::vector<Partition::Block> blocks;
    std::vector<uint64_t> hash, dense;
  };
  std::vector<Work> work(n);
  parallel_for(n, 1, [&](size_t i, size_t end) {
    for (; i < end; ++i) {
      Work& w = work[i];
      std::vector<uint64_t> dense;
      if (!lookup_) {
        const uint64_t base = slot_base_[bucket_ + i];
        dense.resize(slot_base_[bucket_ + i + 1] - base);
        if (!dense.empty()) slots_->read_at(base * 8, dense.data(), dense.size() * 8);
      }
      Table table;
      std::vector<uint64_t> seq, id;
      seen_->read(bucket_ + i, seen_->min_shift(), kStep, [&](const Segment& s) {
        seq.resize(s.count);
        id.resize(s.count);
        for (size_t r = 0; r < s.count; ++r) {
          bool added;
          const size_t slot = table.find(s.key(r), s.other(r), added);
          seq[r] = load_u64(s.tail(r));
          if (added && lookup_) dense.push_back(seq[r]);  // a key's id is its place among those known
          id[r] = dense[slot];
        }
        w.blocks.push_back(
            resolved_->make_block({.count = s.count, .wide = true, .key = seq.data(), .other = id.data()}));
      });
      if (lookup_) continue;
      std::vector<std::pair<uint64_t, uint64_t>> sorted(dense.size());
      for (size_t k = 0; k < dense.size(); ++k) sorted[k] = {table.entries[k].h1, dense[k]};
      std::sort(sorted.begin(), sorted.end());
      for (const auto& [h, d] : sorted) {
        w.hash.push_back(h);
        w.dense.push_back(d);
      }
    }
  });
  for (Work& w : work) {
    for (auto& b : w.blocks) resolved_->add(std::move(b));
    if (lookup_) continue;
    hash_->append(w.hash.data(), w.hash.size() * 8);
    dense_->append(w.dense.data(), w.dense.size() * 8);
  }
  bucket_ += n;
}

std::string IdAssigner::spooled_key(size_t i) const {
  if (!text_) return std::to_string(spooled_ints_[i]);
  return {spooled_bytes_.data() + spooled_starts_[i], spooled_lengths_[i]};
}

std::string IdAssigner::spooled_text(uint64_t at) const {
  std::vector<uint32_t> lengths(kStep);
  uint64_t begin = 0;
  for (uint64_t first = 0;; first += lengths.size()) {
    const size_t n = std::min<uint64_t>(lengths.size(), at + 1 - first);
    spool_lengths_->read_at(first * 4, lengths.data(), n * 4);
    for (size_t i = 0; i < n && first + i < at; ++i) begin += lengths[i];
    if (first + n <= at) continue;
    std::string key(lengths[at - first], '\0');
    spool_->read_at(begin, key.data(), key.size());
    return key;
  }
}

void IdAssigner::look_up_bucket() {
  const unsigned shift = resolved_->min_shift();
  const uint64_t begin = bucket_ << shift, end = std::min(sequence_, begin + (uint64_t{1} << shift));
  std::vector<uint64_t> id(end - begin);
  resolved_->read(bucket_++, shift, kStep, [&](const Segment& s) {
    for (size_t r = 0; r < s.count; ++r) id[s.key(r) - begin] = s.other(r);
  });
  ids_->write_at(begin * 8, id.data(), id.size() * 8);
  for (uint64_t at = begin; at < end && offender_ == UINT64_MAX; ++at) {
    if (at < closed_ ? id[at - begin] == at : id[at - begin] < closed_) continue;
    offender_ = at;
    int64_t number = 0;
    if (!text_) spool_->read_at(at * 8, &number, 8);
    offending_key_ = text_ ? spooled_text(at) : std::to_string(number);
  }
}

void IdAssigner::restore_bucket() {
  const unsigned shift = resolved_->min_shift();
  const uint64_t begin = bucket_ << shift, end = std::min(sequence_, begin + (uint64_t{1} << shift));
  const size_t n = end - begin;
  std::vector<uint64_t> id(n);
  resolved_->read(bucket_++, shift, kStep, [&](const Segment& s) {
    for (size_t r = 0; r < s.count; ++r) id[s.key(r) - begin] = s.other(r);
  });
  ids_->write_at(begin * 8, id.data(), n * 8);
  if (text_) {
    spooled_lengths_.resize(n);
    spooled_starts_.resize(n);
    spool_lengths_->read_at(begin * 4, spooled_lengths_.data(), n * 4);
    uint64_t size = 0;
    for (size_t i = 0; i < n; ++i) {
      spooled_starts_[i] = size;
      size += spooled_lengths_[i];
    }
    spooled_bytes_.resize(size);
    spool_->read_at(spool_at_, spooled_bytes_.data(), size);
    spool_at_ += size;
  } else {
    spooled_ints_.resize(n);
    spool_->read_at(begin * 8, spooled_ints_.data(), n * 8);
  }
  // In order of appearance a key is new exactly when its id is the next one.
  std::vector<int64_t> keys;
  std::string bytes;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t at = begin + i;
    const bool is_new = id[i] == num_ids_;
    const bool allowed = at < closed_ ? is_new : (closed_ == 0 || id[i] < closed_);
    if (!allowed && offender_ == UINT64_MAX) {
      offender_ = at;
      offending_key_ = spooled_key(i);
    }
    if (!is_new) continue;
    ++num_ids_;
    if (text_) {
      bytes.append(spooled_bytes_.data() + spooled_starts_[i], spooled_lengths_[i]);
      keys.push_back(static_cast<int64_t>(bytes_written_ + bytes.size()));
    } else {
      keys.push_back(spooled_ints_[i]);
    }
  }
  (text_ ? offsets_ : keys_)->append(keys.data(), keys.size() * 8);
  if (text_) {
    bytes_->append(bytes.data(), bytes.size());
    bytes_written_ += bytes.size();
  }
}

void IdAssigner::finish() {
  for (auto* c : {keys_.get(), offsets_.get(), bytes_.get(), hash_.get(), dense_.get()})
    if (c) c->finish();
  resolved_.reset();
}

void IdAssigner::next_phase() {
  bucket_ = 0;
  phase_ = static_cast<Phase>(static_cast<int>(phase_) + 1);
  if (phase_ == Phase::kNumber) numbered_->expect_keys(slot_base_.back());
  if (phase_ == Phase::kSlots) firsts_.reset();
  if (phase_ == Phase::kResolve) numbered_.reset();
  if (phase_ == Phase::kRestore) {
    seen_.reset();
    slots_.reset();
    num_ids_ = lookup_ ? closed_ : 0;  // counted once more as the keys are written
  }
  if (phase_ == Phase::kDone) finish();
}

bool IdAssigner::step() {
  const auto left = [&](const Partition& p) { return bucket_ < bucket_count(p); };
  switch (phase_) {
    case Phase::kAdding:
      throw std::logic_error("step() called before begin()");
    case Phase::kCount:
      left(*seen_) ? count_wave() : next_phase();
      return true;
    case Phase::kNumber:
      left(*firsts_) ? number_bucket() : next_phase();
      return true;
    case Phase::kSlots:
      left(*numbered_) ? slots_bucket() : next_phase();
      return true;
    case Phase::kResolve:
      left(*seen_) ? resolve_wave() : next_phase();
      return true;
    case Phase::kRestore:
      if (!left(*resolved_))
        next_phase();
      else if (lookup_)
        look_up_bucket();
      else
        restore_bucket();
      return phase_ != Phase::kDone;
    case Phase::kDone:
      return false;
  }
  return false;
}

void IdAssigner::read_ids(uint64_t first, size_t count, uint64_t* out) const {
  if (phase_ != Phase::kDone || first > sequence_ || count > sequence_ - first)
    throw std::logic_error("ids read before they are there");
  ids_->read_at(first * 8, out, count * 8);
}

}  // namespace gz
