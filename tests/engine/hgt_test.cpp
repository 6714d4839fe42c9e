// Sampling by budget, for the sanitizers: results agree between numbers of threads, and bad input is an
// exception. Behaviour is tested in Python, against the paper (tests/pyg/loader/test_pyg_hgt.py).
#include "sample/hgt.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "checks.h"

namespace {

using namespace gz;
using gz_test::check_throws, gz_test::same;

struct Arrays {
  std::vector<uint64_t> indptr{0};
  std::vector<uint32_t> indices;
};

std::shared_ptr<Topology> random_graph(uint64_t nodes, uint64_t others, uint64_t degree, uint64_t seed) {
  auto a = std::make_shared<Arrays>();
  Rng rng(seed);
  for (uint64_t v = 0; v < nodes; ++v) {
    const uint64_t d = v == 3 ? 40 * degree : rng.below(2 * degree);  // a hub
    for (uint64_t i = 0; i < d; ++i) a->indices.push_back(static_cast<uint32_t>(rng.below(others)));
    a->indptr.push_back(a->indices.size());
  }
  auto t = std::make_shared<Topology>();
  t->num_nodes = nodes;
  t->num_other = others;
  t->num_edges = t->num_edge_ids = a->indices.size();
  t->indptr = a->indptr.data();
  t->indices = IdArray{a->indices.data(), false};
  t->name = "arrays";
  t->owner = a;
  return t;
}

struct Request {
  std::vector<uint64_t> num_nodes{2000, 500};
  std::vector<EdgeType> types;
  std::vector<int64_t> seeds{3, 10, 3, 1999, 7};
  std::vector<std::vector<int64_t>> num_samples{{40, 300, 5000}, {30, 0, 600}};
  HgtOptions options{.rng_seed = 9};

  Request() {
    const uint64_t degrees[] = {6, 4, 9};
    const std::pair<size_t, size_t> ends[] = {{0, 0}, {0, 1}, {1, 0}};
    for (size_t e = 0; e < 3; ++e) {
      EdgeType type;
      type.frontier_type = ends[e].first;
      type.neighbour_type = ends[e].second;
      type.topology = random_graph(num_nodes[ends[e].first], num_nodes[ends[e].second], degrees[e], e + 1);
      types.push_back(std::move(type));
    }
  }
  HgtSample sample(size_t seed_type = 0) const {
    return hgt_sample(num_nodes, types, {{.type = seed_type, .nodes = seeds.data(), .size = seeds.size()}},
                      num_samples, options);
  }
};

void test_any_number_of_threads_gives_the_same() {
  const Request request;
  set_num_threads(1);
  const HgtSample want = request.sample();
  CHECK(want.nodes[0].size() >= 5 + 40 + 300);
  for (int threads : {2, 7}) {
    set_num_threads(threads);
    const HgtSample got = request.sample();
    for (size_t t = 0; t < want.nodes.size(); ++t) CHECK(same(want.nodes[t], got.nodes[t]));
    for (size_t e = 0; e < want.edges.size(); ++e) {
      CHECK(want.edges[e].rows.size() > 0);
      CHECK(same(want.edges[e].rows, got.edges[e].rows));
      CHECK(same(want.edges[e].neighbour, got.edges[e].neighbour));
      CHECK(same(want.edges[e].frontier, got.edges[e].frontier));
    }
  }
}

void test_nodes_are_drawn_once() {
  const HgtSample sample = Request().sample();
  for (size_t t = 0; t < 2; ++t) {
    std::vector<int64_t> ids(sample.nodes[t].begin(), sample.nodes[t].end());
    if (t == 0) ids.erase(ids.begin() + 2);  // a seed given twice
    std::sort(ids.begin(), ids.end());
    CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
  }
}

void test_bad_requests_are_exceptions() {
  Request r;
  check_throws<std::invalid_argument>([&] { r.sample(2); });
  check_throws<std::out_of_range>([&] { r.sample(1); });  // 1999 is no node of that type
  r.num_samples[1].pop_back();
  check_throws<std::invalid_argument>([&] { r.sample(); });
  r.num_samples = {{1}, {-1}};
  check_throws<std::invalid_argument>([&] { r.sample(); });
  r.num_samples = {{1}};
  check_throws<std::invalid_argument>([&] { r.sample(); });
  r.num_samples = {{1}, {1}};
  r.options.most_neighbours = 0;
  check_throws<std::invalid_argument>([&] { r.sample(); });
}

void test_a_damaged_topology_is_an_error() {
  auto a = std::make_shared<Arrays>();
  a->indptr = {0, 2, 2};
  a->indices = {0, 77};
  auto t = std::make_shared<Topology>();
  t->num_nodes = t->num_other = 2;
  t->num_edges = t->num_edge_ids = 2;
  t->indptr = a->indptr.data();
  t->indices = IdArray{a->indices.data(), false};
  t->owner = a;
  EdgeType type;
  type.topology = t;
  const int64_t seed = 0;
  check_throws<FormatError>(
      [&] { hgt_sample({2}, {type}, {{.type = 0, .nodes = &seed, .size = 1}}, {{1}}, {}); });
}

}  // namespace

int main() {
  test_any_number_of_threads_gives_the_same();
  test_nodes_are_drawn_once();
  test_bad_requests_are_exceptions();
  test_a_damaged_topology_is_an_error();
}
