// A radix sort, least digit first: by the digits of the neighbour, then by the node. Every pass is a stable
// counting sort and costs about 2 ns a record, whatever the lengths of the lists; comparing, list by list,
// costs three times that for a list of a hundred.
#include "build/sorted_lists.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "memory/pool.h"

namespace gz {
namespace {

constexpr unsigned kDigitBits = 12;  // counters of a pass fit the first-level cache
constexpr size_t kMostRecords = size_t{1} << 21;
constexpr size_t kLeastRecords = size_t{1} << 12;  // below it the counters cost more than the records
constexpr uint64_t kMostNodes = uint64_t{1} << 17;

// node << 32 | neighbour; nodes are counted from the bucket's first.
using Record = uint64_t;
uint32_t neighbour_of(Record r) {
  return static_cast<uint32_t>(r);
}

uint64_t width_of(const BucketJob& job) {
  return job.nodes_end - job.nodes_begin;
}

// Counters become the places where each digit's records begin.
void to_starts(uint32_t* counts, size_t n) {
  uint32_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += std::exchange(counts[i], sum);
}

}  // namespace

bool can_sort_lists(const BucketJob& job) {
  const uint64_t count = job.count();
  return !job.by_other && count >= kLeastRecords && count <= kMostRecords && width_of(job) <= kMostNodes &&
         job.edges->max_other() <= UINT32_MAX;
}

uint64_t sort_lists_memory(uint64_t count) {
  return std::min<uint64_t>(count, kMostRecords) * 2 * sizeof(Record);
}

template <class Id>
void sort_lists(const BucketJob& job, BucketResult& out) {
  const size_t nodes = width_of(job);
  const unsigned bits = std::max(1, static_cast<int>(std::bit_width(job.edges->max_other())));
  const unsigned passes = (bits + kDigitBits - 1) / kDigitBits, digit_bits = (bits + passes - 1) / passes;
  const size_t radix = size_t{1} << digit_bits;
  const uint64_t digit = radix - 1;
  std::vector<uint32_t> counts(passes * radix, 0), at(nodes, 0);
  PooledArray<Record> from(out.count), to(out.count);
  {
    const uint64_t base = job.key_base - job.nodes_begin;
    Record* next = from.data();
    job.edges->read(job.bucket, job.shift, job.read_step, [&](const Segment& s) {
      for (size_t i = 0; i < s.count; ++i) {
        const uint64_t node = s.key(i) + base, other = s.other(i);
        *next++ = node << 32 | other;
        ++at[node];
        for (unsigned p = 0; p < passes; ++p) ++counts[p * radix + (other >> (p * digit_bits) & digit)];
      }
    });
  }
  for (unsigned p = 0; p < passes; ++p) {
    uint32_t* const start = counts.data() + p * radix;
    const unsigned shift = p * digit_bits;
    to_starts(start, radix);
    Record* const target = to.data();
    for (const Record r : from) target[start[neighbour_of(r) >> shift & digit]++] = r;
    std::swap(from, to);
  }
  out.degrees.assign(at.begin(), at.end());
  to_starts(at.data(), nodes);
  Id* const ids = out.indices.as<Id>();
  for (const Record r : from) ids[at[r >> 32]++] = neighbour_of(r);
}

template void sort_lists<uint32_t>(const BucketJob& job, BucketResult& out);
template void sort_lists<uint64_t>(const BucketJob& job, BucketResult& out);

}  // namespace gz
