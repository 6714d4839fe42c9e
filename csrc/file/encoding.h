// Rows that are stored smaller than they are read: float16, bfloat16 and int8, read as float32; and whole
// numbers of up to 32 bits, read as int64.
//
// A row of float16, bfloat16 or whole numbers is its values. One of int8 that is read as float32 is a
// float32, its scale, and then its values; a value is read as the scale times the stored integer. A row has a
// scale of its own, so that it can be written as it comes, and one that is far larger than the others costs
// only itself its precision; it lies with the row, so that one read brings both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "file/format.h"

namespace gz {

// How a row lies in the file and what comes of it.
struct RowFormat {
  // shown: kNone where rows are read as they are stored.
  RowFormat(DType stored, DType shown, size_t values);

  bool plain() const { return shown == stored; }
  bool scaled() const { return stored == DType::kInt8 && shown == DType::kFloat32; }

  DType stored, shown;
  size_t values;  // of a row
  size_t stored_bytes, shown_bytes;
};

bool known_encoding(DType stored, DType shown);

// Which code decodes: plain C++, what the processor has, or that with stores that go past its cache, for an
// output that lies on a multiple of 32 bytes with rows that are multiples of it. All give the same bits.
enum class DecodeBy { kScalar, kVector, kStreams };

// Rows from anywhere, to an output in which they lie one after the other.
using DecodeRows = void (*)(const char* const* rows, size_t count, size_t values, char* out);
DecodeRows row_decoder(const RowFormat& format, DecodeBy by);

// Rows that lie one after the other, in parallel. `out` is apart from them.
void decode_rows(const RowFormat& format, const char* rows, size_t count, char* out,
                 DecodeBy by = DecodeBy::kVector);

struct EncodedRows {
  uint64_t wrong = UINT64_MAX;  // the first row that holds what is not finite: nothing stands for it
  uint64_t nonzero = 0;         // values that are not 0
  uint64_t vanished = 0;        // of these, values that are read as 0
};
// float32 rows as int8 with a scale, in parallel: each value becomes the nearest of 255 steps, of which the
// outermost are the row's largest and its negative. Rows of whole numbers up to 127 are kept as they are.
EncodedRows encode_int8(const float* rows, size_t count, size_t values, char* out);

}  // namespace gz
