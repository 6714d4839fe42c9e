#include "file/encoding.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <mutex>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kScaleBytes = sizeof(float);
constexpr size_t kGrainBytes = 256 << 10;
constexpr size_t kRowsAtOnce = 256;
constexpr size_t kLine = 64, kBytesAhead = 128 * kLine;  // as read/gather.cpp, which says why
constexpr int kToSecondLevel = 2;
constexpr int kMost = 127;

template <class T>
T load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// As processors convert it: a NaN keeps what it says and becomes a quiet one.
float from_half(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31, mantissa = half & 0x3ff;
  const uint32_t small = std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1.0p-24f);
  const uint32_t large = 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0);
  const uint32_t normal = (exponent + 112) << 23 | mantissa << 13;
  return std::bit_cast<float>(sign | (exponent == 0 ? small : exponent == 31 ? large : normal));
}

#if defined(__x86_64__)
#define GZ_AVX2 __attribute__((target("avx2,f16c")))

bool has_avx2() {
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return yes;
}

GZ_AVX2 inline __m128i load_128(const char* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
#endif

// ---- a row: its i-th value, or eight from that on ----

struct Halves {
  explicit Halves(const char* row_) : row(row_) {}
  static size_t bytes(size_t values) { return 2 * values; }
  float one(size_t i) const { return from_half(load<uint16_t>(row + 2 * i)); }
#if defined(__x86_64__)
  GZ_AVX2 __m256 eight(size_t i) const { return _mm256_cvtph_ps(load_128(row + 2 * i)); }
#endif
  const char* row;
};

struct BFloats {
  explicit BFloats(const char* row_) : row(row_) {}
  static size_t bytes(size_t values) { return 2 * values; }
  float one(size_t i) const {
    return std::bit_cast<float>(static_cast<uint32_t>(load<uint16_t>(row + 2 * i)) << 16);
  }
#if defined(__x86_64__)
  GZ_AVX2 __m256 eight(size_t i) const {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(row + 2 * i)), 16));
  }
#endif
  const char* row;
};

struct ScaledBytes {
  explicit ScaledBytes(const char* row_) : scale(load<float>(row_)), row(row_ + kScaleBytes) {}
  static size_t bytes(size_t values) { return kScaleBytes + values; }
  float one(size_t i) const { return scale * static_cast<float>(static_cast<int8_t>(row[i])); }
#if defined(__x86_64__)
  GZ_AVX2 __m256 eight(size_t i) const {
    const __m128i stored = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + i));
    return _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(stored)));
  }
#endif
  float scale;
  const char* row;
};

// ---- many rows, with those ahead on their way ----

size_t rows_ahead(size_t bytes) {
  return std::clamp<size_t>(kBytesAhead / std::max<size_t>(1, bytes), 2, 32);
}

void fetch(const char* row, size_t bytes) {
  for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(row + at, 0, kToSecondLevel);
}

template <class Row>
void decode_by_1(const char* const* rows, size_t count, size_t values, char* out) {
  const size_t bytes = Row::bytes(values), ahead = rows_ahead(bytes);
  for (size_t i = 0; i < std::min(count, ahead); ++i) fetch(rows[i], bytes);
  for (size_t i = 0; i < count; ++i) {
    if (i + ahead < count) fetch(rows[i + ahead], bytes);
    const Row row(rows[i]);
    for (size_t v = 0; v < values; ++v, out += sizeof(float)) {
      const float value = row.one(v);
      std::memcpy(out, &value, sizeof value);
    }
  }
}

