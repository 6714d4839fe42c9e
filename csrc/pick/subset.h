// A uniform subset of a list, without looking at the list.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/rng.h"
#include "pick/pick.h"

namespace gz {

inline constexpr uint64_t kFew = 32;

// k distinct numbers of [first, first + n) into out (Floyd's algorithm). k <= n.
void choose_without_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t first, int64_t* out);

// The same numbers for k up to kFew. No branch depends on what is drawn: guessing wrong would cost more than
// the draw.
inline void choose_few(Rng& rng, uint64_t n, uint64_t k, int64_t first, int64_t* out) {
  const uint64_t begin = n - k;
  if (n <= 64) {
    uint64_t taken = 0;
    for (uint64_t i = 0; i < k; ++i) {
      uint64_t r = rng.below(begin + i + 1);
      r = taken >> r & 1 ? begin + i : r;
      taken |= uint64_t{1} << r;
      out[i] = first + static_cast<int64_t>(r);
    }
    return;
  }
  for (uint64_t i = 0; i < k; ++i) {
    const int64_t r = first + static_cast<int64_t>(rng.below(begin + i + 1));
    bool taken = false;
    for (uint64_t j = 0; j < i; ++j) taken |= out[j] == r;
    out[i] = taken ? first + static_cast<int64_t>(begin + i) : r;
  }
}

// k numbers of [first, first + n), drawn one by one.
void choose_with_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t first, int64_t* out);

// The lists of a frontier's nodes, and where what is chosen goes.
struct ListsToChooseFrom {
  const uint64_t *begins, *degrees;
  const uint64_t* offsets;  // of what is chosen from each, min(k, degree); one more than lists
  const Frontier& frontier;
  uint64_t stream;
};

// Which code chooses: plain C++, or what the processor has: 8 lists at a time with AVX-512. Both give the
// same bits.
enum class ChooseBy { kScalar, kVector };

// choose_few() for the lists [from, to), or all of one that has no more than k: positions into
// positions[offsets[from] ...), and for each whose it is, first + i, into owners. 0 < k <= kFew.
void choose_few_of_each(const ListsToChooseFrom& lists, uint64_t k, size_t from, size_t to, int64_t first,
                        int64_t* positions, int64_t* owners, ChooseBy by = ChooseBy::kVector);

}  // namespace gz
