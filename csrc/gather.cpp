// Random rows miss the cache and the TLB, so rows are prefetched a few ahead; the output is written once and
// not read here, so it goes past the cache (streaming stores), which spares reading it first.
#include "gather.h"

#include <algorithm>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "check.h"
#include "threads.h"

namespace gz {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kLinesAhead = 64;       // cache lines in flight per thread
constexpr size_t kStreamFrom = 1 << 20;  // smaller outputs are wanted in the cache

void prefetch_row(const char* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, 0);
}

#if defined(__SSE2__)
// Both `to` and `bytes` are multiples of 16.
void stream_copy(char* to, const char* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
}
void finish_streaming() {
  _mm_sfence();
}
constexpr bool kCanStream = true;
#else
void stream_copy(char* to, const char* from, size_t bytes) {
  std::memcpy(to, from, bytes);
}
void finish_streaming() {}
constexpr bool kCanStream = false;
#endif

template <class Copy>
void copy_rows(const char* rows, size_t row_bytes, const int64_t* ids, size_t begin, size_t end, char* out,
               Copy&& copy) {
  const size_t ahead = std::clamp<size_t>(kLinesAhead * kLine / std::max<size_t>(row_bytes, 1), 2, 32);
  for (size_t i = begin; i < std::min(end, begin + ahead); ++i)
    prefetch_row(rows + static_cast<size_t>(ids[i]) * row_bytes, row_bytes);
  for (size_t i = begin; i < end; ++i) {
    if (i + ahead < end) prefetch_row(rows + static_cast<size_t>(ids[i + ahead]) * row_bytes, row_bytes);
    copy(out + i * row_bytes, rows + static_cast<size_t>(ids[i]) * row_bytes);
  }
}

// memcpy of a size the compiler knows: scalars and short rows without a call each.
template <size_t kBytes>
void copy_fixed(const char* rows, const int64_t* ids, size_t begin, size_t end, char* out) {
  copy_rows(rows, kBytes, ids, begin, end, out,
            [](char* to, const char* from) { std::memcpy(to, from, kBytes); });
}

}  // namespace

void gather(const void* rows_in, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
            void* out_void) {
  check_ids(ids, count, num_rows, "row");
  if (count == 0 || row_bytes == 0) return;
  const auto* rows = static_cast<const char*>(rows_in);
  auto* out = static_cast<char*>(out_void);
  const bool stream = kCanStream && row_bytes % 16 == 0 && reinterpret_cast<uintptr_t>(out) % 16 == 0 &&
                      row_bytes >= kLine && count * row_bytes >= kStreamFrom;
  const size_t grain = std::max<size_t>(64, (size_t{256} << 10) / row_bytes);
  parallel_for(count, grain, [&](size_t begin, size_t end) {
    if (stream) {
      copy_rows(rows, row_bytes, ids, begin, end, out,
                [&](char* to, const char* from) { stream_copy(to, from, row_bytes); });
      finish_streaming();
      return;
    }
    switch (row_bytes) {
      case 1:
        return copy_fixed<1>(rows, ids, begin, end, out);
      case 2:
        return copy_fixed<2>(rows, ids, begin, end, out);
      case 4:
        return copy_fixed<4>(rows, ids, begin, end, out);
      case 8:
        return copy_fixed<8>(rows, ids, begin, end, out);
      default:
        copy_rows(rows, row_bytes, ids, begin, end, out,
                  [&](char* to, const char* from) { std::memcpy(to, from, row_bytes); });
    }
  });
}

}  // namespace gz
