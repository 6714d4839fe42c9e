#include "pick/pick.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/threads.h"
#include "hot/lists.h"
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

// Second half of every pick: positions are there, fetch the neighbours of [from, to) many at a time.
template <class Places>
void read_neighbours(const Topology& t, const Places& places, int64_t* neighbours, size_t from, size_t to) {
  const auto read = [&](size_t j) {
    const auto v = static_cast<uint64_t>(*places.address(j));
    if (v >= t.num_other) [[unlikely]]
      places.damaged(j);
    neighbours[j] = static_cast<int64_t>(v);
  };
  const size_t lag = std::min(to - from, kLag);
  for (size_t j = from; j < from + lag; ++j) __builtin_prefetch(places.address(j));
  size_t j = from;
  for (; j + lag < to; ++j) {
    __builtin_prefetch(places.address(j + lag));
    read(j);
  }
  for (; j < to; ++j) read(j);
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
  // Where the topology has its hot lists copied: where each begins in the copy, kElsewhere for one that is
  // not there; and which are, and which are not.
  PooledArray<uint64_t> copies, here, elsewhere;

  explicit Lists(size_t size) : begins(size), degrees(size), offsets(size + 1) {}
};

// Where the neighbours at picked positions lie: in the topology,
template <class Id>
struct InTopology {
  const Topology& t;
  const Lists& lists;
  const Id* indices;
  const int64_t* positions;

  const Id* address(size_t j) const { return indices + positions[j]; }
  bool cold() const {
    return t.cold(lists.begins.size(), [&](size_t i) { return indices + lists.begins[i]; });
  }
  void fetch(size_t count) const {
    t.fetch(count, [&](size_t j) { return address(j); }, sizeof(Id));
  }
  void were_read(size_t count, bool cold) const {
    if (t.held && !cold) t.held->read(count);
  }
  [[noreturn]] void damaged(size_t j) const { t.damaged_index(static_cast<uint64_t>(positions[j])); }
};

// or in the copy of its hot lists, where these are.
template <class Id>
struct InCopyOrTopology {
  const InTopology<Id> whole;
  const int64_t* owners;
  int64_t first;
  const Topology& t = whole.t;
  const Lists& lists = whole.lists;
  const HotLists& hot = *t.hot;
  const Id* copy = hot.ids<Id>();

  uint64_t entry(size_t j) const {
    const auto i = static_cast<size_t>(owners[j] - first);
    const uint64_t begin = lists.copies[i];
    return begin == HotLists::kElsewhere
               ? begin
               : begin + (static_cast<uint64_t>(whole.positions[j]) - lists.begins[i]);
  }
  const Id* address(size_t j) const {
    const uint64_t at = entry(j);
    return at == HotLists::kElsewhere ? whole.address(j) : copy + at;
  }
  bool cold() const {
    return hot.cold(lists.here.size(), [&](size_t i) { return lists.copies[lists.here[i]]; }) ||
           t.cold(lists.elsewhere.size(),
                  [&](size_t i) { return whole.indices + lists.begins[lists.elsewhere[i]]; });
  }
  void fetch(size_t count) const {
    hot.fetch(count, [&](size_t j) { return entry(j); });
    if (lists.elsewhere.size() == 0) return;
    t.fetch_ranges(count, [&](size_t j) {
      const bool here = entry(j) != HotLists::kElsewhere;
      return std::pair(here ? whole.indices : whole.address(j), here ? 0 : sizeof(Id));
    });
  }
  void were_read(size_t, bool) const {
    if (t.residency && lists.elsewhere.size()) t.residency->drop_used();
  }
  [[noreturn]] void damaged(size_t j) const {
    if (entry(j) != HotLists::kElsewhere) hot.damaged_entry(entry(j), t.num_other);
    whole.damaged(j);
  }
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

// Where the frontier's lists begin, and how long they are: list(i) gives {begin, size} of the i-th.
template <class List>
void note_lists(const Frontier& f, const PickOptions& o, Lists& lists, List&& list) {
  uint64_t *const begins = lists.begins.data(), *const degrees = lists.degrees.data(),
                  *const offsets = lists.offsets.data();
  parallel_for(f.size, kChunk * 4, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      const auto [begin, size] = list(i, to);
      begins[i] = begin;
      degrees[i] = size;
      offsets[i] = take_count(size, o);
    }
  });
  offsets[f.size] = 0;
  offsets[f.size] = to_offsets(lists.offsets);
}

