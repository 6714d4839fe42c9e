#include "pick.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "rng.h"
#include "threads.h"

namespace gz {
namespace {

constexpr size_t kChunk = 512;  // frontier nodes per task
constexpr size_t kAhead = 64;   // how far ahead indptr is prefetched
constexpr size_t kLag = 96;     // picks between the prefetch of a neighbour and its use

uint64_t node_stream(const Frontier& f, size_t i, uint64_t stream) {
  const uint64_t key = fold(stream, static_cast<uint64_t>(f.nodes[i]));
  return f.batch ? fold(key, static_cast<uint64_t>(f.batch[i])) : key;
}

// Reads a row of weights as double.
class WeightReader {
 public:
  WeightReader(const Topology& t, const Column& c) : topology_(t), column_(c) {}
  double operator()(uint64_t position) const {
    const uint64_t row = topology_.ids_are_in_rows ? topology_.edge_ids[position] : position;
    if (row >= column_.size) [[unlikely]]
      topology_.damaged_index(position);
    const double w = column_.dtype == DType::kFloat32   ? static_cast<const float*>(column_.data)[row]
                     : column_.dtype == DType::kFloat64 ? static_cast<const double*>(column_.data)[row]
                                                        : static_cast<const uint8_t*>(column_.data)[row];
    if (!(w >= 0) || std::isinf(w)) [[unlikely]]
      throw std::invalid_argument("the weight of edge " + std::to_string(row) + " is " + std::to_string(w) +
                                  "; weights must be finite and not negative");
    return w;
  }

 private:
  const Topology& topology_;
  const Column& column_;
};

int64_t load_time(const Column& c, uint64_t i) {
  return c.dtype == DType::kInt64 ? static_cast<const int64_t*>(c.data)[i]
                                  : static_cast<const int32_t*>(c.data)[i];
}

// What is picked where every edge of a node has to be looked at: weights, times. Scratch of one task.
//
// By time, the edges of a node are numbered from the earliest to the latest, those of the same time as they
// are stored: a list gives the same picks, in the same order, in whatever order it is stored.
class ScanPicker {
 public:
  ScanPicker(const Topology& t, const PickOptions& o) : t_(t), o_(o), weight_(t, o.weights) {}

  void operator()(const Frontier& f, size_t i, std::vector<int64_t>& out) {
    const bool temporal = f.seed_time && (o_.edge_time || o_.node_time);
    collect(t_.edges_of(static_cast<uint64_t>(f.nodes[i])), temporal, temporal ? f.seed_time[f.batch[i]] : 0);
    if (o_.fanout < 0) {
      take_all(out);
      return;
    }
    const size_t k = static_cast<size_t>(o_.fanout);
    Rng rng(node_stream(f, i, o_.stream));
    if (temporal && o_.strategy == TemporalStrategy::kLast)
      take_last(k, out);
    else if (o_.weights)
      o_.replace ? draw_weighted(rng, k, out) : choose_weighted(rng, k, out);
    else
      take_uniform(rng, k, out);
  }

 private:
  struct Edge {
    int64_t time;
    int64_t position;
    bool operator<(const Edge& o) const { return time != o.time ? time < o.time : position < o.position; }
  };

  uint64_t row(uint64_t e) const { return t_.ids_are_in_rows ? t_.edge_ids[e] : e; }
  int64_t time_of(uint64_t e) const {
    const Column& c = o_.edge_time ? o_.edge_time : o_.node_time;
    const uint64_t at = o_.edge_time ? row(e) : t_.indices[e];
    if (at >= c.size) [[unlikely]]
      t_.damaged_index(e);
    return load_time(c, at);
  }

  // The edges that may be picked, as they are stored.
  void collect(const Topology::Range& range, bool temporal, int64_t now) {
    valid_.clear();
    in_order_ = true;
    for (uint64_t e = range.begin; e < range.end; ++e) {
      const int64_t time = temporal ? time_of(e) : now;
      if (time > now) continue;
      in_order_ &= valid_.empty() || valid_.back().time <= time;
      valid_.push_back({time, static_cast<int64_t>(e)});
    }
  }

