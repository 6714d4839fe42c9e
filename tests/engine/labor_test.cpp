// LABOR hop by hop, for the sanitizers: what defines a sample of it, its inclusion probabilities, and the
// same result for any number of threads. Accuracy and agreement with DGL are tested in Python.
#include "sample/labor.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/threads.h"
#include "checks.h"

namespace {

using namespace gz;
using gz_test::check_throws, gz_test::same;

struct Arrays {
  std::vector<uint64_t> indptr{0};
  std::vector<uint32_t> indices;
};

std::shared_ptr<Topology> topology_of(std::shared_ptr<Arrays> a, uint64_t others) {
  auto t = std::make_shared<Topology>();
  t->num_nodes = a->indptr.size() - 1;
  t->num_other = others;
  t->num_edges = t->num_edge_ids = a->indices.size();
  t->indptr = a->indptr.data();
  t->indices = IdArray{a->indices.data(), false};
  t->name = "arrays";
  t->owner = std::move(a);
  return t;
}

std::shared_ptr<Topology> random_graph(uint64_t nodes, uint64_t others, uint64_t degree, uint64_t seed) {
  auto a = std::make_shared<Arrays>();
  Rng rng(seed);
  for (uint64_t v = 0; v < nodes; ++v) {
    const uint64_t d = v == 3 ? 40 * degree : rng.below(2 * degree);  // a hub
    for (uint64_t i = 0; i < d; ++i) a->indices.push_back(static_cast<uint32_t>(rng.below(others)));
    a->indptr.push_back(a->indices.size());
  }
  return topology_of(a, others);
}

struct Request {
  std::vector<uint64_t> num_nodes{2000, 500};
  std::vector<EdgeType> types;
  std::vector<int64_t> seeds{3, 10, 3, 1999, 7};
  LaborHops options{.random_seed = 9};

