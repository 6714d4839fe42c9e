#include "column/verify.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/threads.h"
#include "column/feature.h"
#include "column/topology.h"
#include "column/verify_ids.h"

namespace gz {
namespace {

constexpr const char* kTopologySections[] = {"indptr",         "indices", "edge_ids",
                                             "edge_positions", "weights", "alias"};

void verify_checksum(const Mapping& m, size_t index, const char* name) {
  const Section& s = header_of(m).sections[index];
  if (s.dtype == DType::kNone) return;
  m.advise(s.offset, s.bytes, Advice::kSequential);
  if (tree_hash(m.data() + s.offset, s.bytes) != s.checksum)
    throw FormatError(m.path(),
                      std::string("checksum of section '") + name + "' does not match: the data is damaged");
}

class TopologyVerifier {
 public:
  explicit TopologyVerifier(const Topology& t) : t_(t) {}

  void run() const {
    rule(
        t_.num_nodes,
        [&](uint64_t v) { return t_.indptr[v] > t_.indptr[v + 1] || t_.indptr[v + 1] > t_.num_edges; },
        "indptr must not descend", "node");
    rule(
        t_.num_edges, [&](uint64_t e) { return t_.indices[e] >= t_.num_other; },
        "every neighbour must be below the number of nodes", "position");
    if (t_.sorted)
      rule(
          t_.num_nodes, [&](uint64_t v) { return !ascends(v); },
          "lists are flagged sorted but one does not ascend", "node");
    if (t_.edge_ids)
      rule(
          t_.num_edges, [&](uint64_t e) { return t_.edge_ids[e] >= t_.num_edge_ids; },
          "every edge id must be below the number of edge ids", "position");
    if (t_.ids_are_in_rows) verify_distinct_ids(t_);
    if (t_.edge_positions) verify_positions(t_);
    if (t_.weights) verify_weights();
  }

 private:
  template <class Wrong>
  void rule(uint64_t count, Wrong&& wrong, const char* text, const char* what) const {
    const uint64_t i = first_wrong(count, wrong);
    if (i < count)
      throw FormatError(t_.name,
                        std::string(text) + " (first broken at " + what + " " + std::to_string(i) + ")");
  }

  bool ascends(uint64_t v) const {
    const auto list = t_.edges_of(v);
    for (uint64_t e = list.begin + 1; e < list.end; ++e)
      if (t_.indices[e] < t_.indices[e - 1]) return false;
    return true;
  }

  void verify_weights() const {
    rule(
        t_.num_edges, [&](uint64_t e) { return !(t_.weights[e] >= 0) || std::isinf(t_.weights[e]); },
        "weights must be finite and not negative", "position");
    rule(
        t_.num_nodes,
        [&](uint64_t v) {
          const auto list = t_.edges_of(v);
          return std::any_of(t_.alias + list.begin, t_.alias + list.end,
                             [&](const AliasEntry& a) { return a.partner >= list.size(); });
        },
        "an alias entry must point into its own list", "node");
    rule(
        t_.num_nodes, [&](uint64_t v) { return !alias_draws_by_weight(v); },
        "an alias table must draw in proportion to the weights", "node");
  }

  bool alias_draws_by_weight(uint64_t v) const {
    const auto list = t_.edges_of(v);
    const float* const weights = t_.weights + list.begin;
    const AliasEntry* const alias = t_.alias + list.begin;
    double sum = 0;
    for (uint64_t i = 0; i < list.size(); ++i) sum += weights[i];
    if (sum == 0)
      return std::all_of(alias, alias + list.size(),
                         [&](const AliasEntry& a) { return a.threshold == 0 && a.partner == &a - alias; });
    thread_local std::vector<double> drawn;  // how often each slot comes out, 1 on average
    thread_local std::vector<uint32_t> parts;
    drawn.assign(list.size(), 0);
    parts.assign(list.size(), 1);
    for (uint64_t i = 0; i < list.size(); ++i) {
      const double kept = alias[i].threshold == UINT32_MAX ? 1.0 : alias[i].threshold * 0x1.0p-32;
      drawn[i] += kept;
      drawn[alias[i].partner] += 1 - kept;
      ++parts[alias[i].partner];
    }
    for (uint64_t i = 0; i < list.size(); ++i) {
      const double expected = weights[i] * (static_cast<double>(list.size()) / sum);
      const double rounding = parts[i] * 0x1.0p-31 + 1e-6 * std::max(1.0, expected);
      if (weights[i] == 0 ? drawn[i] != 0 : std::abs(drawn[i] - expected) > rounding) return false;
    }
    return true;
  }