  void sort() {
    if (!in_order_) std::sort(valid_.begin(), valid_.end());
    in_order_ = true;
  }

  // Puts the edges of these numbers, which ascend, where they belong among [begin, end). A hub's list need
  // not be sorted for the few that are drawn.
  void place(const int64_t* numbers, const int64_t* last, int64_t begin, int64_t end) {
    if (numbers == last || end - begin < 2) return;
    const int64_t* middle = numbers + (last - numbers) / 2;
    const int64_t at = *middle;
    std::nth_element(valid_.begin() + begin, valid_.begin() + at, valid_.begin() + end);
    place(numbers, std::lower_bound(numbers, middle, at), begin, at);
    place(std::upper_bound(middle, last, at), last, at + 1, end);
  }

  void take_all(std::vector<int64_t>& out) {
    sort();
    for (const Edge& e : valid_) out.push_back(e.position);
  }

  void take_uniform(Rng& rng, size_t k, std::vector<int64_t>& out) {
    const size_t n = valid_.size();
    if (n == 0) return;
    if (!o_.replace && n <= k) {
      take_all(out);
      return;
    }
    const size_t at = out.size();
    out.resize(at + k);
    if (o_.replace)
      for (size_t j = at; j < at + k; ++j) out[j] = static_cast<int64_t>(rng.below(n));
    else
      choose_without_replacement(rng, n, k, out.data() + at);
    if (!in_order_) {
      numbers_.assign(out.begin() + static_cast<ptrdiff_t>(at), out.end());
      std::sort(numbers_.begin(), numbers_.end());
      place(numbers_.data(), numbers_.data() + k, 0, static_cast<int64_t>(n));
    }
    for (size_t j = at; j < at + k; ++j) out[j] = valid_[static_cast<size_t>(out[j])].position;
  }

  void take_last(size_t k, std::vector<int64_t>& out) {
    if (valid_.size() > k) {
      const auto first = valid_.end() - static_cast<ptrdiff_t>(k);
      if (!in_order_) std::nth_element(valid_.begin(), first, valid_.end());
      valid_.erase(valid_.begin(), first);
    }
    take_all(out);
  }

  // Efraimidis and Spirakis 2006: the k largest of log(u) / w. An edge of weight 0 is never taken.
  void choose_weighted(Rng& rng, size_t k, std::vector<int64_t>& out) {
    sort();
    keys_.clear();
    for (size_t i = 0; i < valid_.size(); ++i) {
      const double w = weight_(static_cast<uint64_t>(valid_[i].position));
      const double u = rng.unit_positive();
      if (w > 0) keys_.push_back({std::log(u) / w, i});
    }
    if (keys_.size() > k) {
      const auto larger = [](const Key& a, const Key& b) {
        return a.key != b.key ? a.key > b.key : a.number < b.number;
      };
      std::nth_element(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(k), keys_.end(), larger);
      keys_.resize(k);
      std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) { return a.number < b.number; });
    }
    for (const Key& key : keys_) out.push_back(valid_[key.number].position);
  }

  void draw_weighted(Rng& rng, size_t k, std::vector<int64_t>& out) {
    sort();
    keys_.clear();
    double total = 0;
    for (size_t i = 0; i < valid_.size(); ++i) {
      const double w = weight_(static_cast<uint64_t>(valid_[i].position));
      if (w > 0) keys_.push_back({total += w, i});
    }
    if (keys_.empty()) return;
    for (size_t j = 0; j < k; ++j) {
      const double x = rng.unit() * total;
      auto it = std::upper_bound(keys_.begin(), keys_.end(), x,
                                 [](double v, const Key& key) { return v < key.key; });
      out.push_back(valid_[it == keys_.end() ? keys_.back().number : it->number].position);
    }
  }

  struct Key {
    double key;
    size_t number;
  };
  const Topology& t_;
  const PickOptions& o_;
  WeightReader weight_;
  std::vector<Edge> valid_;
  bool in_order_ = true;
  std::vector<int64_t> numbers_;
  std::vector<Key> keys_;
};

