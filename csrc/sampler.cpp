#include "sampler.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "check.h"
#include "node_table.h"
#include "rng.h"
#include "threads.h"

namespace gz {
namespace {

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
      table_.emplace<NodeTable<uint32_t>>(num_threads());
    else
      table_.emplace<NodeTable<uint64_t>>(num_threads());
  }

  void add_seeds(const SampleSeeds& seeds, int64_t first_batch) {
    const size_t base = out_.ids.size();
    out_.ids.resize(base + seeds.size);
    if (disjoint_) out_.batch.resize(base + seeds.size);
    std::visit(
        [&](auto& table) {
          for (size_t i = 0; i < seeds.size; ++i) {
            const int64_t batch = disjoint_ ? first_batch + static_cast<int64_t>(i) : 0;
            out_.ids[base + i] = seeds.nodes[i];
            if (disjoint_) out_.batch[base + i] = batch;
            using Key = typename std::remove_reference_t<decltype(table)>::KeyType;
            table.insert_one(static_cast<Key>(key(seeds.nodes[i], batch)), static_cast<uint32_t>(base + i));
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

  // `last` is for the frontier's owner: no hop after this one looks nodes of this type up again.
  void number(PooledArray<int64_t>& neighbours, size_t from, const PooledArray<int64_t>& owners,
              const PooledArray<int64_t>* owner_batch, bool last) {
    const size_t count = neighbours.size() - from;
    if (count == 0) return;
    int64_t* const ids = neighbours.data() + from;
    const int64_t* const owner = owners.data() + from;
    const auto batch_of = [&](size_t i) { return (*owner_batch)[static_cast<size_t>(owner[i])]; };
    const size_t base = out_.ids.size();
    const auto allocate = [&](size_t added) {
      out_.ids.resize(base + added);
      if (disjoint_) out_.batch.resize(base + added);
    };
    const auto number_one = [&](size_t i, uint32_t local) { ids[i] = local; };
    const auto run = [&](auto& table, auto&& key_of, auto&& append) {
      table.number(count, static_cast<uint32_t>(base), last, key_of, allocate, append, number_one);
    };
    std::visit(
        [&](auto& table) {
          using Key = typename std::remove_reference_t<decltype(table)>::KeyType;
          if (disjoint_) {
            run(
                table, [&](size_t i) { return static_cast<Key>(key(ids[i], batch_of(i))); },
                [&](uint32_t rank, size_t i) {
                  out_.ids[base + rank] = ids[i];
                  out_.batch[base + rank] = batch_of(i);
                });
          } else {
            run(
                table, [&](size_t i) { return static_cast<Key>(ids[i]); },
                [&](uint32_t rank, size_t i) { out_.ids[base + rank] = ids[i]; });
          }
        },
        table_);
  }

  size_t frontier_begin() const { return frontier_begin_; }
  size_t frontier_size() const { return frontier_end_ - frontier_begin_; }
  const SampledNodes& out() const { return out_; }

 private:
  uint64_t key(int64_t node, int64_t batch) const {
    return static_cast<uint64_t>(batch) * stride_ + static_cast<uint64_t>(node);
  }

  SampledNodes& out_;
  uint64_t stride_;
  bool disjoint_;
  size_t frontier_begin_ = 0, frontier_end_ = 0;
  std::variant<NodeTable<uint32_t>, NodeTable<uint64_t>> table_{std::in_place_type<NodeTable<uint32_t>>, 1};
};

// Replaces positions by rows of the edge columns, and looks original ids up, with the reads in flight
// together.
void name_edges(const SampleEdgeType& type, SampledEdges& out, size_t from, bool want_ids) {
  constexpr size_t kAhead = 32;
  const auto translate = [&](const IdArray& map, const PooledArray<int64_t>& in, PooledArray<int64_t>& to) {
    const auto place = [&](size_t i) { return map.address(static_cast<uint64_t>(in[from + i])); };
    if (type.topology->cold(in.size() - from, place)) type.topology->fetch(in.size() - from, place, 8);
    parallel_for(in.size() - from, 8192, [&](size_t begin, size_t end) {
      for (size_t i = from + begin; i < from + end; ++i) {
        if (i + kAhead < from + end) __builtin_prefetch(map.address(static_cast<uint64_t>(in[i + kAhead])));
        to[i] = static_cast<int64_t>(map[static_cast<uint64_t>(in[i])]);
      }
    });
  };
  if (type.topology->ids_are_in_rows) translate(type.topology->edge_ids, out.rows, out.rows);
  if (!want_ids || !type.row_ids) return;
  out.ids.resize(out.rows.size());
  translate(type.row_ids, out.rows, out.ids);
}

void check_request(const std::vector<uint64_t>& num_nodes, const std::vector<SampleEdgeType>& edge_types,
                   const std::vector<SampleSeeds>& seeds, const SampleOptions& options) {
  for (const auto& e : edge_types) {
    if (e.frontier_type >= num_nodes.size() || e.neighbour_type >= num_nodes.size())
      throw std::invalid_argument("an edge type names a node type that is not there");
    if (e.fanouts.size() != edge_types.front().fanouts.size())
      throw std::invalid_argument("every edge type needs the same number of hops: one has " +
                                  std::to_string(edge_types.front().fanouts.size()) + ", another " +
                                  std::to_string(e.fanouts.size()));
    if (e.topology->num_nodes > num_nodes[e.frontier_type] ||
        e.topology->num_other > num_nodes[e.neighbour_type])
      throw std::invalid_argument(e.topology->name + ": has more nodes than its node types");
    if ((e.edge_time || e.node_time) && !options.disjoint)
      throw std::invalid_argument("sampling by time needs disjoint=True: each seed has a time of its own");
  }
  size_t num_seeds = 0;
  for (const auto& s : seeds) {
    num_seeds += s.size;
    if (num_seeds >= size_t{1} << 31) throw std::length_error("2^31 or more seeds; use smaller batches");
    if (s.type >= num_nodes.size()) throw std::invalid_argument("seeds name a node type that is not there");
    check_ids(s.nodes, s.size, num_nodes[s.type], "seed");
  }
}

}  // namespace

Sample sample(const std::vector<uint64_t>& num_nodes, const std::vector<SampleEdgeType>& edge_types,
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
      const SampleEdgeType& type = edge_types[e];
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
          .weights = type.weights,
          .edge_time = type.edge_time,
          .node_time = type.node_time,
          .strategy = options.strategy,
      };
      pick(*type.topology, frontier, static_cast<int64_t>(from.frontier_begin()), pick_options, out.rows,
           out.neighbour, out.frontier);
      out.per_hop.push_back(static_cast<int64_t>(out.rows.size() - base));
      sets[type.neighbour_type].number(out.neighbour, base, out.frontier, &from.out().batch,
                                       hop * edge_types.size() + e == last_use[type.neighbour_type]);
      name_edges(type, out, base, options.want_edge_ids);
    }
    for (auto& set : sets) set.end_hop();
  }
  return result;
}

}  // namespace gz
