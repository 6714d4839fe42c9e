// The engine without Python, for the sanitizers: files that are damaged, arguments no machine could serve,
// calls that are ended. Each must be an exception of its kind, never a wild read, and never without end.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "checks.h"
#include "memory/memory.h"
#include "query/edges.h"
#include "query/induced.h"
#include "sample/layer.h"
#include "sample/negatives.h"
#include "sample/sampler.h"
#include "walk/walker.h"

namespace {

using namespace gz;

template <class Error, class Fn>
void check_throws(int line, Fn&& fn) {
  try {
    fn();
  } catch (const Error&) {
    return;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "line %d: another exception: %s\n", line, e.what());
    std::exit(1);
  }
  std::fprintf(stderr, "line %d: expected an exception\n", line);
  std::exit(1);
}
#define CHECK_THROWS(Error, ...) check_throws<Error>(__LINE__, [&] { __VA_ARGS__; })

// Every node has `degree` neighbours, the next ones round a ring. As an `out` file of a store: its edge_ids
// are rows, and another topology names them.
struct Ring {
  std::vector<uint64_t> indptr;
  std::vector<uint32_t> indices, edge_ids;
  std::vector<float> weights;
  std::vector<AliasEntry> alias;
  std::shared_ptr<Topology> topology = std::make_shared<Topology>();

  explicit Ring(uint64_t nodes = 100, uint64_t degree = 3) {
    for (uint64_t v = 0; v <= nodes; ++v) indptr.push_back(v * degree);
    for (uint64_t v = 0; v < nodes; ++v) {
      for (uint64_t i = 1; i <= degree; ++i) indices.push_back(static_cast<uint32_t>((v + i) % nodes));
      std::sort(indices.end() - static_cast<ptrdiff_t>(degree), indices.end());
    }
    for (uint64_t e = 0; e < nodes * degree; ++e) {
      edge_ids.push_back(static_cast<uint32_t>(nodes * degree - 1 - e));
      weights.push_back(1);
      alias.push_back({0, static_cast<uint32_t>((e + 1) % degree)});
    }
    topology->num_nodes = topology->num_other = nodes;
    topology->num_edges = topology->num_edge_ids = nodes * degree;
    topology->sorted = topology->ids_are_in_rows = true;
    topology->indptr = indptr.data();
    topology->indices = {indices.data(), false};
    topology->edge_ids = {edge_ids.data(), false};
    topology->name = "ring";
  }
};

std::vector<int64_t> all_nodes(uint64_t n) {
  std::vector<int64_t> ids(n);
  for (uint64_t i = 0; i < n; ++i) ids[i] = static_cast<int64_t>(i);
  return ids;
}

EdgeType edge_type(const Ring& ring, std::vector<int64_t> fanouts) {
  EdgeType e;
  e.topology = ring.topology;
  e.fanouts = std::move(fanouts);
  return e;
}

Sample run(const EdgeType& e, const std::vector<int64_t>& seeds, bool replace = false) {
  return sample({e.topology->num_nodes}, {e}, {{0, seeds.data(), seeds.size(), nullptr}},
                {.replace = replace});
}

void test_a_damaged_edge_id_is_an_error_wherever_it_is_met() {
  Ring ring;
  const auto nodes = all_nodes(100);
  const std::vector<double> weights(300, 1.0);
  const std::vector<int64_t> times(300, 0), seed_times(100, 5);
  ring.edge_ids[150] = 300;  // one past the last: what a reader that forgets to look takes for a row
  const EdgeType plain = edge_type(ring, {-1});
  EdgeType weighted = plain, timed = plain;
  weighted.columns.weights = {weights.data(), DType::kFloat64, weights.size()};
  timed.columns.edge_time = {times.data(), DType::kInt64, times.size()};
  const std::vector<LayerSeeds> seeds = {{nodes.data(), nodes.size()}};
  const ChosenNodes chosen{nodes.data(), nullptr, nodes.size()};
  CHECK_THROWS(FormatError, run(plain, nodes));
  CHECK_THROWS(FormatError, run(weighted, nodes, true));
  CHECK_THROWS(FormatError, sample({100}, {timed}, {{0, nodes.data(), nodes.size(), seed_times.data()}},
                                   {.disjoint = true}));
  for (const EdgeType& e : {plain, weighted}) {
    CHECK_THROWS(FormatError, sample_layer({100}, {{.type = e}}, seeds, {.numbered = true}));
    CHECK_THROWS(FormatError, labor_layer({100}, {{.type = e}}, seeds, {}));
  }
  CHECK_THROWS(FormatError, induced_edges(*ring.topology, chosen, chosen));
  ring.edge_ids[150] = 149;

  // The same id read through another topology, which names the rows.
  Ring names;
  names.edge_ids[7] = 0xFFFFFFF0;
  EdgeType named = plain;
  named.ids = names.topology;
  CHECK_THROWS(FormatError, run(named, nodes));
  CHECK_THROWS(FormatError, sample_layer({100}, {{.type = named}}, seeds, {}));
  Ring few(50);
  named.ids = few.topology;
  CHECK_THROWS(std::invalid_argument, run(named, nodes));
}

