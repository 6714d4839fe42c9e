#include "verify.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "error.h"
#include "feature.h"
#include "hash.h"
#include "threads.h"
#include "topology.h"

namespace gz {
namespace {

constexpr size_t kGrain = 1 << 16;
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

// The smallest index in [0, count) for which wrong(i), or count. Deterministic, in parallel.
template <class Wrong>
uint64_t first_wrong(uint64_t count, Wrong&& wrong) {
  std::atomic<uint64_t> first{count};
  parallel_for(count, kGrain, [&](size_t begin, size_t end) {
    for (uint64_t i = begin; i < end && i < first.load(std::memory_order_relaxed); ++i) {
      if (!wrong(i)) continue;
      for (uint64_t seen = first.load(); i < seen && !first.compare_exchange_weak(seen, i);) {
      }
      return;
    }
  });
  return first.load();
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
    if (t_.edge_positions) verify_positions();
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

  void verify_positions() const {
    const uint64_t none = t_.edge_positions.wide ? ~uint64_t{0} : 0xFFFFFFFFu;
    rule(
        t_.num_edge_ids,
        [&](uint64_t id) {
          const uint64_t at = t_.edge_positions[id];
          return at != none && at >= t_.num_edges;
        },
        "every edge position must be below the number of edges, or all ones", "edge id");
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
  }

  const Topology& t_;
};

}  // namespace

void verify_topology(const std::string& path) {
  const auto t = Topology::open(path);
  for (size_t s = kIndptr; s <= kAlias; ++s) verify_checksum(*t->mapping, s, kTopologySections[s]);
  TopologyVerifier(*t).run();
}

void verify_feature(const std::string& path) {
  const auto f = Feature::open(path);
  verify_checksum(*f->mapping, kData, "data");
  if (f->dtype != DType::kBool) return;
  const auto* bytes = reinterpret_cast<const uint8_t*>(f->mapping->data() + f->offset);
  const uint64_t i = first_wrong(f->bytes(), [&](uint64_t at) { return bytes[at] > 1; });
  if (i < f->bytes())
    throw FormatError(path,
                      "a bool must be 0 or 1 (first broken at byte " + std::to_string(i) + " of the data)");
}

}  // namespace gz
