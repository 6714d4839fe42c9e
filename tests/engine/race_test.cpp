// Ids that another thread of the caller writes to while the engine reads them, for AddressSanitizer: every
// call gives what some of the ids seen meanwhile stand for, or std::out_of_range, and never follows a wild
// one.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "build/builder.h"
#include "checks.h"
#include "column/topology.h"
#include "query/edges.h"
#include "query/induced.h"
#include "query/two_way.h"
#include "read/gather.h"
#include "sample/layer.h"
#include "sample/sampler.h"
#include "walk/walker.h"

namespace {

using namespace gz;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kNodes = 1000, kDegree = 4, kEdges = kNodes * kDegree;
constexpr size_t kIds = 4000;

struct Graph {
  std::vector<uint64_t> indptr;
  std::vector<uint32_t> indices;
  std::shared_ptr<Topology> topology = std::make_shared<Topology>();

  Graph() {
    for (uint64_t v = 0; v <= kNodes; ++v) indptr.push_back(v * kDegree);
    for (uint64_t e = 0; e < kEdges; ++e) indices.push_back(static_cast<uint32_t>(mix64(e) % kNodes));
    topology->num_nodes = topology->num_other = kNodes;
    topology->num_edges = topology->num_edge_ids = kEdges;
    topology->indptr = indptr.data();
    topology->indices = {indices.data(), false};
    topology->name = "a graph";
  }
};

// Ids below kNodes, in which a thread puts wild ones and good ones in turn for as long as this lives.
class Disturbed {
 public:
  Disturbed() : ids_(kIds) {
    for (size_t i = 0; i < kIds; ++i) ids_[i] = good(i);
    writer_ = std::thread([this] {
      constexpr int64_t kWild[] = {-1,     INT64_MIN,        INT64_MAX,  int64_t{1} << 40,
                                   kEdges, int64_t{1} << 62, kNodes + 7, -(int64_t{1} << 40)};
      // Good for a while, or no call would get past its first look at them; then wild for a moment.
      for (uint64_t turn = 0; !stop_.load(std::memory_order_relaxed); ++turn) {
        wait(mix64(turn) % 200);
        for (size_t i = turn % 7; i < kIds; i += 7) store(i, kWild[turn % 8]);
        wait(mix64(turn) % 5);
        for (size_t i = turn % 7; i < kIds; i += 7) store(i, good(i));
      }
    });
  }
  ~Disturbed() {
    stop_ = true;
    writer_.join();
  }
  const int64_t* data() const { return ids_.data(); }

 private:
  static int64_t good(size_t i) { return static_cast<int64_t>(mix64(i) % kNodes); }
  static void wait(uint64_t microseconds) {
    const auto end = Clock::now() + std::chrono::microseconds(microseconds);
    while (Clock::now() < end) {
    }
  }
  void store(size_t i, int64_t value) { __atomic_store_n(&ids_[i], value, __ATOMIC_RELAXED); }

  std::vector<int64_t> ids_;
  std::atomic<bool> stop_{false};
  std::thread writer_;
};

void test_ids_changed_meanwhile_are_never_followed() {
  const Graph graph;
  const Topology& t = *graph.topology;
  const Disturbed disturbed;
  const int64_t* const ids = disturbed.data();
  const ChosenNodes chosen{ids, nullptr, kIds};
  const EdgeType type{.topology = graph.topology, .fanouts = {3, 2}};
  const EdgeType layer{.topology = graph.topology, .fanouts = {2}};
  const SubgraphEdgeType subgraph{graph.topology, 0, 0};
  const EdgeList edges{ids, ids, nullptr, kIds};
  std::vector<int64_t> out(kIds), other(kIds);
  const std::vector<char> rows(kNodes * 40);
  std::vector<char> gathered(kIds * 40);
  size_t all_passed = 0, all_refused = 0;
  const std::vector<std::function<void()>> calls = {
      [&] { sample({kNodes}, {type}, {{0, ids, kIds, nullptr}}, {}); },
      [&] { sample({kNodes}, {type}, {{0, ids, kIds, ids}}, {.disjoint = true}); },
      [&] { sample_layer({kNodes}, {{.type = layer}}, {{ids, kIds}}, {.numbered = true}); },
      [&] {
        sample_layer({kNodes}, {{.type = layer, .exclude = ids, .num_exclude = kIds}}, {{ids, kIds}}, {});
      },
      [&] { labor_layer({kNodes}, {{.type = layer}}, {{ids, kIds}}, {.importance = 1}); },
      [&] { random_walk(t, ids, kIds, 3, 1, 1, 0); },
      [&] { random_walk(t, ids, kIds, 3, 0.5, 2, 0); },
      [&] { random_walk(t, ids, kIds, 0, 0.5, 2, 0); },
      [&] { random_fanout(t, ids, kIds, 2, false, 0); },
      [&] { t.degrees(ids, kIds, out.data()); },
      [&] { induced_edges(t, chosen, chosen); },
      [&] { subgraph_edges({kNodes}, {subgraph}, {chosen}); },
      [&] { two_way_edges(edges, edges, kNodes, kNodes); },
      [&] { locate_edges(t, ids, kIds, out.data(), other.data()); },
      [&] { match_edges(t, ids, ids, kIds, out.data()); },
      [&] {
        Builder builder({.directory = "."});
        builder.add({.count = kIds, .wide = true, .src = ids, .dst = ids});
      },
      [&] { gather(rows.data(), kNodes, 40, ids, kIds, gathered.data()); },
  };
  for (const auto& call : calls) {
    size_t passed = 0, refused = 0;
    while (passed + refused < 60) try {
        call();
        ++passed;
      } catch (const std::out_of_range&) {
        ++refused;
      }
    all_passed += passed;
    all_refused += refused;
  }
  CHECK(all_passed > 0 && all_refused > 0);
  std::printf("%zu calls passed, %zu were refused\n", all_passed, all_refused);
}

}  // namespace

int main() {
#if defined(__SANITIZE_THREAD__)
  std::puts("race_test: the races are the point, ThreadSanitizer would report them");
#else
  set_num_threads(2);
  test_ids_changed_meanwhile_are_never_followed();
  std::puts("race_test: all passed");
#endif
}
