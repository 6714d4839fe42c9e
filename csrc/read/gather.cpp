// Random rows miss the cache and the TLB, so rows are prefetched some ahead, into the second-level cache: of
// 300,000 rows of 512 bytes one thread copies all in 15 ms with 16 rows on their way there, and in 19 to 22
// with 8 to 32 on their way to the first level, which tracks fewer misses than that. The output is written
// once and not read here, so it goes past the cache (streaming stores), which spares reading it first.
// Streaming pays only with 32-byte stores: with 16-byte ones it was slower than memcpy on the machine we
// measured (27, 18 and 15 ms for 300,000 rows of 512 bytes: 16-byte streaming, memcpy, 32-byte streaming; 2
// threads).
#include "read/gather.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/threads.h"
#include "read/check.h"

namespace gz {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLinesAhead = 128;       // cache lines in flight per thread
constexpr int kToSecondLevel = 2;         // where they go: the first level keeps track of too few misses
constexpr size_t kStreamFrom = 1 << 20;   // smaller outputs are wanted in the cache
constexpr size_t kStreamUnit = 32;        // bytes of one streaming store
constexpr size_t kStageBytes = 16 << 10;  // half of the smallest first-level cache there is
constexpr size_t kIdsAtOnce = 1024;

void prefetch_row(const char* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, kToSecondLevel);
}

#if defined(__x86_64__)
bool can_stream() {
  static const bool yes = __builtin_cpu_supports("avx2");
  return yes;
}
// `to` and `bytes` are multiples of kStreamUnit.
__attribute__((target("avx2"))) void stream(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kStreamUnit)
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at)));
}
void finish_streaming() {
  _mm_sfence();
}
#else
bool can_stream() {
  return false;
}
void stream(char* to, const char* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
void finish_streaming() {}
#endif

struct Rows {
  const char* data;
  size_t bytes;  // of one
  const int64_t* ids;
  char* out;

  const char* row(size_t i) const { return data + static_cast<size_t>(ids[i]) * bytes; }
};

size_t rows_ahead(size_t bytes) {
  return std::clamp<size_t>(kLinesAhead * kLine / bytes, 2, 32);
}

// Calls copy(to, from) for output rows [begin, end), with the rows ahead on their way.
template <class Copy>
void copy_rows(const Rows r, size_t begin, size_t end, Copy&& copy) {
  const size_t ahead = rows_ahead(r.bytes);
  for (size_t i = begin; i < std::min(end, begin + ahead); ++i) prefetch_row(r.row(i), r.bytes);
  for (size_t i = begin; i < end; ++i) {
    if (i + ahead < end) prefetch_row(r.row(i + ahead), r.bytes);
    copy(r.out + i * r.bytes, r.row(i));
  }
}

// memcpy of a size the compiler knows: scalars and short rows without a call each.
template <size_t kBytes>
void copy_fixed(const Rows r, size_t begin, size_t end) {
  copy_rows(r, begin, end, [](char* to, const char* from) { std::memcpy(to, from, kBytes); });
}

void copy_plain(const Rows r, size_t begin, size_t end) {
  switch (r.bytes) {
    case 1:
      return copy_fixed<1>(r, begin, end);
    case 2:
      return copy_fixed<2>(r, begin, end);
    case 4:
      return copy_fixed<4>(r, begin, end);
    case 8:
      return copy_fixed<8>(r, begin, end);
    default:
      copy_rows(r, begin, end, [&](char* to, const char* from) { std::memcpy(to, from, r.bytes); });
  }
}

#if defined(__x86_64__)
// Rows that are multiples of kStreamUnit, to an output that is aligned to it. kBytes is the size of a row
// where the compiler knows it, else 0: what is unrolled leaves the processor room to look further ahead,
// which is worth a third of the time. The loop is written out here because only this function may use AVX2.
template <size_t kBytes, bool kShifted>
__attribute__((target("avx2"))) void copy_streamed_rows(const Rows r, size_t begin, size_t end) {
  const size_t bytes = kBytes ? kBytes : r.bytes;
  const size_t ahead = rows_ahead(bytes);
  const char* const rows = r.data;
  const int64_t* const ids = r.ids;
  char* out = r.out + begin * bytes;
  for (size_t i = begin; i < std::min(end, begin + ahead); ++i)
    prefetch_row(rows + static_cast<size_t>(ids[i]) * bytes, bytes);
  for (size_t i = begin; i < end; ++i, out += bytes) {
    if (i + ahead < end) {
      const char* const next = rows + static_cast<size_t>(ids[i + ahead]) * bytes;
#pragma GCC unroll 16
      for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(next + at, 0, kToSecondLevel);
    }
    const char* const row = rows + static_cast<size_t>(ids[i]) * bytes;
    constexpr size_t kHalf = kStreamUnit / 2;
    const auto half = [&](size_t at) __attribute__((target("avx2"))) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + at),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + at)));
    };
    if (kShifted) half(0);
#pragma GCC unroll 32
    for (size_t at = kShifted ? kHalf : 0; at + kStreamUnit <= bytes; at += kStreamUnit)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + at),
                          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + at)));
    if (kShifted) half(bytes - kHalf);
  }
  finish_streaming();
}

template <bool kShifted>
void copy_streamed_as(const Rows r, size_t begin, size_t end) {
  switch (r.bytes) {
    case 128:
      return copy_streamed_rows<128, kShifted>(r, begin, end);
    case 256:
      return copy_streamed_rows<256, kShifted>(r, begin, end);
    case 512:
      return copy_streamed_rows<512, kShifted>(r, begin, end);
    case 1024:
      return copy_streamed_rows<1024, kShifted>(r, begin, end);
    default:
      copy_streamed_rows<0, kShifted>(r, begin, end);
  }
}

