// Checksums of the store, both built on XXH64 (seed 0), whose specification is public and short:
//   xxh64()     over a span of bytes: the header checksum
//   TreeHash    over a section of any length, 4 MiB chunks hashed on their own, then the list of the chunks'
//               little-endian hashes hashed once more. Chunks are independent, so writers and `gz verify`
//               can hash in parallel and out of order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gz {

uint64_t xxh64(const void* data, size_t bytes);

inline constexpr size_t kHashChunk = size_t{4} << 20;

// Streaming form: feed bytes in order with update(), any split. An empty section hashes an empty list.
class TreeHash {
 public:
  void update(const void* data, size_t bytes);
  uint64_t digest() const;

 private:
  std::vector<uint64_t> chunks_;
  std::vector<unsigned char> partial_;
};

// Whole-section form, hashed on all threads.
uint64_t tree_hash(const void* data, size_t bytes);

}  // namespace gz
