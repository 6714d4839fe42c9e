#include "pick/pick.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/threads.h"
#include "memory/memory.h"
#include "pick/scan.h"
#include "pick/scan_fetch.h"
#include "pick/subset.h"

namespace gz {
namespace {

constexpr size_t kChunk = 512;  // frontier nodes per task
constexpr size_t kAhead = 64;   // how far ahead indptr is prefetched
constexpr size_t kLag = 64;     // picks between the prefetch of a neighbour and its use
constexpr const char* kWhat = "sampling these neighbours";

// Second half of every pick: positions are there, fetch the neighbours many at a time.
template <class Id>
void read_neighbours(const Topology& t, const Id* indices, const int64_t* positions, int64_t* neighbours,
                     size_t n) {
  const auto read = [&](size_t j) {
    const auto v = static_cast<uint64_t>(indices[positions[j]]);
    if (v >= t.num_other) [[unlikely]]
      t.damaged_index(static_cast<uint64_t>(positions[j]));
    neighbours[j] = static_cast<int64_t>(v);
  };
  const size_t lag = std::min(n, kLag);
  for (size_t j = 0; j < lag; ++j) __builtin_prefetch(indices + positions[j]);
  size_t j = 0;
  for (; j + lag < n; ++j) {
    __builtin_prefetch(indices + positions[j + lag]);
    read(j);
  }
  for (; j < n; ++j) read(j);
}

size_t take_count(uint64_t degree, const PickOptions& o) {
  if (degree == 0) return 0;
  if (o.fanout < 0) return degree;
  const auto k = static_cast<uint64_t>(o.fanout);
  return o.replace ? k : std::min(degree, k);
}

struct Outputs {
  PooledArray<int64_t>& positions;
  PooledArray<int64_t>& neighbours;
  PooledArray<int64_t>& owners;

  size_t grow(size_t by, const PickOptions& o) const {
    const size_t base = positions.size();
    if (by > o.most)
      throw std::length_error("a hop of " + std::to_string(by) + " edges, where " + std::to_string(o.most) +
                              " are possible; use smaller batches or fanouts");
    require_memory(by > UINT64_MAX - base ? UINT64_MAX : base + by, 3 * sizeof(int64_t), kWhat);
    for (PooledArray<int64_t>* array : {&positions, &neighbours, &owners})
      array->resize(base + by, by * o.room);
    return base;
  }
};

// Turns counts into offsets in place; returns the sum.
size_t to_offsets(PooledArray<uint64_t>& counts) {
  size_t total = 0;
  for (uint64_t& c : counts) {
    const uint64_t n = c;
    c = total;
    if (__builtin_add_overflow(total, n, &total)) return SIZE_MAX;
  }
  return total;
}

// The lists of a frontier and how many of each are taken.
struct Lists {
  PooledArray<uint64_t> begins, degrees, offsets;  // offsets: of the picks, one more than nodes

  explicit Lists(size_t size) : begins(size), degrees(size), offsets(size + 1) {}
};

// First half: draws the positions for nodes [from, to), and writes down whose they are. `positions` and
// `owners` begin where those of the whole frontier do.
void draw_positions(const Lists& lists, const Frontier& f, int64_t first, const PickOptions& o, size_t from,
                    size_t to, int64_t* positions, int64_t* owners) {
  const uint64_t *const begins = lists.begins.data(), *const degrees = lists.degrees.data(),
                        *const offsets = lists.offsets.data();
  if (!o.replace && o.fanout > 0 && o.fanout <= static_cast<int64_t>(kFew))
    return choose_few_of_each({begins, degrees, offsets, f, o.stream}, static_cast<uint64_t>(o.fanout), from,
                              to, first, positions, owners);
  for (size_t i = from; i < to; ++i) {
    const size_t at = offsets[i], count = offsets[i + 1] - at;
    const uint64_t degree = degrees[i];
    const auto begin = static_cast<int64_t>(begins[i]);
    int64_t* const p = positions + at;
    if (o.fanout < 0 || (!o.replace && degree <= static_cast<uint64_t>(o.fanout))) {
      for (size_t j = 0; j < count; ++j) p[j] = begin + static_cast<int64_t>(j);
    } else {
      Rng rng(f.stream(i, o.stream));
      if (o.replace)
        choose_with_replacement(rng, degree, count, begin, p);
      else
        choose_without_replacement(rng, degree, count, begin, p);
    }
    std::fill_n(owners + at, count, first + static_cast<int64_t>(i));
  }
}

Lists find_lists(const Topology& t, const Frontier& f, const PickOptions& o) {
  Lists lists(f.size);
  t.fetch_starts(f.nodes, f.size);
  uint64_t *const begins = lists.begins.data(), *const degrees = lists.degrees.data(),
                  *const offsets = lists.offsets.data();
  parallel_for(f.size, kChunk * 4, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (i + kAhead < to) t.prefetch_start(static_cast<uint64_t>(f.nodes[i + kAhead]));
      const auto range = t.edges_of(static_cast<uint64_t>(f.nodes[i]));
      begins[i] = range.begin;
      degrees[i] = range.size();
      offsets[i] = take_count(range.size(), o);
    }
  });
  offsets[f.size] = 0;
  offsets[f.size] = to_offsets(lists.offsets);
  return lists;
}

