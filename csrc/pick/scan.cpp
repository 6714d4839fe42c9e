#include "pick/scan.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/threads.h"
#include "pick/subset.h"
#include "pick/times.h"
#include "pick/weights.h"

namespace gz {
namespace {

constexpr uint64_t kPollEvery = 1 << 16;
constexpr size_t kClaimEvery = 1 << 12;

// Between these, log(u) / w and sums of weights keep their precision; beyond, they would end at 0 or at
// infinity, and every draw at the same edge.
bool is_extreme(double weight) {
  return weight < 1e-290 || weight > 1e290;
}

// Scratch of one task. `claim` is asked before results are made.
class ScanPicker {
 public:
  ScanPicker(const Topology& t, const EdgeColumns& c, const PickOptions& o, MemoryClaim& claim)
      : t_(t), c_(c), o_(o), times_(t, c), claim_(claim) {}

  // Appends the positions of the edges picked for node i of the frontier.
  void operator()(const Frontier& f, size_t i, std::vector<int64_t>& out);
  // Where what may be picked is found by searches: first these, for nodes [from, to).
  void search(const Frontier& f, size_t from, size_t to);
  void take_before(const Frontier& f, size_t from, size_t i, std::vector<int64_t>& out);

 private:
  struct Edge {
    int64_t time;
    int64_t position;
    bool operator<(const Edge& o) const { return time != o.time ? time < o.time : position < o.position; }
  };
  struct Key {
    double key;
    size_t number;
  };

  double weight_of(const Edge& e) const {
    return weight_at(t_, c_.weights, static_cast<uint64_t>(e.position));
  }
  void collect(const Topology::Range& range, bool temporal, int64_t now);
  void sort();
  void place(const int64_t* numbers, const int64_t* last, int64_t begin, int64_t end);
  int64_t* room_for(size_t count, std::vector<int64_t>& out);
  void take_all(std::vector<int64_t>& out);
  void take_uniform(Rng& rng, size_t k, std::vector<int64_t>& out);
  void take_last(size_t k, std::vector<int64_t>& out);
  bool make_keys(Rng& rng, bool logarithms);
  double add_weights(int scale);
  void choose_weighted(Rng& rng, size_t k, std::vector<int64_t>& out);
  void draw_weighted(Rng& rng, size_t k, std::vector<int64_t>& out);