void copy_streamed(const Rows r, size_t begin, size_t end) {
  if (reinterpret_cast<uintptr_t>(r.out) % kStreamUnit == 0)
    copy_streamed_as<false>(r, begin, end);
  else
    copy_streamed_as<true>(r, begin, end);
}
#else
void copy_streamed(const Rows, size_t, size_t) {}  // not reached: can_stream() says no
#endif

// Any row size and any alignment of the output: rows are put together in the first-level cache, where they
// lie relative to a multiple of kStreamUnit as they will in the output, and streamed from there.
void copy_staged(const Rows r, size_t begin, size_t end) {
  alignas(kStreamUnit) char stage[kStageBytes];
  char* to = r.out + begin * r.bytes;  // where the stage goes
  size_t from = reinterpret_cast<uintptr_t>(to) % kStreamUnit,
         filled = from;  // [from, filled) is not yet out
  const auto flush = [&](size_t until) {
    const size_t body = std::min(until, (from + kStreamUnit - 1) / kStreamUnit * kStreamUnit);
    std::memcpy(to, stage + from, body - from);
    stream(to + (body - from), stage + body, (until - body) / kStreamUnit * kStreamUnit);
    const size_t rest = (until - body) % kStreamUnit;
    to += until - rest - from;
    std::memcpy(stage, stage + until - rest, rest);
    from = 0;
    filled = rest;
  };
  copy_rows(r, begin, end, [&](char*, const char* row) {
    if (filled + r.bytes > kStageBytes) flush(filled);
    std::memcpy(stage + filled, row, r.bytes);
    filled += r.bytes;
  });
  flush(filled);
  std::memcpy(to, stage, filled);
  finish_streaming();
}

// Calls copy(ids, begin, count) for pieces of the ids, checked and out of reach of the caller's other
// threads.
template <class Copy>
void for_ids(const int64_t* ids, size_t count, uint64_t num_rows, size_t row_bytes, Copy&& copy) {
  parallel_for(count, std::max<size_t>(64, (size_t{256} << 10) / row_bytes), [&](size_t begin, size_t end) {
    int64_t taken[kIdsAtOnce];
    for (; begin < end; begin += kIdsAtOnce) {
      const size_t n = std::min(kIdsAtOnce, end - begin);
      std::memcpy(taken, ids + begin, n * sizeof(int64_t));
      bool wrong = false;
      for (size_t i = 0; i < n; ++i) wrong |= static_cast<uint64_t>(taken[i]) >= num_rows;
      for (size_t i = 0; i < n && wrong; ++i)
        if (static_cast<uint64_t>(taken[i]) >= num_rows) bad_id(taken[i], begin + i, num_rows, "row");
      copy(taken, begin, n);
    }
  });
}

}  // namespace

void gather(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
            void* out) {
  check_ids(ids, count, num_rows, "row");
  const size_t bytes = count * row_bytes;
  if (!overlap(out, bytes, rows, num_rows * row_bytes))
    return gather_checked(rows, num_rows, row_bytes, ids, count, out);
  const PooledArray<char> apart(bytes);
  gather_checked(rows, num_rows, row_bytes, ids, count, apart.data());
  std::memcpy(out, apart.data(), bytes);
}

void gather_checked(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
                    void* out) {
  if (count == 0 || row_bytes == 0) return;
  if (overlap(out, count * row_bytes, ids, count * sizeof(int64_t))) {
    const PooledArray<int64_t> own = checked_copy(ids, count, num_rows, "row");
    return gather_checked(rows, num_rows, row_bytes, own.data(), count, out);
  }
  const bool streamed = can_stream() && row_bytes >= kStreamUnit && row_bytes <= kStageBytes / 4 &&
                        count * row_bytes >= kStreamFrom;
  const bool aligned =
      row_bytes % kStreamUnit == 0 && reinterpret_cast<uintptr_t>(out) % (kStreamUnit / 2) == 0;
  for_ids(ids, count, num_rows, row_bytes, [&](const int64_t* taken, size_t begin, size_t n) {
    const Rows r{static_cast<const char*>(rows), row_bytes, taken,
                 static_cast<char*>(out) + begin * row_bytes};
    if (!streamed)
      copy_plain(r, 0, n);
    else if (aligned)
      copy_streamed(r, 0, n);
    else
      copy_staged(r, 0, n);
  });
}

void gather_decoded(const void* rows, uint64_t num_rows, const RowFormat& format, const int64_t* ids,
                    size_t count, void* out) {
  if (count == 0 || format.shown_bytes == 0) return;
  if (overlap(out, count * format.shown_bytes, ids, count * sizeof(int64_t))) {
    const PooledArray<int64_t> own = checked_copy(ids, count, num_rows, "row");
    return gather_decoded(rows, num_rows, format, own.data(), count, out);
  }
  const bool streamed = can_stream() && count * format.shown_bytes >= kStreamFrom &&
                        format.shown_bytes % kStreamUnit == 0 &&
                        reinterpret_cast<uintptr_t>(out) % kStreamUnit == 0;
  const DecodeRows decode = row_decoder(format, streamed ? DecodeBy::kStreams : DecodeBy::kVector);
  for_ids(ids, count, num_rows, format.shown_bytes, [&](const int64_t* taken, size_t begin, size_t n) {
    const char* at[kIdsAtOnce];
    for (size_t i = 0; i < n; ++i)
      at[i] = static_cast<const char*>(rows) + static_cast<size_t>(taken[i]) * format.stored_bytes;
    decode(at, n, format.values, static_cast<char*>(out) + begin * format.shown_bytes);
  });
}

}  // namespace gz
