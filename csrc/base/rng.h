// Counter-based random numbers. A stream is named by what it is for (rng_seed, hop, node, ...), so a draw
// depends on nothing else: not on threads, not on the order of work. The generator is SplitMix64 (Steele,
// Lea, Flood 2014): a 64-bit counter through a finalizer that passes BigCrush.
#pragma once

#include <cmath>
#include <cstdint>

namespace gz {

inline constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
inline constexpr uint64_t kMixFirst = 0xBF58476D1CE4E5B9ull, kMixSecond = 0x94D049BB133111EBull;

inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * kMixFirst;
  z = (z ^ (z >> 27)) * kMixSecond;
  return z ^ (z >> 31);
}

// Folds one more name into a stream key.
inline uint64_t fold(uint64_t key, uint64_t name) {
  return mix64((key ^ name) + kGolden);
}

class Rng {
 public:
  explicit Rng(uint64_t key) : state_(key) {}
  uint64_t next() { return mix64(state_ += kGolden); }
  // Uniform in [0, n). The bias is below n / 2^64: not measurable for any degree that fits a disk.
  uint64_t below(uint64_t n) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
  }
  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in (0, 1]: safe under log().
  double unit_positive() { return static_cast<double>((next() >> 11) + 1) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace gz