  const Topology& t_;
  const EdgeColumns& c_;
  const PickOptions& o_;
  const EdgeTimes times_;
  MemoryClaim& claim_;
  size_t unclaimed_ = 0;
  std::vector<Topology::Range> lists_;  // of search(): what may be picked of each
  std::vector<int64_t> nows_;
  std::vector<Edge> valid_;  // edges that may be picked
  bool in_order_ = true;
  std::vector<int64_t> numbers_;
  std::vector<Key> keys_;
};

void ScanPicker::operator()(const Frontier& f, size_t i, std::vector<int64_t>& out) {
  const bool temporal = f.seed_time && (c_.edge_time || c_.node_time);
  const auto list = t_.edges_of(static_cast<uint64_t>(f.nodes[i]));
  const int64_t now = temporal ? f.seed_time[f.batch[i]] : 0;
  collect(list, temporal, now);
  if (o_.fanout < 0) {
    take_all(out);
    return;
  }
  const auto k = static_cast<size_t>(o_.fanout);
  Rng rng(f.stream(i, o_.stream));
  if (temporal && o_.strategy == TemporalStrategy::kLast)
    take_last(k, out);
  else if (c_.weights && o_.replace)
    draw_weighted(rng, k, out);
  else if (c_.weights)
    choose_weighted(rng, k, out);
  else
    take_uniform(rng, k, out);
}

// The edges that may be picked, as they are stored.
void ScanPicker::collect(const Topology::Range& range, bool temporal, int64_t now) {
  require_memory(range.size(), sizeof(Edge) + sizeof(Key), "looking through a list");
  valid_.clear();
  in_order_ = true;
  for (uint64_t begin = range.begin, end; begin < range.end; begin = end) {
    end = std::min(range.end, begin + kPollEvery);
    for (uint64_t e = begin; e < end; ++e) {
      const int64_t time = temporal ? times_[e] : now;
      if (time > now) continue;
      in_order_ &= valid_.empty() || valid_.back().time <= time;
      valid_.push_back({time, static_cast<int64_t>(e)});
    }
    if (end < range.end) poll();
  }
}

void ScanPicker::sort() {
  if (!in_order_) std::sort(valid_.begin(), valid_.end());
  in_order_ = true;
}

// Puts the edges of these numbers, which ascend, where they belong among [begin, end). A hub's list need not
// be sorted for the few that are drawn.
void ScanPicker::place(const int64_t* numbers, const int64_t* last, int64_t begin, int64_t end) {
  if (numbers == last || end - begin < 2) return;
  const int64_t* middle = numbers + (last - numbers) / 2;
  const int64_t at = *middle;
  std::nth_element(valid_.begin() + begin, valid_.begin() + at, valid_.begin() + end);
  place(numbers, std::lower_bound(numbers, middle, at), begin, at);
  place(std::upper_bound(middle, last, at), last, at + 1, end);
}

int64_t* ScanPicker::room_for(size_t count, std::vector<int64_t>& out) {
  unclaimed_ += count;
  if (unclaimed_ >= kClaimEvery) {
    claim_.add(unclaimed_, sizeof(int64_t));
    unclaimed_ = 0;
  }
  const size_t at = out.size();
  out.resize(at + count);
  return out.data() + at;
}

void ScanPicker::search(const Frontier& f, size_t from, size_t to) {
  lists_.clear();
  nows_.clear();
  for (size_t i = from; i < to; ++i) {
    lists_.push_back(t_.edges_of(static_cast<uint64_t>(f.nodes[i])));
    nows_.push_back(f.seed_time[f.batch[i]]);
  }
  times_.search(lists_.data(), nows_.data(), to - from);
}

// What take_uniform, take_last and take_all make of the edges up to the seed's time.
void ScanPicker::take_before(const Frontier& f, size_t from, size_t i, std::vector<int64_t>& out) {
  const uint64_t begin = t_.edges_of(static_cast<uint64_t>(f.nodes[i])).begin;
  const uint64_t end = lists_[i - from].begin, n = end - begin;
  const auto k = static_cast<uint64_t>(o_.fanout);  // all: more than any list has
  const bool last = o_.strategy == TemporalStrategy::kLast && o_.fanout >= 0;
  if (n == 0) return;
  if (last || o_.fanout < 0 || (!o_.replace && n <= k)) {
    const uint64_t count = std::min(n, k);
    int64_t* const to = room_for(count, out);
    for (uint64_t j = 0; j < count; ++j) to[j] = static_cast<int64_t>(end - count + j);
    return;
  }
  Rng rng(f.stream(i, o_.stream));
  int64_t* const picked = room_for(k, out);
  if (o_.replace)
    choose_with_replacement(rng, n, k, static_cast<int64_t>(begin), picked);
  else
    choose_without_replacement(rng, n, k, static_cast<int64_t>(begin), picked);
}

void ScanPicker::take_all(std::vector<int64_t>& out) {
  sort();
  int64_t* to = room_for(valid_.size(), out);
  for (const Edge& e : valid_) *to++ = e.position;
}

void ScanPicker::take_uniform(Rng& rng, size_t k, std::vector<int64_t>& out) {
  const size_t n = valid_.size();
  if (n == 0) return;
  if (!o_.replace && n <= k) {
    take_all(out);
    return;
  }
  int64_t* const picked = room_for(k, out);
  if (o_.replace)
    choose_with_replacement(rng, n, k, 0, picked);
  else
    choose_without_replacement(rng, n, k, 0, picked);
  if (!in_order_) {
    numbers_.assign(picked, picked + k);
    std::sort(numbers_.begin(), numbers_.end());
    place(numbers_.data(), numbers_.data() + k, 0, static_cast<int64_t>(n));
  }
  for (size_t j = 0; j < k; ++j) picked[j] = valid_[static_cast<size_t>(picked[j])].position;
}

void ScanPicker::take_last(size_t k, std::vector<int64_t>& out) {
  if (valid_.size() > k) {
    const auto first = valid_.end() - static_cast<ptrdiff_t>(k);
    if (!in_order_) std::nth_element(valid_.begin(), first, valid_.end());
    valid_.erase(valid_.begin(), first);
  }
  take_all(out);
}

// Efraimidis and Spirakis 2006: the k largest of log(u) / w. An edge of weight 0 is never taken.
void ScanPicker::choose_weighted(Rng& rng, size_t k, std::vector<int64_t>& out) {
  sort();
  const Rng before = rng;
  if (make_keys(rng, false)) {
    rng = before;
    make_keys(rng, true);
  }
  if (keys_.size() > k) {
    const auto larger = [](const Key& a, const Key& b) {
      return a.key != b.key ? a.key > b.key : a.number < b.number;
    };
    std::nth_element(keys_.begin(), keys_.begin() + static_cast<ptrdiff_t>(k), keys_.end(), larger);
    keys_.resize(k);
    std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) { return a.number < b.number; });
  }
  int64_t* to = room_for(keys_.size(), out);
  for (const Key& key : keys_) *to++ = valid_[key.number].position;
}

