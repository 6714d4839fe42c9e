#include "base/hash.h"

#include <bit>
#include <cstring>

#include "base/threads.h"

namespace gz {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the store is little-endian; so must the machine be");

constexpr uint64_t kP1 = 0x9E3779B185EBCA87ull;
constexpr uint64_t kP2 = 0xC2B2AE3D27D4EB4Full;
constexpr uint64_t kP3 = 0x165667B19E3779F9ull;
constexpr uint64_t kP4 = 0x85EBCA77C2B2AE63ull;
constexpr uint64_t kP5 = 0x27D4EB2F165667C5ull;

template <class T>
T load(const unsigned char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

uint64_t round(uint64_t acc, uint64_t lane) {
  return std::rotl(acc + lane * kP2, 31) * kP1;
}
uint64_t merge(uint64_t acc, uint64_t lane_acc) {
  return (acc ^ round(0, lane_acc)) * kP1 + kP4;
}

}  // namespace

uint64_t xxh64(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  const unsigned char* const end = p + bytes;
  uint64_t h = kP5;
  if (bytes >= 32) {
    uint64_t a = kP1 + kP2, b = kP2, c = 0, d = 0 - kP1;
    for (; end - p >= 32; p += 32) {
      a = round(a, load<uint64_t>(p));
      b = round(b, load<uint64_t>(p + 8));
      c = round(c, load<uint64_t>(p + 16));
      d = round(d, load<uint64_t>(p + 24));
    }
    h = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    h = merge(merge(merge(merge(h, a), b), c), d);
  }
  h += bytes;
  for (; end - p >= 8; p += 8) h = std::rotl(h ^ round(0, load<uint64_t>(p)), 27) * kP1 + kP4;
  for (; end - p >= 4; p += 4) h = std::rotl(h ^ (load<uint32_t>(p) * kP1), 23) * kP2 + kP3;
  for (; p != end; ++p) h = std::rotl(h ^ (*p * kP5), 11) * kP1;
  h = (h ^ (h >> 33)) * kP2;
  h = (h ^ (h >> 29)) * kP3;
  return h ^ (h >> 32);
}

void TreeHash::update(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  if (!partial_.empty()) {
    const size_t take = std::min(bytes, kHashChunk - partial_.size());
    partial_.insert(partial_.end(), p, p + take);
    p += take;
    bytes -= take;
    if (partial_.size() < kHashChunk) return;
    chunks_.push_back(xxh64(partial_.data(), kHashChunk));
    partial_.clear();
  }
  for (; bytes >= kHashChunk; p += kHashChunk, bytes -= kHashChunk) chunks_.push_back(xxh64(p, kHashChunk));
  if (bytes) partial_.assign(p, p + bytes);
}

uint64_t TreeHash::digest() const {
  std::vector<uint64_t> all = chunks_;
  if (!partial_.empty()) all.push_back(xxh64(partial_.data(), partial_.size()));
  return xxh64(all.data(), all.size() * sizeof(uint64_t));
}

uint64_t tree_hash(const void* data, size_t bytes) {
  const auto* p = static_cast<const unsigned char*>(data);
  std::vector<uint64_t> chunks((bytes + kHashChunk - 1) / kHashChunk);
  parallel_for(chunks.size(), 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      chunks[i] = xxh64(p + i * kHashChunk, std::min(kHashChunk, bytes - i * kHashChunk));
  });
  return xxh64(chunks.data(), chunks.size() * sizeof(uint64_t));
}

}  // namespace gz