void test_damaged_neighbours_and_aliases_are_errors() {
  Ring ring;
  const auto nodes = all_nodes(100);
  const ChosenNodes chosen{nodes.data(), nullptr, nodes.size()};
  ring.topology->weights = ring.weights.data();
  ring.topology->alias = ring.alias.data();
  for (double q : {1.0, 0.5}) random_walk(*ring.topology, nodes.data(), 100, 20, 1, q, 0);
  ring.alias[0].partner = 3;
  for (double q : {1.0, 0.5})
    CHECK_THROWS(FormatError, random_walk(*ring.topology, nodes.data(), 100, 20, 1, q, 0));
  ring.topology->weights = nullptr;
  ring.topology->alias = nullptr;
  ring.indices[150] = 100;
  const std::vector<SubgraphEdgeType> types = {{ring.topology, 0, 0}};
  CHECK_THROWS(FormatError, induced_edges(*ring.topology, chosen, chosen));
  CHECK_THROWS(FormatError, subgraph_edges({100}, types, {chosen}));
  CHECK_THROWS(FormatError, invert(*ring.topology));
  CHECK_THROWS(FormatError, random_walk(*ring.topology, nodes.data(), 100, 20, 0.1, 10, 0));
  const std::vector<SubgraphEdgeType> unknown = {{ring.topology, 0, 5}};
  CHECK_THROWS(std::invalid_argument, subgraph_edges({100}, unknown, {chosen}));
}

void test_types_that_do_not_fit_are_refused() {
  Ring ring;
  const std::vector<int64_t> last = {150};
  const EdgeType e = edge_type(ring, {2});
  // A topology of fewer nodes than its type has no list for the last of them.
  CHECK_THROWS(std::invalid_argument, sample({200}, {e}, {{0, last.data(), 1, nullptr}}, {}));
  CHECK_THROWS(std::invalid_argument, sample_layer({200}, {{.type = e}}, {{last.data(), 1}}, {}));
  CHECK_THROWS(std::invalid_argument, run(edge_type(ring, {-2}), {1}));
  CHECK_THROWS(std::invalid_argument, sample_layer({100}, {{.type = edge_type(ring, {-2})}}, {{}}, {}));
  const std::vector<double> short_weights(299, 1.0);
  EdgeType weighted = e;
  weighted.columns.weights = {short_weights.data(), DType::kFloat64, short_weights.size()};
  CHECK_THROWS(std::invalid_argument, run(weighted, {1}));
}

