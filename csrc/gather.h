// Copies chosen rows of a column, in parallel, into one block of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gz {

// rows: [num_rows, row_bytes], row-major. ids: all below num_rows, else std::out_of_range and nothing is
// written. `out` is [count, row_bytes]; it must not overlap rows or ids.
void gather(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
            void* out);

}  // namespace gz
