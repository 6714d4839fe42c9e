#include "pick/subset.h"

#include <algorithm>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// ---- of many lists ----

namespace {

void choose_one_by_one(const ListsToChooseFrom& lists, uint64_t k, size_t from, size_t to, size_t end,
                       int64_t first, int64_t* positions, int64_t* owners) {
  const uint64_t *const begins = lists.begins, *const degrees = lists.degrees, *const offsets = lists.offsets;
  for (size_t i = from; i < to; ++i) {
    const size_t at = offsets[i];
    const auto begin = static_cast<int64_t>(begins[i]);
    int64_t *const p = positions + at, *const owner = owners + at;
    // Where there is room for k, so many are written even if the list has fewer: the next lists' come over
    // them, and a loop that always runs k times is one that the processor foresees.
    const size_t written = at + k <= end ? k : offsets[i + 1] - at;
    if (degrees[i] <= k) {
      for (size_t j = 0; j < written; ++j) p[j] = begin + static_cast<int64_t>(j);
    } else {
      Rng rng(lists.frontier.stream(i, lists.stream));
      choose_few(rng, degrees[i], k, begin, p);
    }
    for (size_t j = 0; j < written; ++j) owner[j] = first + static_cast<int64_t>(i);
  }
}

#if defined(__x86_64__)
#define GZ_AVX512 __attribute__((target("avx512f,avx512dq")))

constexpr size_t kLanes = 8;
// For the forms with a mask, where those without it are defined by what GCC 12 takes for an uninitialised
// variable (its bug 105593). They are compiled to the same instructions.
constexpr __mmask8 kAll = 0xff;

bool has_avx512() {
  static const bool yes = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return yes;
}

GZ_AVX512 inline __m512i load_8(const void* from, __mmask8 lanes) {
  return _mm512_maskz_loadu_epi64(lanes, from);
}

GZ_AVX512 inline __m512i all_8(uint64_t value) {
  return _mm512_set1_epi64(static_cast<int64_t>(value));
}

GZ_AVX512 inline __m512i mix64_8(__m512i z) {
  z = _mm512_mullo_epi64(_mm512_xor_epi64(z, _mm512_maskz_srli_epi64(kAll, z, 30)), all_8(kMixFirst));
  z = _mm512_mullo_epi64(_mm512_xor_epi64(z, _mm512_maskz_srli_epi64(kAll, z, 27)), all_8(kMixSecond));
  return _mm512_xor_epi64(z, _mm512_maskz_srli_epi64(kAll, z, 31));
}

GZ_AVX512 inline __m512i fold_8(__m512i key, __m512i name) {
  return mix64_8(_mm512_add_epi64(_mm512_xor_epi64(key, name), all_8(kGolden)));
}

// (x * n) >> 64, for n below 2^32.
GZ_AVX512 inline __m512i scale_8(__m512i x, __m512i n) {
  const __m512i low = _mm512_maskz_srli_epi64(kAll, _mm512_maskz_mul_epu32(kAll, x, n), 32);
  const __m512i high = _mm512_maskz_mul_epu32(kAll, _mm512_maskz_srli_epi64(kAll, x, 32), n);
  return _mm512_maskz_srli_epi64(kAll, _mm512_add_epi64(high, low), 32);
}

// Rows become columns.
GZ_AVX512 inline void transpose_8(const __m512i* in, __m512i* out) {
  __m512i pairs[kLanes], fours[kLanes];
  for (size_t i = 0; i < kLanes; i += 2) {
    pairs[i] = _mm512_maskz_unpacklo_epi64(kAll, in[i], in[i + 1]);
    pairs[i + 1] = _mm512_maskz_unpackhi_epi64(kAll, in[i], in[i + 1]);
  }
  for (size_t i = 0; i < kLanes; i += 4)
    for (size_t j = 0; j < 2; ++j) {
      fours[i + j] = _mm512_maskz_shuffle_i64x2(kAll, pairs[i + j], pairs[i + j + 2], 0x88);
      fours[i + j + 2] = _mm512_maskz_shuffle_i64x2(kAll, pairs[i + j], pairs[i + j + 2], 0xdd);
    }
  for (size_t j = 0; j < 4; ++j) {
    out[j] = _mm512_maskz_shuffle_i64x2(kAll, fours[j], fours[j + 4], 0x88);
    out[j + 4] = _mm512_maskz_shuffle_i64x2(kAll, fours[j], fours[j + 4], 0xdd);
  }
}

// The same draws as choose_few()'s, of 8 lists at a time, list by list in a lane each.
GZ_AVX512 void choose_eight_by_eight(const ListsToChooseFrom& lists, uint64_t k, size_t from, size_t to,
                                     int64_t first, int64_t* positions, int64_t* owners) {
  const size_t end = lists.offsets[to];
  const __m512i one = all_8(1), wanted = all_8(k), golden = all_8(kGolden);
  __m512i drawn[kFew + kLanes];
  for (size_t j = k; j < k + kLanes; ++j) drawn[j] = _mm512_setzero_si512();  // the last tile's unused rows
  for (size_t i = from; i < to; i += kLanes) {
    const size_t lanes = std::min(kLanes, to - i);
    const auto used = static_cast<__mmask8>((1u << lanes) - 1);
    const __m512i degrees = load_8(lists.degrees + i, used);
    if (_mm512_cmpgt_epu64_mask(degrees, all_8(UINT32_MAX))) {
      choose_one_by_one(lists, k, i, i + lanes, end, first, positions, owners);
      continue;
    }
    __m512i state = fold_8(all_8(lists.stream), load_8(lists.frontier.nodes + i, used));
    if (lists.frontier.batch) state = fold_8(state, load_8(lists.frontier.batch + i, used));
    const __mmask8 whole = _mm512_cmple_epu64_mask(degrees, wanted);
    __m512i last = _mm512_sub_epi64(degrees, wanted), place = _mm512_setzero_si512();
    for (size_t j = 0; j < k; ++j) {
      const __m512i n = _mm512_add_epi64(last, one);
      state = _mm512_add_epi64(state, golden);
      const __m512i r = _mm512_mask_mov_epi64(scale_8(mix64_8(state), n), whole, place);
      __mmask8 taken = 0;
      for (size_t before = 0; before < j; ++before) taken |= _mm512_cmpeq_epi64_mask(r, drawn[before]);
      drawn[j] = _mm512_mask_mov_epi64(r, taken, last);
      last = n;
      place = _mm512_add_epi64(place, one);
    }
    __m512i of_list[kFew];
    for (size_t tile = 0; tile < k; tile += kLanes) transpose_8(drawn + tile, of_list + tile);
    for (size_t lane = 0; lane < lanes; ++lane) {
      const size_t at = lists.offsets[i + lane], stop = lists.offsets[i + lane + 1];
      const __m512i begin = all_8(lists.begins[i + lane]);
      const __m512i owner = all_8(static_cast<uint64_t>(first) + i + lane);
      for (size_t tile = 0; tile < k; tile += kLanes) {
        const __m512i p = _mm512_add_epi64(begin, of_list[tile + lane]);
        const size_t to_place = at + tile;
        // Eight are written even if there are fewer, unless they would reach into what others write.
        if (to_place + kLanes <= end) {
          _mm512_storeu_si512(positions + to_place, p);
          _mm512_storeu_si512(owners + to_place, owner);
        } else if (to_place < stop) {
          const auto some = static_cast<__mmask8>((1u << std::min(kLanes, stop - to_place)) - 1);
          _mm512_mask_storeu_epi64(positions + to_place, some, p);
          _mm512_mask_storeu_epi64(owners + to_place, some, owner);
        }
      }
    }
  }
}
#endif

}  // namespace

void choose_few_of_each(const ListsToChooseFrom& lists, uint64_t k, size_t from, size_t to, int64_t first,
                        int64_t* positions, int64_t* owners, ChooseBy by) {
#if defined(__x86_64__)
  if (by == ChooseBy::kVector && has_avx512())
    return choose_eight_by_eight(lists, k, from, to, first, positions, owners);
#endif
  choose_one_by_one(lists, k, from, to, lists.offsets[to], first, positions, owners);
}

}  // namespace gz