void test_what_no_memory_could_hold_is_refused_before_it_is_drawn() {
  Ring ring;
  const Topology& t = *ring.topology;
  const auto nodes = all_nodes(100);
  const std::vector<double> weights(300, 1.0);
  for (const int64_t huge : {int64_t{1} << 40, int64_t{1} << 60, int64_t{1} << 62, INT64_MAX}) {
    EdgeType e = edge_type(ring, {huge});
    const std::vector<LayerSeeds> seeds = {{nodes.data(), nodes.size()}};
    CHECK_THROWS(std::bad_alloc, sample_layer({100}, {{.type = e}}, seeds, {.replace = true}));
    CHECK_THROWS(std::length_error, run(e, nodes, true));  // local ids have 31 bits
    e.columns.weights = {weights.data(), DType::kFloat64, weights.size()};
    CHECK_THROWS(MemoryShortage, sample_layer({100}, {{.type = e}}, seeds, {.replace = true}));
    CHECK_THROWS(MemoryShortage, run(e, nodes, true));
    CHECK(run(e, nodes).edges[0].rows.size() == 300);  // without replacement there are only so many
  }
  for (const size_t huge :
       {size_t{1} << 40, (size_t{1} << 60) + 1, size_t{1} << 63, SIZE_MAX - 1, SIZE_MAX}) {
    for (size_t starts : {0, 1, 100}) {
      CHECK_THROWS(MemoryShortage, random_walk(t, nodes.data(), starts, huge, 1, 1, 0));
      CHECK_THROWS(MemoryShortage, random_walk(t, nodes.data(), starts, huge, 2, 1, 0));
      for (bool replace : {false, true})
        CHECK_THROWS(MemoryShortage, random_fanout(t, nodes.data(), starts, huge, replace, 0));
    }
    CHECK_THROWS(MemoryShortage, draw_negatives({.num_nodes = 100}, huge));
    CHECK_THROWS(MemoryShortage, PooledArray<int64_t>{huge});
    MemoryClaim claim("a test");
    claim.add(1, 8);
    CHECK_THROWS(MemoryShortage, claim.add(huge, 8));
  }
}

void test_a_step_back_is_found_however_unlikely_it_is() {
  // 0 and 1 lead to each other and nowhere else: every step after the first goes back.
  Ring pair(2, 1);
  const std::vector<int64_t> starts(200, 0);
  for (const double p : {1e9, 1e300}) {
    const auto walks = random_walk(*pair.topology, starts.data(), starts.size(), 50, p, 1, 3);
    for (size_t i = 0; i < walks.size(); ++i) CHECK(walks[i] == static_cast<int64_t>(i % 51 % 2));
  }
  CHECK_THROWS(std::invalid_argument, random_walk(*pair.topology, starts.data(), 1, 5, 1,
                                                  std::numeric_limits<double>::denorm_min(), 0));
}

void test_lists_that_do_not_ascend_as_they_say_end_no_walk() {
  Ring ring(1000, 40);
  Rng rng(1);
  for (auto& v : ring.indices) v = static_cast<uint32_t>(rng.below(1000));
  const auto nodes = all_nodes(1000);
  for (const double p : {1e-6, 1e6})
    for (const double q : {1e-6, 1e6}) random_walk(*ring.topology, nodes.data(), 1000, 10, p, q, 0);
}

void test_weights_of_any_size_are_drawn_by() {
  Ring ring(64, 20);
  const auto nodes = all_nodes(64);
  const double tiny = std::numeric_limits<double>::denorm_min(), large = 1e308;
  for (const double w : {tiny, 1e-300, 1.0, large}) {
    const std::vector<double> weights(64 * 20, w);
    EdgeType e = edge_type(ring, {1});
    e.columns.weights = {weights.data(), DType::kFloat64, weights.size()};
    for (bool replace : {false, true}) {
      const auto rows = run(e, nodes, replace).edges[0].rows.size();
      CHECK(rows == 64);
      std::vector<bool> seen(20);
      for (int64_t seed = 0; seed < 8; ++seed) {
        const Sample s = sample({64}, {e}, {{0, nodes.data(), 64, nullptr}},
                                {.replace = replace, .rng_seed = static_cast<uint64_t>(seed)});
        for (int64_t row : s.edges[0].rows) seen[static_cast<size_t>(row) % 20] = true;
      }
      CHECK(std::count(seen.begin(), seen.end(), true) == 20);
    }
    const Layer layer = labor_layer({64}, {{.type = e}}, {{nodes.data(), 64}}, {});
    CHECK(layer.edges[0].rows.size() > 8 && layer.edges[0].rows.size() < 400);
    for (float importance : layer.edges[0].importance) CHECK(importance > 0 && importance < 1e6f);
  }
}

void test_few_candidates_for_many_threads() {
  Ring ring(10, 1);
  set_num_threads(8);
  CHECK(run(edge_type(ring, {1, 1}), {3}).nodes[0].ids.size() == 3);
  set_num_threads(4);
}

// ---- ended from outside ----

struct Stop : std::exception {};
std::atomic<int> asked{0};

