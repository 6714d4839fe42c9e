#include "sample/sampler.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <variant>

#include "base/rng.h"
#include "base/threads.h"
#include "read/check.h"
#include "sample/node_table.h"

namespace gz {
namespace {

// What a node is called in the tree of a seed.
uint64_t key_in_tree(int64_t node, int64_t batch, uint64_t num_nodes) {
  return static_cast<uint64_t>(batch) * num_nodes + static_cast<uint64_t>(node);
}

// Candidates of a disjoint sample: a node counts once in the tree of each seed.
template <class Key>
struct TreesToNumber : IdsToNumber<Key> {
  const int64_t* owners;
  const PooledArray<int64_t>& owner_batches;  // which may be `batches`, and then moves as that grows
  uint64_t num_nodes;
  PooledArray<int64_t>& batches;
  const int64_t* owner_batch = owner_batches.data();
  int64_t* added_batch = nullptr;

  int64_t batch_of(size_t i) const { return owner_batch[owners[i]]; }
  Key key(size_t i) const { return static_cast<Key>(key_in_tree(this->ids[i], batch_of(i), num_nodes)); }
  void allocate(size_t count) {
    IdsToNumber<Key>::allocate(count);
    batches.resize(batches.size() + count, count * this->room);
    added_batch = batches.end() - count;
    owner_batch = owner_batches.data();
  }
  void append(uint32_t rank, size_t i) const {
    IdsToNumber<Key>::append(rank, i);
    added_batch[rank] = batch_of(i);
  }
};

// The nodes of one type: what has been sampled so far and the table that numbers them.
class NodeSet {
 public:
  NodeSet(SampledNodes& out, uint64_t num_nodes, uint64_t num_seeds, bool disjoint)
      : out_(out), stride_(num_nodes), disjoint_(disjoint) {
    uint64_t largest = num_nodes;
    if (disjoint && __builtin_mul_overflow(num_nodes, std::max<uint64_t>(1, num_seeds), &largest))
      throw std::invalid_argument(
          "too many seeds for disjoint sampling of a graph of this size; use smaller batches");
    if (fits_32_bits(largest))
      table_.emplace<NodeTable<uint32_t>>();
    else
      table_.emplace<NodeTable<uint64_t>>();
  }

  // The seeds are checked where they lie from here on, out of reach of the caller's other threads.
  void add_seeds(const SampleSeeds& seeds, int64_t first_batch) {
    const size_t base = out_.ids.size();
    out_.ids.resize(base + seeds.size);
    if (seeds.size) std::memcpy(out_.ids.data() + base, seeds.nodes, seeds.size * sizeof(int64_t));
    check_ids(out_.ids.data() + base, seeds.size, stride_, "seed");
    if (disjoint_) out_.batch.resize(base + seeds.size);
    std::visit(
        [&](auto& table) {
          for (size_t i = 0; i < seeds.size; ++i) {
            const int64_t batch = disjoint_ ? first_batch + static_cast<int64_t>(i) : 0;
            if (disjoint_) out_.batch[base + i] = batch;
            using Key = typename std::remove_reference_t<decltype(table)>::KeyType;
            table.insert_one(static_cast<Key>(key_in_tree(out_.ids[base + i], batch, stride_)),
                             static_cast<uint32_t>(base + i));
          }
        },
        table_);
  }

  // Closes a hop: what came in since the last call is the next frontier.
  void end_hop() {
    frontier_begin_ = frontier_end_;
    frontier_end_ = out_.ids.size();
    out_.per_hop.push_back(static_cast<int64_t>(frontier_end_ - frontier_begin_));
  }

  // Numbers the neighbours [from ...), which `owners` picked. `last`: no hop after this one looks nodes of
  // this type up again. `room`: as PickOptions has it.
  void number(PooledArray<int64_t>& neighbours, size_t from, const PooledArray<int64_t>& owners,
              const PooledArray<int64_t>& owner_batch, bool last, size_t room) {
    const size_t count = neighbours.size() - from;
    if (count == 0) return;
    const auto base = static_cast<uint32_t>(out_.ids.size());
    std::visit(
        [&](auto& table) {
          using Key = typename std::remove_reference_t<decltype(table)>::KeyType;
          const IdsToNumber<Key> ids{neighbours.data() + from, out_.ids, room};
          if (disjoint_)
            table.number(count, base, last,
                         TreesToNumber<Key>{ids, owners.data() + from, owner_batch, stride_, out_.batch});
          else
            table.number(count, base, last, IdsToNumber<Key>(ids));
        },
        table_);
  }

  size_t frontier_begin() const { return frontier_begin_; }
  size_t frontier_size() const { return frontier_end_ - frontier_begin_; }
  const SampledNodes& out() const { return out_; }

