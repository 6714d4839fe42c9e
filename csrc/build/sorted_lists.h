// The lists of a bucket of plain edges, all of them sorted at once.
#pragma once

#include <cstdint>

#include "build/bucket.h"

namespace gz {

// Whether sorted_lists() does this bucket: its records and ids are neither too many, nor too large.
bool can_sort_lists(const BucketJob& job);
// What it takes besides the result.
uint64_t sort_lists_memory(uint64_t count);
// Fills degrees and indices, whose size is that of `count` ids of the type Id.
template <class Id>
void sort_lists(const BucketJob& job, BucketResult& out);

}  // namespace gz
