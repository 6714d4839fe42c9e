// What a disk gives: random reads of one size with a queue of one depth. The yardstick for everything that
// reads; `benchmarks/out_of_core.py` compares with it.
#pragma once

#include <cstdint>
#include <string>

namespace gz {

// Reads/s of `count` random reads of `bytes`, aligned to their size, past the page cache, with `depth` in
// flight in each of `threads` threads. Throws IoError, or std::runtime_error where there is no io_uring.
double random_reads_per_second(const std::string& path, uint32_t bytes, unsigned depth, int threads,
                               uint64_t count, uint64_t rng_seed);

}  // namespace gz