// Chunk by chunk, positions are drawn and then the neighbours there are read. Each by itself runs faster than
// both in one loop: reads of a tight loop wait side by side, and a draw that was guessed wrong would stop
// them.
void pick_uniform(const Topology& t, const Frontier& f, int64_t first, const PickOptions& o,
                  const Outputs& out) {
  const Lists lists = find_lists(t, f, o);
  const size_t count = lists.offsets[f.size], base = out.grow(count, o);
  int64_t *const positions = out.positions.data() + base, *const owners = out.owners.data() + base,
                 *const neighbours = out.neighbours.data() + base;

  // Lists that are not in memory are fetched all together, once it is known which parts of them are wanted.
  const bool fetched = t.cold(f.size, [&](size_t i) { return t.indices.address(lists.begins[i]); });

  with_width(t.indices, [&](const auto* indices) {
    parallel_for(f.size, kChunk, [&](size_t from, size_t to) {
      draw_positions(lists, f, first, o, from, to, positions, owners);
      const size_t begin = lists.offsets[from], end = lists.offsets[to];
      if (!fetched) read_neighbours(t, indices, positions + begin, neighbours + begin, end - begin);
    });
    if (!fetched) {
      if (t.held) t.held->read(count);
      return;
    }
    t.fetch(count, [&](size_t i) { return indices + positions[i]; }, sizeof *indices);
    parallel_for(count, kChunk * 8, [&](size_t from, size_t to) {
      read_neighbours(t, indices, positions + from, neighbours + from, to - from);
    });
  });
}

void pick_scanning(const Topology& t, const EdgeColumns& columns, const Frontier& f, int64_t first,
                   const PickOptions& o, const Outputs& out) {
  constexpr size_t kScanChunk = 64;
  const size_t chunks = (f.size + kScanChunk - 1) / kScanChunk;
  std::vector<std::vector<int64_t>> picked(chunks);
  PooledArray<uint64_t> counts(f.size);
  MemoryClaim claim(kWhat);
  const ScanRequest request{t, columns, f, o, claim, counts.data()};
  ScanFetch fetch(request);
  for (size_t first_node = 0, end; first_node < f.size; first_node = end) {
    end = fetch.bring_in(first_node, kScanChunk);
    const size_t first_chunk = first_node / kScanChunk;
    parallel_for((end - first_node + kScanChunk - 1) / kScanChunk, 1, [&](size_t from, size_t to) {
      for (size_t c = first_chunk + from; c < first_chunk + to; ++c)
        pick_by_scan(request, c * kScanChunk, std::min(f.size, (c + 1) * kScanChunk), picked[c]);
    });
  }
  size_t total = 0;
  for (const auto& chunk : picked) total += chunk.size();
  size_t at = out.grow(total, o);
  std::vector<size_t> starts(chunks);
  for (size_t c = 0; c < chunks; ++c) {
    starts[c] = at;
    at += picked[c].size();
  }
  const int64_t* const positions = out.positions.data();
  parallel_for(chunks, 4, [&](size_t from, size_t to) {
    for (size_t c = from; c < to; ++c) {
      std::copy(picked[c].begin(), picked[c].end(), out.positions.data() + starts[c]);
      size_t owner_at = starts[c];
      for (size_t i = c * kScanChunk; i < std::min(f.size, (c + 1) * kScanChunk); ++i)
        for (uint64_t j = 0; j < counts[i]; ++j) out.owners[owner_at++] = first + static_cast<int64_t>(i);
    }
  });
  with_width(t.indices, [&](const auto* indices) {
    const size_t base = out.positions.size() - total;
    t.fetch_missing(total,
                    [&](size_t i) { return std::pair(indices + positions[base + i], sizeof *indices); });
    parallel_for(total, kChunk * 8, [&](size_t from, size_t to) {
      read_neighbours(t, indices, positions + base + from, out.neighbours.data() + base + from, to - from);
    });
  });
}

}  // namespace

void pick(const Topology& topology, const EdgeColumns& columns, const Frontier& frontier,
          int64_t first_frontier, const PickOptions& options, PooledArray<int64_t>& positions,
          PooledArray<int64_t>& neighbours, PooledArray<int64_t>& owners) {
  const Outputs out{positions, neighbours, owners};
  if (frontier.size == 0 || options.fanout == 0) return;
  if (columns.weights || (frontier.seed_time && (columns.edge_time || columns.node_time)))
    pick_scanning(topology, columns, frontier, first_frontier, options, out);
  else
    pick_uniform(topology, frontier, first_frontier, options, out);
}

}  // namespace gz
