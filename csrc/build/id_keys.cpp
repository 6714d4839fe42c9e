// Keys on their way into an IdAssigner: hashed, partitioned by hash, and spooled in order.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>

#include "base/hash.h"
#include "base/threads.h"
#include "build/id_map.h"

namespace gz {
namespace {

constexpr size_t kAddStep = size_t{1} << 18;

// A second hash, independent of xxh64, so that the two together tell texts apart.
uint64_t second_hash(std::string_view s) {
  uint64_t h = 0x2545F4914F6CDD1Dull ^ s.size();
  size_t i = 0;
  for (; i + 8 <= s.size(); i += 8) h = hash_integer(h ^ load_u64(s.data() + i)) + 0x9E3779B97F4A7C15ull;
  uint64_t last = 0;
  if (i < s.size()) std::memcpy(&last, s.data() + i, s.size() - i);
  return hash_integer(h ^ last);
}

}  // namespace

// A permutation of the 64-bit numbers (the finaliser of splitmix64): no two integers share a hash.
uint64_t hash_integer(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

uint64_t hash_text(std::string_view key) {
  return xxh64(key.data(), key.size());
}

std::string_view text_key(const uint64_t* offsets, size_t i, std::string_view all) {
  const uint64_t begin = offsets[i], end = offsets[i + 1];
  if (begin > end || end > all.size() || end - begin > UINT32_MAX)
    throw std::invalid_argument("offsets " + std::to_string(begin) + " and " + std::to_string(end) +
                                " of key " + std::to_string(i) + " are not those of a key in a text of " +
                                std::to_string(all.size()) + " bytes");
  return all.substr(begin, end - begin);
}

void IdAssigner::add_integers(const int64_t* keys, size_t count) {
  if (text_ || phase_ != Phase::kAdding)
    throw std::logic_error("integer keys given where they cannot be taken");
  std::vector<uint64_t> h1(std::min(count, kAddStep)), zero(h1.size(), 0);
  for (size_t at = 0; at < count; at += kAddStep) {
    const size_t n = std::min(kAddStep, count - at);
    for (size_t i = 0; i < n; ++i) h1[i] = hash_integer(static_cast<uint64_t>(keys[at + i]));
    seen_->add_batch(
        {.count = n, .wide = true, .key = h1.data(), .other = zero.data(), .first_seq = sequence_});
    spool_->write_at(sequence_ * 8, keys + at, n * 8);
    sequence_ += n;
  }
}

void IdAssigner::add_text(const uint64_t* offsets, size_t count, std::string_view all) {
  if (!text_ || phase_ != Phase::kAdding)
    throw std::logic_error("text keys given where they cannot be taken");
  std::vector<uint64_t> h1(std::min(count, kAddStep)), h2(h1.size());
  std::vector<uint32_t> lengths(h1.size());
  for (size_t at = 0; at < count; at += kAddStep) {
    const size_t n = std::min(kAddStep, count - at);
    parallel_for(n, 4096, [&](size_t i, size_t end) {
      for (; i < end; ++i) {
        const std::string_view s = text_key(offsets, at + i, all);
        h1[i] = hash_text(s);
        h2[i] = second_hash(s);
        lengths[i] = static_cast<uint32_t>(s.size());
      }
    });
    seen_->add_batch(
        {.count = n, .wide = true, .key = h1.data(), .other = h2.data(), .first_seq = sequence_});
    // As long as the keys that were hashed, whatever the caller's other threads do to the offsets.
    const uint64_t size =
        std::accumulate(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(n), uint64_t{0});
    const uint64_t begin = __atomic_load_n(offsets + at, __ATOMIC_RELAXED);
    if (begin > all.size() || size > all.size() - begin)
      throw std::invalid_argument("the offsets of keys changed while they were read");
    spool_->write_at(spool_end_, all.data() + begin, size);
    spool_lengths_->write_at(sequence_ * 4, lengths.data(), n * 4);
    spool_end_ += size;
    sequence_ += n;
  }
}

void IdAssigner::add_text_pairs(const uint64_t* a, std::string_view all_a, const uint64_t* b,
                                std::string_view all_b, size_t count) {
  std::vector<uint64_t> offsets;
  std::string bytes;
  for (size_t at = 0; at < count; at += kAddStep / 2) {
    const size_t n = std::min(kAddStep / 2, count - at);
    offsets.assign(1, 0);
    bytes.clear();
    for (size_t i = at; i < at + n; ++i) {
      for (const std::string_view key : {text_key(a, i, all_a), text_key(b, i, all_b)}) {
        bytes.append(key);
        offsets.push_back(bytes.size());
      }
    }
    add_text(offsets.data(), 2 * n, bytes);
  }
}

}  // namespace gz
