#include "pick/subset.h"

#include <algorithm>
#include <vector>

#include "base/threads.h"
#include "memory/memory.h"

namespace gz {
namespace {
constexpr uint64_t kDrawsBetweenPolls = 1 << 16;
}  // namespace

void choose_without_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t first, int64_t* out) {
  if (k <= kFew) return choose_few(rng, n, k, first, out);
  // Large fanouts: the same draws, with an open-addressing set instead of a linear search.
  const int bits = 64 - __builtin_clzll(k * 2 - 1);
  require_memory(uint64_t{1} << bits, sizeof(int64_t), "a subset of this size");
  std::vector<int64_t> set(size_t{1} << bits, -1);
  const auto add = [&](int64_t v) {
    for (size_t at = (static_cast<uint64_t>(v) * kGolden) >> (64 - bits);; at = (at + 1) & (set.size() - 1)) {
      if (set[at] == v) return false;
      if (set[at] < 0) {
        set[at] = v;
        return true;
      }
    }
  };
  for (uint64_t j = n - k, i = 0; j < n; ++j, ++i) {
    auto r = static_cast<int64_t>(rng.below(j + 1));
    if (!add(r)) add(r = static_cast<int64_t>(j));
    out[i] = first + r;
    if (i % kDrawsBetweenPolls == kDrawsBetweenPolls - 1) poll();
  }
}

void choose_with_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t first, int64_t* out) {
  while (k) {
    const uint64_t some = std::min(k, kDrawsBetweenPolls);
    for (uint64_t j = 0; j < some; ++j) out[j] = first + static_cast<int64_t>(rng.below(n));
    out += some;
    if ((k -= some)) poll();
  }
}

}  // namespace gz