#if defined(__x86_64__)
// kValues: of a row, where the compiler knows it: what is unrolled leaves the processor room to look ahead.
template <class Row, bool kStreams, size_t kValues>
GZ_AVX2 void decode_by_8(const char* const* rows, size_t count, size_t given, char* out) {
  const size_t values = kValues ? kValues : given;
  const size_t bytes = Row::bytes(values), ahead = rows_ahead(bytes);
  for (size_t i = 0; i < std::min(count, ahead); ++i) fetch(rows[i], bytes);
  for (size_t i = 0; i < count; ++i, out += values * sizeof(float)) {
    if (i + ahead < count) {
      const char* const next = rows[i + ahead];
#pragma GCC unroll 8
      for (size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(next + at, 0, kToSecondLevel);
    }
    const Row row(rows[i]);
    size_t v = 0;
#pragma GCC unroll 16
    for (; v + 8 <= values; v += 8) {
      auto* const to = reinterpret_cast<float*>(out + v * sizeof(float));
      if (kStreams)
        _mm256_stream_ps(to, row.eight(v));
      else
        _mm256_storeu_ps(to, row.eight(v));
    }
    if constexpr (kValues == 0) {  // else there is no rest
      for (; v < values; ++v) {
        const float value = row.one(v);
        std::memcpy(out + v * sizeof(float), &value, sizeof value);
      }
    }
  }
  if (kStreams) _mm_sfence();
}

template <class Row, bool kStreams>
DecodeRows by_8(size_t values) {
  switch (values) {
    case 64:
      return decode_by_8<Row, kStreams, 64>;
    case 128:
      return decode_by_8<Row, kStreams, 128>;
    case 256:
      return decode_by_8<Row, kStreams, 256>;
    default:
      return decode_by_8<Row, kStreams, 0>;
  }
}
#endif

template <class Row>
DecodeRows decoder_of(size_t values, DecodeBy by) {
#if defined(__x86_64__)
  if (by == DecodeBy::kStreams && has_avx2()) return by_8<Row, true>(values);
  if (by == DecodeBy::kVector && has_avx2()) return by_8<Row, false>(values);
#else
  (void)values, (void)by;
#endif
  return decode_by_1<Row>;
}

// ---- rows of whole numbers, most of which are a label or a time: single ones ----

template <class T>
void widen(const char* const* rows, size_t count, size_t values, char* out) {
  const size_t bytes = values * sizeof(T), ahead = rows_ahead(bytes);
  for (size_t i = 0; i < std::min(count, ahead); ++i) fetch(rows[i], bytes);
  for (size_t i = 0; i < count; ++i, out += values * sizeof(int64_t)) {
    if (i + ahead < count) fetch(rows[i + ahead], bytes);
    for (size_t v = 0; v < values; ++v) {
      const int64_t value = load<T>(rows[i] + v * sizeof(T));
      std::memcpy(out + v * sizeof value, &value, sizeof value);
    }
  }
}

DecodeRows widener_of(DType stored) {
  switch (stored) {
    case DType::kUInt8:
      return widen<uint8_t>;
    case DType::kInt8:
      return widen<int8_t>;
    case DType::kInt16:
      return widen<int16_t>;
    default:
      return widen<int32_t>;
  }
}

// ---- one row of int8 ----

float scale_of(const float* row, size_t values, float largest) {
  if (largest <= kMost && std::all_of(row, row + values, [](float v) { return v == std::trunc(v); }))
    return largest == 0 ? 0 : 1;
  const float scale = std::max(largest / kMost, FLT_MIN);  // a smaller one would be no number, or be flushed
  return std::isinf(scale * kMost) ? std::nextafter(scale, 0.0f) : scale;
}

// False where the row holds what is not finite.
bool encode_row(const float* row, size_t values, char* out, EncodedRows& found) {
  float largest = 0;
  bool finite = true;
  for (size_t i = 0; i < values; ++i) {
    finite &= std::isfinite(row[i]);
    largest = std::max(largest, std::abs(row[i]));
  }
  if (!finite) return false;
  const float scale = scale_of(row, values, largest);
  std::memcpy(out, &scale, kScaleBytes);
  const double steps = scale == 0 ? 0 : 1 / static_cast<double>(scale);
  for (size_t i = 0; i < values; ++i) {
    const int step = static_cast<int>(std::lrint(static_cast<double>(row[i]) * steps));
    const auto stored = static_cast<int8_t>(std::clamp(step, -kMost, kMost));
    out[kScaleBytes + i] = static_cast<char>(stored);
    found.nonzero += row[i] != 0;
    found.vanished += row[i] != 0 && stored == 0;
  }
  return true;
}

}  // namespace

RowFormat::RowFormat(DType stored_, DType shown_, size_t values_)
    : stored(stored_), shown(shown_ == DType::kNone ? stored_ : shown_), values(values_) {
  stored_bytes = values * dtype_bytes(stored);
  shown_bytes = values * dtype_bytes(shown);
  if (scaled()) stored_bytes += kScaleBytes;
}

bool known_encoding(DType stored, DType shown) {
  using enum DType;
  if (shown == kNone) return true;
  if (shown == kFloat32) return stored == kFloat16 || stored == kBFloat16 || stored == kInt8;
  return shown == kInt64 && (stored == kUInt8 || stored == kInt8 || stored == kInt16 || stored == kInt32);
}

DecodeRows row_decoder(const RowFormat& format, DecodeBy by) {
  if (format.shown == DType::kInt64) return widener_of(format.stored);
  if (format.stored == DType::kFloat16) return decoder_of<Halves>(format.values, by);
  if (format.stored == DType::kBFloat16) return decoder_of<BFloats>(format.values, by);
  return decoder_of<ScaledBytes>(format.values, by);
}

void decode_rows(const RowFormat& format, const char* rows, size_t count, char* out, DecodeBy by) {
  if (format.shown_bytes == 0) return;
  const DecodeRows decode = row_decoder(format, by);
  parallel_for(count, std::max<size_t>(16, kGrainBytes / format.shown_bytes), [&](size_t begin, size_t end) {
    const char* at[kRowsAtOnce];
    for (; begin < end; begin += kRowsAtOnce) {
      const size_t n = std::min(kRowsAtOnce, end - begin);
      for (size_t i = 0; i < n; ++i) at[i] = rows + (begin + i) * format.stored_bytes;
      decode(at, n, format.values, out + begin * format.shown_bytes);
    }
  });
}

EncodedRows encode_int8(const float* rows, size_t count, size_t values, char* out) {
  EncodedRows total;
  std::mutex mutex;
  parallel_for(count, std::max<size_t>(16, kGrainBytes / (values + 1)), [&](size_t begin, size_t end) {
    EncodedRows mine;
    for (size_t i = begin; i < end && mine.wrong == UINT64_MAX; ++i)
      if (!encode_row(rows + i * values, values, out + i * (kScaleBytes + values), mine)) mine.wrong = i;
    std::lock_guard lock(mutex);
    total.wrong = std::min(total.wrong, mine.wrong);
    total.nonzero += mine.nonzero;
    total.vanished += mine.vanished;
  });
  return total;
}

}  // namespace gz