  const Topology& t_;
};

// A sum over all edges that is the same in whatever order they stand. row(e): of the edge at a position.
template <class Row>
uint64_t sum_of_edges(const Topology& t, bool weighted, Row&& row) {
  t.mapping->advise(0, t.mapping->size(), Advice::kSequential);
  const bool out = t.direction == Direction::kOut;
  std::atomic<uint64_t> total{0};
  parallel_for(t.num_nodes, 1 << 12, [&](size_t begin, size_t end) {
    uint64_t sum = 0;
    for (uint64_t v = begin; v < end; ++v) {
      const auto list = t.edges_of(v);
      for (uint64_t e = list.begin; e < list.end; ++e) {
        const uint64_t src = out ? v : t.indices[e], dst = out ? t.indices[e] : v;
        const uint64_t weight = weighted ? std::bit_cast<uint32_t>(t.weights[e]) : 0;
        sum += fold(fold(fold(fold(0, src), dst), row(e)), weight);
      }
    }
    total.fetch_add(sum, std::memory_order_relaxed);
  });
  return total.load();
}

// Rows of int8 with their scales.
void verify_scaled(const Feature& f) {
  const auto* const rows = reinterpret_cast<const char*>(f.mapping->data() + f.offset);
  const auto rule = [&](const char* text, auto&& wrong) {
    const uint64_t i =
        first_wrong(f.num_rows(), [&](uint64_t row) { return wrong(rows + row * f.row_bytes); });
    if (i < f.num_rows())
      throw FormatError(f.mapping->path(),
                        std::string(text) + " (first broken at row " + std::to_string(i) + ")");
  };
  rule("the scale of a row must be finite and not negative", [](const char* row) {
    float scale;
    std::memcpy(&scale, row, sizeof scale);
    return !(scale >= 0) || std::isinf(scale);
  });
  rule("a stored value must not be -128",
       [&](const char* row) { return std::memchr(row + sizeof(float), 0x80, f.values) != nullptr; });
}

}  // namespace

void verify_topology(const std::string& path, int opened) {
  const auto t = Topology::open(path, opened);
  for (size_t s = kIndptr; s <= kAlias; ++s) verify_checksum(*t->mapping, s, kTopologySections[s]);
  TopologyVerifier(*t).run();
}

void verify_pair(const std::string& in_path, const std::string& out_path, int in_opened, int out_opened) {
  const auto in = Topology::open(in_path, in_opened), out = Topology::open(out_path, out_opened);
  const bool weighted = in->weights && out->weights;
  const uint64_t here = sum_of_edges(*in, weighted, [](uint64_t e) { return e; });
  if (!out->ids_are_in_rows ||
      here != sum_of_edges(*out, weighted, [&](uint64_t e) { return out->id_at(e); }))
    throw FormatError(out_path, "does not hold the edges of " + in_path + ": files of two stores were mixed");
}

void verify_feature(const std::string& path, int opened) {
  const auto f = Feature::open(path, opened);
  verify_checksum(*f->mapping, kData, "data");
  if (f->format(f->shown).scaled()) verify_scaled(*f);
  if (f->dtype != DType::kBool) return;
  const auto* bytes = reinterpret_cast<const uint8_t*>(f->mapping->data() + f->offset);
  const uint64_t i = first_wrong(f->bytes(), [&](uint64_t at) { return bytes[at] > 1; });
  if (i < f->bytes())
    throw FormatError(path,
                      "a bool must be 0 or 1 (first broken at byte " + std::to_string(i) + " of the data)");
}

}  // namespace gz