  Request() {
    const uint64_t degrees[] = {6, 4, 9};
    const std::pair<size_t, size_t> ends[] = {{0, 0}, {0, 1}, {1, 0}};
    for (size_t e = 0; e < 3; ++e) {
      const auto [near, far] = ends[e];
      types.push_back({.topology = random_graph(num_nodes[near], num_nodes[far], degrees[e], e + 1),
                       .frontier_type = near,
                       .neighbour_type = far,
                       .fanouts = {8, 3, 2}});
    }
  }
  LaborSample sample() const {
    return labor_sample(num_nodes, types, {{.type = 0, .nodes = seeds.data(), .size = seeds.size()}},
                        options);
  }
};

// By neighbour, between which of its probabilities its random number lies: below all that let it in, above
// all that did not.
struct Bounds {
  double in = 2, out = 0;
};
using BoundsOf = std::map<std::pair<size_t, uint64_t>, Bounds>;  // by node type and node

// Edges [first, last) of a hop against the lists of its frontier, which they must be a part of, in order.
void judge_hop(const Request& r, const LaborSample& s, size_t e, size_t hop, std::pair<size_t, size_t> edges,
               std::pair<size_t, size_t> frontier, BoundsOf& bounds) {
  const EdgeType& type = r.types[e];
  const SampledEdges& got = s.edges[e];
  size_t at = edges.first;
  for (size_t f = frontier.first; f < frontier.second; ++f) {
    const auto list = type.topology->edges_of(static_cast<uint64_t>(s.nodes[type.frontier_type].ids[f]));
    const double p = static_cast<double>(type.fanouts[hop]) / static_cast<double>(list.size());
    for (uint64_t position = list.begin; position < list.end; ++position) {
      const uint64_t node = type.topology->indices[position];
      const bool taken = at < edges.second && got.frontier[at] == static_cast<int64_t>(f) &&
                         got.rows[at] == static_cast<int64_t>(position);
      Bounds& b = bounds[{type.neighbour_type, node}];
      if (!taken) {
        CHECK(p < 1);
        b.out = std::max(b.out, p);
        continue;
      }
      const auto local = static_cast<size_t>(got.neighbour[at++]);
      CHECK(local < s.nodes[type.neighbour_type].ids.size());
      CHECK(s.nodes[type.neighbour_type].ids[local] == static_cast<int64_t>(node));
      b.in = std::min(b.in, p);
    }
  }
  CHECK(at == edges.second);
}

void check_bounds(const BoundsOf& bounds) {
  for (const auto& [node, b] : bounds) CHECK(b.out < b.in);
}

// An edge is taken by a number of its neighbour alone, which all nodes of a hop share.
void judge(const Request& r, const LaborSample& s) {
  std::vector<size_t> begin(r.num_nodes.size(), 0), done(r.types.size(), 0);
  BoundsOf all;
  for (size_t hop = 0; hop < 3; ++hop) {
    BoundsOf own;
    for (size_t e = 0; e < r.types.size(); ++e) {
      const size_t from = r.types[e].frontier_type;
      const size_t end = done[e] + static_cast<size_t>(s.edges[e].per_hop[hop]);
      judge_hop(r, s, e, hop, {done[e], end},
                {begin[from], begin[from] + static_cast<size_t>(s.nodes[from].per_hop[hop])},
                r.options.layer_dependency ? all : own);
      done[e] = end;
    }
    for (size_t t = 0; t < begin.size(); ++t) begin[t] += static_cast<size_t>(s.nodes[t].per_hop[hop]);
    check_bounds(own);
  }
  check_bounds(all);
  for (size_t e = 0; e < r.types.size(); ++e) CHECK(done[e] == s.edges[e].rows.size() && done[e] > 0);
}

void test_nodes_of_a_hop_share_their_neighbours_numbers() {
  for (bool layer_dependency : {false, true})
    for (double second_share : {0.0, 0.4}) {
      Request r;
      r.options.layer_dependency = layer_dependency;
      r.options.second_seed = 4;
      r.options.second_share = second_share;
      const LaborSample s = r.sample();
      judge(r, s);
      for (size_t t = 0; t < 2; ++t) {
        std::vector<int64_t> ids(s.nodes[t].ids.begin(), s.nodes[t].ids.end());
        if (t == 0) {
          CHECK(std::equal(r.seeds.begin(), r.seeds.end(), ids.begin()));
          ids.erase(ids.begin() + 2);  // a seed given twice
        }
        std::sort(ids.begin(), ids.end());
        CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
      }
    }
}

void test_any_number_of_threads_gives_the_same() {
  Request r;
  std::vector<float> weights(r.types[0].topology->num_edges);
  Rng rng(5);
  for (float& w : weights) w = static_cast<float>(rng.unit());
  r.types[0].columns.weights = {weights.data(), DType::kFloat32, weights.size()};
  set_num_threads(1);
  const LaborSample want = r.sample();
  for (int threads : {2, 7}) {
    set_num_threads(threads);
    const LaborSample got = r.sample();
    for (size_t t = 0; t < 2; ++t) CHECK(same(want.nodes[t].ids, got.nodes[t].ids));
    for (size_t e = 0; e < 3; ++e) {
      CHECK(same(want.edges[e].rows, got.edges[e].rows));
      CHECK(same(want.edges[e].neighbour, got.edges[e].neighbour));
      CHECK(same(want.edges[e].frontier, got.edges[e].frontier));
      CHECK(same(want.importance[e], got.importance[e]));
    }
    CHECK(want.importance[0].size() == want.edges[0].rows.size() && want.importance[1].size() == 0);
  }
}

// k of d neighbours, each with probability k / d. The seeds are fixed, so this passes always or never.
void test_edges_are_taken_with_the_probability_they_should_be() {
  constexpr int kRounds = 3000;
  constexpr size_t kDegree = 40, kFanout = 10;
  auto a = std::make_shared<Arrays>();
  for (uint32_t i = 0; i < kDegree; ++i) a->indices.push_back(i);
  a->indptr.assign(kDegree + 1, kDegree);  // node 0 has them all
  a->indptr[0] = 0;
  const EdgeType type{.topology = topology_of(a, kDegree), .fanouts = {kFanout}};
  const int64_t seed = 0;
  std::vector<int> taken(kDegree, 0);
  for (int round = 0; round < kRounds; ++round) {
    const LaborSample s = labor_sample({kDegree}, {type}, {{.type = 0, .nodes = &seed, .size = 1}},
                                       {.random_seed = static_cast<uint64_t>(round)});
    for (int64_t row : s.edges[0].rows) ++taken[static_cast<size_t>(row)];
  }
  const double p = static_cast<double>(kFanout) / kDegree, sigma = std::sqrt(kRounds * p * (1 - p));
  double chi = 0;
  for (int n : taken) {
    const double off = (n - kRounds * p) / sigma;
    CHECK(std::abs(off) < 4.5);
    chi += off * off;
  }
  CHECK(chi < 85);  // 40 degrees of freedom: once in 20,000
}

void test_importance_makes_up_for_chance() {
  Request r;
  const Topology& t = *r.types[0].topology;
  std::vector<double> weights(t.num_edges);
  Rng rng(6);
  for (double& w : weights) w = rng.below(4) == 0 ? 0 : rng.unit();
  r.types.resize(1);
  r.types[0].columns.weights = {weights.data(), DType::kFloat64, weights.size()};
  const LaborSample s = r.sample();
  const SampledEdges& edges = s.edges[0];
  std::map<int64_t, std::pair<double, int>> of;  // by frontier node: sum and number
  for (size_t i = 0; i < edges.rows.size(); ++i) {
    CHECK(weights[static_cast<size_t>(edges.rows[i])] > 0);
    auto& [sum, count] = of[edges.frontier[i]];
    sum += s.importance[0][i];
    ++count;
  }
  CHECK(!of.empty());
  for (const auto& [node, got] : of) CHECK(std::abs(got.first / got.second - 1) < 1e-5);
}

void test_bad_requests_are_exceptions() {
  Request r;
  r.seeds[1] = 2000;
  check_throws<std::out_of_range>([&] { r.sample(); });
  r.seeds[1] = 10;
  const std::vector<int64_t> times(r.num_nodes[0], 1);
  r.types[0].columns.node_time = {times.data(), DType::kInt64, times.size()};
  check_throws<std::invalid_argument>([&] { r.sample(); });
  r.types[0].columns.node_time = {};
  r.types[1].fanouts.pop_back();
  check_throws<std::invalid_argument>([&] { r.sample(); });
}

}  // namespace

int main() {
  test_nodes_of_a_hop_share_their_neighbours_numbers();
  test_any_number_of_threads_gives_the_same();
  test_edges_are_taken_with_the_probability_they_should_be();
  test_importance_makes_up_for_chance();
  test_bad_requests_are_exceptions();
}