 private:
  SampledNodes& out_;
  uint64_t stride_;
  bool disjoint_;
  size_t frontier_begin_ = 0, frontier_end_ = 0;
  std::variant<NodeTable<uint32_t>, NodeTable<uint64_t>> table_;
};

void check_request(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
                   const std::vector<SampleSeeds>& seeds, const SampleOptions& options) {
  check_edge_types(num_nodes, edge_types, edge_types.empty() ? 0 : edge_types.front().fanouts.size());
  for (const auto& e : edge_types)
    if ((e.columns.edge_time || e.columns.node_time) && !options.disjoint)
      throw std::invalid_argument("sampling by time needs disjoint=True: each seed has a time of its own");
  size_t num_seeds = 0;
  for (const auto& s : seeds) {
    num_seeds += s.size;
    if (num_seeds >= size_t{1} << 31) throw std::length_error("2^31 or more seeds; use smaller batches");
    if (s.type >= num_nodes.size()) throw std::invalid_argument("seeds name a node type that is not there");
  }
}

// About how many edges a node that one hop finds brings in the next.
uint64_t edges_to_follow(const EdgeType& type, int64_t fanout) {
  constexpr uint64_t kMost = 16;  // where more follow, what was there before is little beside them
  const Topology& t = *type.topology;
  const uint64_t degree = t.num_nodes ? t.num_edges / t.num_nodes + 1 : 0;
  return std::min({fanout < 0 ? kMost : static_cast<uint64_t>(fanout), degree, kMost});
}

}  // namespace

Sample sample(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
              const std::vector<SampleSeeds>& seeds, const SampleOptions& options) {
  check_request(num_nodes, edge_types, seeds, options);
  Sample result;
  result.nodes.resize(num_nodes.size());
  result.edges.resize(edge_types.size());

  size_t num_seeds = 0;
  bool temporal = false;
  for (const auto& s : seeds) {
    num_seeds += s.size;
    temporal |= s.times != nullptr;
  }
  std::vector<int64_t> seed_time;
  std::vector<NodeSet> sets;
  sets.reserve(num_nodes.size());
  for (size_t t = 0; t < num_nodes.size(); ++t)
    sets.emplace_back(result.nodes[t], num_nodes[t], num_seeds, options.disjoint);
  int64_t first_batch = 0;
  for (const auto& s : seeds) {
    sets[s.type].add_seeds(s, first_batch);
    first_batch += static_cast<int64_t>(s.size);
    if (!temporal) continue;
    if (!s.times && s.size) throw std::invalid_argument("some seeds have a time and others have none");
    seed_time.insert(seed_time.end(), s.times, s.times + s.size);
  }
  for (auto& set : sets) set.end_hop();

  const size_t hops = edge_types.empty() ? 0 : edge_types.front().fanouts.size();
  // Where nodes of each type are numbered for the last time: their table need not be kept up after that.
  std::vector<size_t> last_use(num_nodes.size(), 0);
  for (size_t hop = 0; hop < hops; ++hop)
    for (size_t e = 0; e < edge_types.size(); ++e)
      if (edge_types[e].fanouts[hop] != 0)
        last_use[edge_types[e].neighbour_type] = hop * edge_types.size() + e;

  for (size_t hop = 0; hop < hops; ++hop) {
    for (size_t e = 0; e < edge_types.size(); ++e) {
      const EdgeType& type = edge_types[e];
      SampledEdges& out = result.edges[e];
      const NodeSet& from = sets[type.frontier_type];
      const size_t base = out.rows.size();
      const Frontier frontier{
          .nodes = from.out().ids.data() + from.frontier_begin(),
          .size = from.frontier_size(),
          .batch = options.disjoint ? from.out().batch.data() + from.frontier_begin() : nullptr,
          .seed_time = temporal ? seed_time.data() : nullptr,
      };
      const PickOptions pick_options{
          .fanout = type.fanouts[hop],
          .replace = options.replace,
          .stream = fold(fold(fold(0, options.rng_seed), hop), e),
          .strategy = options.strategy,
          .most = NodeTable<uint64_t>::kMost,
          .room = hop + 1 < hops ? edges_to_follow(type, type.fanouts[hop + 1]) : 0,
      };
      expand(type, frontier, static_cast<int64_t>(from.frontier_begin()), pick_options, options.want_edge_ids,
             out);
      out.per_hop.push_back(static_cast<int64_t>(out.rows.size() - base));
      sets[type.neighbour_type].number(out.neighbour, base, out.frontier, from.out().batch,
                                       hop * edge_types.size() + e == last_use[type.neighbour_type],
                                       pick_options.room);
    }
    for (auto& set : sets) set.end_hop();
  }
  return result;
}

}  // namespace gz
