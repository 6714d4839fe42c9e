// LABOR hop by hop: which nodes are expanded, how they are numbered and in which order they come out is as in
// sampler.cpp; only the picks differ.
#include <cstring>
#include <stdexcept>

#include "base/rng.h"
#include "base/threads.h"
#include "read/check.h"
#include "sample/labor.h"
#include "sample/node_table.h"

namespace gz {
namespace {

// The nodes of one type that were met so far.
struct MetNodes {
  SampledNodes& out;
  NodeTable<uint64_t> table;
  size_t begin = 0, end = 0;  // the frontier

  void add_seeds(const SampleSeeds& seeds, uint64_t num_nodes) {
    const size_t base = out.ids.size();
    out.ids.resize(base + seeds.size);
    if (seeds.size) std::memcpy(out.ids.data() + base, seeds.nodes, seeds.size * sizeof(int64_t));
    check_ids(out.ids.data() + base, seeds.size, num_nodes, "seed");
    for (size_t i = base; i < out.ids.size(); ++i)
      table.insert_one(static_cast<uint64_t>(out.ids[i]), static_cast<uint32_t>(i));
  }

  void end_hop() {
    begin = end;
    end = out.ids.size();
    out.per_hop.push_back(static_cast<int64_t>(end - begin));
  }

  // Global ids become numbers.
  void number(int64_t* ids, size_t count) {
    if (count == 0) return;
    const size_t base = out.ids.size();
    table.number(count, static_cast<uint32_t>(base), false, IdsToNumber<uint64_t>{ids, out.ids});
  }
};

template <class T>
void append_to(PooledArray<T>& to, const PooledArray<T>& from) {
  if (from.size() == 0) return;
  const size_t base = to.size();
  to.resize(base + from.size());
  std::memcpy(to.data() + base, from.data(), from.size() * sizeof(T));
}

void expand_hop(const EdgeType& type, size_t hop, const LaborHops& options, MetNodes& from, MetNodes& to,
                SampledEdges& out, PooledArray<float>& importance) {
  const auto named = [&](uint64_t seed) {
    return fold(options.layer_dependency ? seed : fold(seed, hop), type.neighbour_type);
  };
  LaborPicks picks = labor_picks(type, type.fanouts[hop],
                                 {.nodes = from.out.ids.data() + from.begin, .size = from.end - from.begin},
                                 {.importance = 0,
                                  .random_seed = named(options.random_seed),
                                  .second_seed = named(options.second_seed),
                                  .second_share = options.second_share});
  const size_t base = out.rows.size();
  for (int64_t& owner : picks.owners) owner += static_cast<int64_t>(from.begin);
  append_to(out.rows, picks.positions);
  append_to(out.neighbour, picks.neighbours);
  append_to(out.frontier, picks.owners);
  append_to(importance, picks.importance);
  name_edges(type, base, options.want_edge_ids, out);
  out.per_hop.push_back(static_cast<int64_t>(out.rows.size() - base));
  to.number(out.neighbour.data() + base, out.rows.size() - base);
}

}  // namespace

LaborSample labor_sample(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& edge_types,
                         const std::vector<SampleSeeds>& seeds, const LaborHops& options) {
  const size_t hops = edge_types.empty() ? 0 : edge_types.front().fanouts.size();
  check_edge_types(num_nodes, edge_types, hops);
  for (const EdgeType& e : edge_types)
    if (e.columns.edge_time || e.columns.node_time)
      throw std::invalid_argument("LABOR cannot sample by time: seeds share no neighbours there");
  LaborSample result;
  result.nodes.resize(num_nodes.size());
  result.edges.resize(edge_types.size());
  result.importance.resize(edge_types.size());
  std::vector<MetNodes> met;
  met.reserve(num_nodes.size());
  for (SampledNodes& nodes : result.nodes) met.push_back({.out = nodes});
  size_t num_seeds = 0;
  for (const SampleSeeds& s : seeds) {
    if (s.type >= num_nodes.size()) throw std::invalid_argument("seeds name a node type that is not there");
    num_seeds += s.size;
    if (num_seeds >= size_t{1} << 31) throw std::length_error("2^31 or more seeds; use smaller batches");
    met[s.type].add_seeds(s, num_nodes[s.type]);
  }
  for (MetNodes& m : met) m.end_hop();
  for (size_t hop = 0; hop < hops; ++hop) {
    for (size_t e = 0; e < edge_types.size(); ++e)
      expand_hop(edge_types[e], hop, options, met[edge_types[e].frontier_type],
                 met[edge_types[e].neighbour_type], result.edges[e], result.importance[e]);
    for (MetNodes& m : met) m.end_hop();
  }
  return result;
}

}  // namespace gz