// A key for each edge. With `logarithms` they are in the same order, in any range of weights. Returns whether
// there was a weight that needs them.
bool ScanPicker::make_keys(Rng& rng, bool logarithms) {
  bool extreme = false;
  keys_.clear();
  for (size_t i = 0; i < valid_.size(); ++i) {
    const double w = weight_of(valid_[i]);
    const double u = std::log(rng.unit_positive());
    if (!(w > 0)) continue;
    extreme |= is_extreme(w);
    keys_.push_back({logarithms ? std::log(w) - std::log(-u) : u / w, i});
  }
  return extreme;
}

void ScanPicker::draw_weighted(Rng& rng, size_t k, std::vector<int64_t>& out) {
  sort();
  const double most = add_weights(0);
  // Scaled by a power of two, which changes no sum but its exponent.
  if (most > 0 && is_extreme(most)) add_weights(-std::ilogb(most));
  if (keys_.empty()) return;
  const double total = keys_.back().key;
  int64_t* to = room_for(k, out);
  for (size_t j = 0; j < k; ++j) {
    if (j % kPollEvery == kPollEvery - 1) poll();
    const double x = rng.unit() * total;
    auto it =
        std::upper_bound(keys_.begin(), keys_.end(), x, [](double v, const Key& key) { return v < key.key; });
    *to++ = valid_[it == keys_.end() ? keys_.back().number : it->number].position;
  }
}

// The running sums of the weights, times 2^scale. Returns the largest weight.
double ScanPicker::add_weights(int scale) {
  double total = 0, most = 0;
  keys_.clear();
  for (size_t i = 0; i < valid_.size(); ++i) {
    double w = weight_of(valid_[i]);
    most = std::max(most, w);
    if (scale) w = std::ldexp(w, scale);
    if (w > 0) keys_.push_back({total += w, i});
  }
  return most;
}

}  // namespace

void pick_by_scan(const ScanRequest& r, size_t from, size_t to, std::vector<int64_t>& positions) {
  ScanPicker picker(r.topology, r.columns, r.options, r.claim);
  const bool searches = r.searches();
  if (searches) picker.search(r.frontier, from, to);
  for (size_t i = from; i < to; ++i) {
    const size_t before = positions.size();
    if (searches)
      picker.take_before(r.frontier, from, i, positions);
    else
      picker(r.frontier, i, positions);
    r.counts[i] = positions.size() - before;
  }
}

}  // namespace gz