void test_a_call_that_lasts_can_be_ended() {
  using Clock = std::chrono::steady_clock;
  set_interrupt_check([] {
    if (++asked >= 2) throw Stop();
  });
  for (int threads : {1, 4}) {
    set_num_threads(threads);
    asked = 0;
    // Between chunks, without end.
    CHECK_THROWS(Stop, for (;;) parallel_for(64, 1, [](size_t, size_t) { ::usleep(1000); }));
    // Inside one chunk, in this thread and in others.
    asked = 0;
    CHECK_THROWS(Stop, parallel_for(4, 1, [](size_t, size_t) {
                   const auto until = Clock::now() + std::chrono::seconds(600);
                   while (Clock::now() < until) {
                     ::usleep(1000);
                     poll();
                   }
                 }));
    // While this thread waits for another that is in a long chunk.
    asked = 0;
    const auto caller = std::this_thread::get_id();
    if (threads > 1)
      CHECK_THROWS(Stop, for (;;) parallel_for(2, 1, [&](size_t, size_t) {
                     ::usleep(1000);
                     while (std::this_thread::get_id() != caller) {
                       ::usleep(1000);
                       poll();
                     }
                   }));
    Ring pair(2, 1);
    const std::vector<int64_t> start = {0};
    for (double p : {1.0, 2.0}) {
      asked = 0;
      CHECK_THROWS(Stop,
                   for (uint64_t i = 0;; ++i) random_walk(*pair.topology, start.data(), 1, 1 << 16, p, 1, i));
    }
  }
  // A thread that is not the main one is never asked.
  asked = 0;
  std::thread([] {
    const auto until = Clock::now() + std::chrono::milliseconds(500);
    while (Clock::now() < until) parallel_for(8, 1, [](size_t, size_t) { ::usleep(500); });
  }).join();
  CHECK(asked == 0);
  set_interrupt_check(nullptr);
}

// ---- how much memory there is ----

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

void test_memory_is_what_machine_and_containers_leave() {
  const std::filesystem::path at = "/tmp/gz_damage_test_" + std::to_string(getpid());
  const std::string proc = at / "proc", groups = at / "cgroup";
  const auto room = [&] { return available_memory(proc, groups); };
  CHECK(room() == uint64_t{1} << 62);
  write(at / "proc/meminfo", "MemTotal: 900 kB\nMemAvailable:     100 kB\nSwapFree: 20 kB\n");
  CHECK(room() == 120 * 1024);
  write(at / "proc/self/cgroup", "1:name=x:/\n0::/a/b\n");
  write(at / "cgroup/a/b/memory.max", "max\n");
  write(at / "cgroup/a/b/memory.current", "10\n");
  CHECK(room() == 120 * 1024);
  write(at / "cgroup/a/memory.max", "10000\n");
  write(at / "cgroup/a/memory.current", "4000\n");
  write(at / "cgroup/a/memory.stat", "anon 1\nactive_file 100\ninactive_file 23\n");
  write(at / "cgroup/a/memory.swap.max", "0\n");
  CHECK(room() == 6123);
  write(at / "cgroup/a/memory.current", "20000\n");
  CHECK(room() == 0);
  write(at / "proc/self/cgroup", "4:cpu,memory:/c\n");
  write(at / "cgroup/memory/c/memory.limit_in_bytes", "5000\n");
  write(at / "cgroup/memory/c/memory.usage_in_bytes", "3000\n");
  write(at / "cgroup/memory/c/memory.stat", "total_active_file 7\nactive_file 1000\n");
  CHECK(room() == 2007);
  std::filesystem::remove_all(at);
}

}  // namespace

int main() {
  set_num_threads(4);
  test_a_damaged_edge_id_is_an_error_wherever_it_is_met();
  test_damaged_neighbours_and_aliases_are_errors();
  test_types_that_do_not_fit_are_refused();
  test_what_no_memory_could_hold_is_refused_before_it_is_drawn();
  test_a_step_back_is_found_however_unlikely_it_is();
  test_lists_that_do_not_ascend_as_they_say_end_no_walk();
  test_weights_of_any_size_are_drawn_by();
  test_few_candidates_for_many_threads();
  test_memory_is_what_machine_and_containers_leave();
  test_a_call_that_lasts_can_be_ended();
  std::puts("damage_test: all passed");
}