// Second half of every pick: positions are there, fetch the neighbours many at a time.
template <class Id>
void read_neighbours(const Topology& t, const Id* indices, const int64_t* positions, int64_t* neighbours,
                     size_t n) {
  for (size_t j = 0; j < n; ++j) {
    const auto v = static_cast<uint64_t>(indices[positions[j]]);
    if (v >= t.num_other) [[unlikely]]
      t.damaged_index(static_cast<uint64_t>(positions[j]));
    neighbours[j] = static_cast<int64_t>(v);
  }
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

  size_t grow(size_t by) const {
    const size_t base = positions.size();
    positions.resize(base + by);
    neighbours.resize(base + by);
    owners.resize(base + by);
    return base;
  }
};

// Turns counts into offsets in place; returns the sum.
size_t to_offsets(PooledArray<uint64_t>& counts) {
  size_t total = 0;
  for (uint64_t& c : counts) {
    const uint64_t n = c;
    c = total;
    total += n;
  }
  return total;
}

void pick_uniform(const Topology& t, const Frontier& f, int64_t first, const PickOptions& o,
                  const Outputs& out) {
  PooledArray<uint64_t> begins(f.size), degrees(f.size), offsets(f.size);
  t.fetch_starts(f.nodes, f.size);
  parallel_for(f.size, kChunk * 4, [&](size_t from, size_t to) {
    for (size_t i = from; i < to; ++i) {
      if (i + kAhead < to) __builtin_prefetch(t.indptr + f.nodes[i + kAhead]);
      const auto range = t.edges_of(static_cast<uint64_t>(f.nodes[i]));
      begins[i] = range.begin;
      degrees[i] = range.size();
      offsets[i] = take_count(range.size(), o);
    }
  });
  const size_t base = out.grow(to_offsets(offsets)), end = out.positions.size();
  const auto offset = [&](size_t i) { return i < f.size ? base + offsets[i] : end; };

  // Lists that are not in memory are fetched all together, once it is known which parts of them are wanted.
  const bool fetched = t.cold(f.size, [&](size_t i) { return t.indices.address(begins[i]); });

  with_width(t.indices, [&](const auto* indices) {
    parallel_for(f.size, kChunk, [&](size_t from, size_t to) {
      int64_t* const positions = out.positions.data();
      size_t done = offset(from);  // neighbours are read up to here
      for (size_t i = from; i < to; ++i) {
        const size_t at = offset(i), count = offset(i + 1) - at;
        const uint64_t begin = begins[i], degree = degrees[i];
        int64_t* const p = positions + at;
        if (o.fanout < 0 || (!o.replace && count == degree)) {
          for (size_t j = 0; j < count; ++j) p[j] = static_cast<int64_t>(begin + j);
        } else {
          Rng rng(node_stream(f, i, o.stream));
          if (o.replace)
            for (size_t j = 0; j < count; ++j) p[j] = static_cast<int64_t>(rng.below(degree));
          else
            choose_without_replacement(rng, degree, count, p);
          for (size_t j = 0; j < count; ++j) p[j] += static_cast<int64_t>(begin);
        }
        for (size_t j = 0; j < count; ++j) out.owners[at + j] = first + static_cast<int64_t>(i);
        if (fetched) continue;
        for (size_t j = 0; j < count; ++j) __builtin_prefetch(indices + p[j]);
        // Neighbours are read kLag picks behind their prefetch, so that every read has had time to arrive.
        const size_t picked = at + count;
        const size_t ready = i + 1 == to ? picked : std::max(done, picked - std::min(picked, kLag));
        read_neighbours(t, indices, positions + done, out.neighbours.data() + done, ready - done);
        done = ready;
      }
    });
    if (!fetched) return;
    const int64_t* const positions = out.positions.data() + base;
    t.fetch(end - base, [&](size_t i) { return indices + positions[i]; }, sizeof *indices);
    parallel_for(end - base, kChunk * 8, [&](size_t from, size_t to) {
      read_neighbours(t, indices, positions + from, out.neighbours.data() + base + from, to - from);
    });
  });
}

