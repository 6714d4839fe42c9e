#include "read/device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "memory/buffer.h"
#include "read/extents.h"
#include "read/ring.h"

namespace gz {

double random_reads_per_second(const std::string& path, uint32_t bytes, unsigned depth, int threads,
                               uint64_t count, uint64_t rng_seed) {
  const auto mapping = Mapping::open(path);
  const ReadFile file(mapping, ReadFile::Caching::kPast);
  const uint64_t blocks = bytes ? mapping->size() / bytes : 0;
  if (blocks == 0 || depth == 0 || threads < 1 || bytes % file.offset_unit() != 0)
    throw std::invalid_argument("reads must be smaller than the file and a multiple of " +
                                std::to_string(file.offset_unit()) + " bytes");
  std::string why;
  if (!Ring::create(1, &why)) throw std::runtime_error(why);
  std::atomic<int> error{0};
  const auto work = [&](uint64_t seed, uint64_t left) {
    std::string no_ring;
    const auto ring = Ring::create(depth, &no_ring);
    if (!ring) {
      error = ENOMEM;
      return;
    }
    Buffer buffer(uint64_t{depth} * bytes);
    Rng rng(seed);
    std::vector<unsigned> free_slots(ring->depth());
    for (unsigned i = 0; i < free_slots.size(); ++i) free_slots[i] = i;
    for (;;) {
      for (; left && !free_slots.empty(); --left) {
        const unsigned slot = free_slots.back();
        free_slots.pop_back();
        ring->push_read(file.fd(), buffer.data() + uint64_t{slot} * bytes, bytes, rng.below(blocks) * bytes,
                        slot);
      }
      if (ring->in_flight() == 0) return;
      const bool taken = ring->submit_and_wait(std::min(ring->in_flight(), std::max(1u, depth / 8)));
      if (!taken) {
        error = ring->error();
        left = 0;
      }
      for (Ring::Completion c; taken ? ring->pop(c) : ring->drain(c);) {
        if (c.result < 0 && taken) error = -c.result;
        free_slots.push_back(static_cast<unsigned>(c.tag));
      }
    }
  };
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> others;
  const auto part = count / static_cast<uint64_t>(threads);
  for (int t = 1; t < threads; ++t) others.emplace_back(work, rng_seed + static_cast<uint64_t>(t), part);
  work(rng_seed, part);
  for (auto& t : others) t.join();
  if (error) throw IoError(error, path, "cannot read");
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(part * static_cast<uint64_t>(threads)) / seconds.count();
}

}  // namespace gz
