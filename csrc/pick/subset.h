// A uniform subset of a list, without looking at the list.
#pragma once

#include <cstdint>

namespace gz {

class Rng;

// k distinct offsets below n into out (Floyd's algorithm). k <= n.
void choose_without_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t* out);

// k offsets below n, drawn one by one.
void choose_with_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t* out);

}  // namespace gz