void pick_by_scan(const Topology& t, const Frontier& f, int64_t first, const PickOptions& o,
                  const Outputs& out) {
  constexpr size_t kScanChunk = 64;
  const size_t chunks = (f.size + kScanChunk - 1) / kScanChunk;
  t.fetch_lists(f.nodes, f.size);
  std::vector<std::vector<int64_t>> picked(chunks);
  PooledArray<uint64_t> counts(f.size);
  parallel_for(chunks, 1, [&](size_t from, size_t to) {
    ScanPicker picker(t, o);
    for (size_t c = from; c < to; ++c)
      for (size_t i = c * kScanChunk; i < std::min(f.size, (c + 1) * kScanChunk); ++i) {
        const size_t before = picked[c].size();
        picker(f, i, picked[c]);
        counts[i] = picked[c].size() - before;
      }
  });
  size_t total = 0;
  for (const auto& chunk : picked) total += chunk.size();
  size_t at = out.grow(total);
  std::vector<size_t> starts(chunks);
  for (size_t c = 0; c < chunks; ++c) {
    starts[c] = at;
    at += picked[c].size();
  }
  with_width(t.indices, [&](const auto* indices) {
    parallel_for(chunks, 4, [&](size_t from, size_t to) {
      for (size_t c = from; c < to; ++c) {
        std::copy(picked[c].begin(), picked[c].end(), out.positions.data() + starts[c]);
        for (int64_t p : picked[c]) __builtin_prefetch(indices + p);
        size_t owner_at = starts[c];
        for (size_t i = c * kScanChunk; i < std::min(f.size, (c + 1) * kScanChunk); ++i)
          for (uint64_t j = 0; j < counts[i]; ++j) out.owners[owner_at++] = first + static_cast<int64_t>(i);
        read_neighbours(t, indices, out.positions.data() + starts[c], out.neighbours.data() + starts[c],
                        picked[c].size());
      }
    });
  });
}

}  // namespace

void choose_without_replacement(Rng& rng, uint64_t n, uint64_t k, int64_t* out) {
  if (n <= 64) {
    uint64_t taken = 0;
    for (uint64_t j = n - k, i = 0; j < n; ++j, ++i) {
      uint64_t r = rng.below(j + 1);
      if (taken >> r & 1) r = j;
      taken |= uint64_t{1} << r;
      out[i] = static_cast<int64_t>(r);
    }
    return;
  }
  if (k <= 32) {
    for (uint64_t j = n - k, i = 0; j < n; ++j, ++i) {
      auto r = static_cast<int64_t>(rng.below(j + 1));
      if (std::find(out, out + i, r) != out + i) r = static_cast<int64_t>(j);
      out[i] = r;
    }
    return;
  }
  // Large fanouts: the same draws, with an open-addressing set instead of a linear search.
  const int bits = 64 - __builtin_clzll(k * 2 - 1);
  std::vector<int64_t> set(size_t{1} << bits, -1);
  const auto add = [&](int64_t v) {
    for (size_t at = (static_cast<uint64_t>(v) * kGolden) >> (64 - bits);; at = (at + 1) & (set.size() - 1)) {
      if (set[at] == v) return false;
      if (set[at] < 0) {
        set[at] = v;
        return true;
      }
    }
  };
  for (uint64_t j = n - k, i = 0; j < n; ++j, ++i) {
    auto r = static_cast<int64_t>(rng.below(j + 1));
    if (!add(r)) add(r = static_cast<int64_t>(j));
    out[i] = r;
  }
}

void pick(const Topology& topology, const Frontier& frontier, int64_t first_frontier,
          const PickOptions& options, PooledArray<int64_t>& positions, PooledArray<int64_t>& neighbours,
          PooledArray<int64_t>& owners) {
  const Outputs out{positions, neighbours, owners};
  if (frontier.size == 0 || options.fanout == 0) return;
  if (options.weights || (frontier.seed_time && (options.edge_time || options.node_time)))
    pick_by_scan(topology, frontier, first_frontier, options, out);
  else
    pick_uniform(topology, frontier, first_frontier, options, out);
}

}  // namespace gz