Lists find_lists(const Topology& t, const Frontier& f, const PickOptions& o) {
  Lists lists(f.size);
  t.fetch_starts(f.nodes, f.size);
  note_lists(f, o, lists, [&](size_t i, size_t to) {
    if (i + kAhead < to) t.prefetch_start(static_cast<uint64_t>(f.nodes[i + kAhead]));
    const auto range = t.edges_of(static_cast<uint64_t>(f.nodes[i]));
    return std::pair(range.begin, range.size());
  });
  return lists;
}

Lists find_hot_lists(const Topology& t, const Frontier& f, const PickOptions& o) {
  Lists lists(f.size);
  PooledArray<uint32_t> places(f.size);
  t.hot->find(f.nodes, f.size, places.data());
  PooledArray<int64_t> others(f.size);
  for (PooledArray<uint64_t>* array : {&lists.copies, &lists.here, &lists.elsewhere}) array->resize(f.size);
  size_t here = 0, elsewhere = 0;
  for (size_t i = 0; i < f.size; ++i) {
    if (places[i] != HotIndex::kNone) {
      lists.here[here++] = i;
    } else {
      others[elsewhere] = f.nodes[i];
      lists.elsewhere[elsewhere++] = i;
    }
  }
  lists.here.resize(here);
  lists.elsewhere.resize(elsewhere);
  if (here) t.hot->fetch_starts(here, [&](size_t i) { return places[lists.here[i]]; });
  if (elsewhere) t.fetch_starts(others.data(), elsewhere);
  note_lists(f, o, lists, [&](size_t i, size_t to) {
    if (i + kAhead < to) {
      if (const uint32_t next = places[i + kAhead]; next != HotIndex::kNone)
        t.hot->prefetch_start(next);
      else
        t.prefetch_start(static_cast<uint64_t>(f.nodes[i + kAhead]));
    }
    if (places[i] == HotIndex::kNone) {
      lists.copies[i] = HotLists::kElsewhere;
      const auto range = t.edges_of(static_cast<uint64_t>(f.nodes[i]));
      return std::pair(range.begin, range.size());
    }
    const HotLists::List list = t.hot->list(places[i]);
    lists.copies[i] = list.copy;
    return std::pair(list.begin, list.degree);
  });
  return lists;
}

// Chunk by chunk, positions are drawn and then the neighbours there are read. Each by itself runs faster than
// both in one loop: reads of a tight loop wait side by side, and a draw that was guessed wrong would stop
// them. Lists that are not in memory are fetched all together, once it is known which parts of them are
// wanted.
template <class Places>
void draw_and_read(const Topology& t, const Lists& lists, const Places& places, const Frontier& f,
                   int64_t first, const PickOptions& o, int64_t* positions, int64_t* owners,
                   int64_t* neighbours) {
  const size_t count = lists.offsets[f.size];
  const bool cold = places.cold();
  parallel_for(f.size, kChunk, [&](size_t from, size_t to) {
    draw_positions(lists, f, first, o, from, to, positions, owners);
    if (!cold) read_neighbours(t, places, neighbours, lists.offsets[from], lists.offsets[to]);
  });
  if (cold) {
    places.fetch(count);
    parallel_for(count, kChunk * 8,
                 [&](size_t from, size_t to) { read_neighbours(t, places, neighbours, from, to); });
  }
  places.were_read(count, cold);
}

void pick_uniform(const Topology& t, const Frontier& f, int64_t first, const PickOptions& o,
                  const Outputs& out) {
  const Lists lists = t.hot ? find_hot_lists(t, f, o) : find_lists(t, f, o);
  const size_t count = lists.offsets[f.size], base = out.grow(count, o);
  int64_t *const positions = out.positions.data() + base, *const owners = out.owners.data() + base,
                 *const neighbours = out.neighbours.data() + base;
  with_width(t.indices, [&]<class Id>(const Id* indices) {
    const InTopology<Id> whole{t, lists, indices, positions};
    if (t.hot)
      draw_and_read(t, lists, InCopyOrTopology<Id>{whole, owners, first}, f, first, o, positions, owners,
                    neighbours);
    else
      draw_and_read(t, lists, whole, f, first, o, positions, owners, neighbours);
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
  with_width(t.indices, [&]<class Id>(const Id* indices) {
    const size_t base = out.positions.size() - total;
    const Lists none(0);
    const InTopology<Id> places{t, none, indices, positions + base};
    t.fetch_missing(total, [&](size_t i) { return std::pair(places.address(i), sizeof(Id)); });
    parallel_for(total, kChunk * 8, [&](size_t from, size_t to) {
      read_neighbours(t, places, out.neighbours.data() + base, from, to);
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
