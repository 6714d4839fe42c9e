// Copies chosen rows of a column, in parallel, into one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "file/encoding.h"

namespace gz {

// rows: [num_rows, row_bytes], row-major. ids: all below num_rows, else std::out_of_range and nothing is
// written. `out` is [count, row_bytes]; it may lie over ids or rows.
void gather(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
            void* out);

// For ids that were looked at before and an `out` apart from the rows. An id is compared again when it is
// used, so that one that changed since ends the call and is never followed.
void gather_checked(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
                    void* out);

// The same for rows that are decoded on their way. `out` is [count, format.shown_bytes].
void gather_decoded(const void* rows, uint64_t num_rows, const RowFormat& format, const int64_t* ids,
                    size_t count, void* out);

}  // namespace gz
