// The engine without Python, for the sanitizers: every path that takes memory, threads or a damaged file.
// Behaviour is tested in Python, against independent references; here it is enough that results agree between
// numbers of threads.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/cpus.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/threads.h"
#include "checks.h"
#include "column/feature.h"
#include "column/topology.h"
#include "column/verify.h"
#include "file/format.h"
#include "memory/pool.h"
#include "read/gather.h"
#include "sample/sampler.h"
#include "walk/walker.h"

namespace {

using namespace gz;
using gz_test::check_throws;

// A random graph with a hub, in memory.
struct Arrays {
  std::vector<uint64_t> indptr;
  std::vector<uint32_t> narrow;
  std::vector<uint64_t> wide;
  std::vector<AliasEntry> alias;
  std::vector<float> weights;
};

std::shared_ptr<Topology> make_graph(uint64_t nodes, uint64_t degree, uint64_t hub_degree, bool wide,
                                     bool weighted) {
  auto a = std::make_shared<Arrays>();
  Rng rng(7);
  a->indptr.push_back(0);
  for (uint64_t v = 0; v < nodes; ++v) {
    const uint64_t d = v == 3 ? hub_degree : v == 5 ? 0 : rng.below(2 * degree);
    for (uint64_t i = 0; i < d; ++i) {
      a->narrow.push_back(static_cast<uint32_t>(rng.below(nodes)));
      a->weights.push_back(static_cast<float>(rng.unit()));
      a->alias.push_back({static_cast<uint32_t>(rng.next()), static_cast<uint32_t>(rng.below(d))});
    }
    std::sort(a->narrow.end() - static_cast<ptrdiff_t>(d), a->narrow.end());
    a->indptr.push_back(a->narrow.size());
  }
  a->wide.assign(a->narrow.begin(), a->narrow.end());
  auto t = std::make_shared<Topology>();
  t->num_nodes = t->num_other = nodes;
  t->num_edges = t->num_edge_ids = a->narrow.size();
  t->sorted = true;
  t->indptr = a->indptr.data();
  t->indices = wide ? IdArray{a->wide.data(), true} : IdArray{a->narrow.data(), false};
  if (weighted) {
    t->weights = a->weights.data();
    t->alias = a->alias.data();
  }
  t->name = "test graph";
  t->owner = a;
  return t;
}

std::vector<int64_t> some_nodes(uint64_t nodes, size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> ids(count);
  for (auto& id : ids) id = static_cast<int64_t>(rng.below(nodes));
  return ids;
}

template <class T>
bool equal(const PooledArray<T>& a, const PooledArray<T>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

bool equal(const Sample& a, const Sample& b) {
  for (size_t i = 0; i < a.nodes.size(); ++i)
    if (!equal(a.nodes[i].ids, b.nodes[i].ids) || !equal(a.nodes[i].batch, b.nodes[i].batch)) return false;
  for (size_t i = 0; i < a.edges.size(); ++i)
    if (!equal(a.edges[i].neighbour, b.edges[i].neighbour) ||
        !equal(a.edges[i].frontier, b.edges[i].frontier) || !equal(a.edges[i].rows, b.edges[i].rows))
      return false;
  return true;
}

struct Case {
  bool wide, weighted, replace, disjoint, temporal;
};

Sample run_case(const Case& c, const std::shared_ptr<Topology>& t, const std::vector<int64_t>& seeds,
                int threads) {
  set_num_threads(threads);
  static std::vector<int64_t> times(200000, 5), seed_times(4096, 5);
  EdgeType e;
  e.topology = t;
  e.fanouts = {10, -1, 40};
  if (c.weighted) e.columns.weights = {t->weights, DType::kFloat32, t->num_edges};
  if (c.temporal) e.columns.node_time = {times.data(), DType::kInt64, times.size()};
  SampleOptions o;
  o.replace = c.replace;
  o.disjoint = c.disjoint;
  o.rng_seed = 11;
  return sample({t->num_nodes}, {e},
                {{0, seeds.data(), seeds.size(), c.temporal ? seed_times.data() : nullptr}}, o);
}

void test_sampling_agrees_for_any_number_of_threads() {
  for (bool wide : {false, true})
    for (bool weighted : {false, true})
      for (bool replace : {false, true})
        for (bool temporal : {false, true}) {
          const Case c{wide, weighted, replace, temporal, temporal};
          const auto t = make_graph(3000, 6, 2000, wide, weighted);
          auto seeds = some_nodes(t->num_nodes, 200, 1);
          seeds[1] = seeds[0] = 3;  // a hub, twice
          const Sample one = run_case(c, t, seeds, 1);
          CHECK(one.edges[0].rows.size() > 1000);
          for (int threads : {2, 4, 8}) CHECK(equal(one, run_case(c, t, seeds, threads)));
        }
}

void test_many_callers_at_once() {
  const auto t = make_graph(20000, 8, 10000, false, false);
  const Case c{};
  const auto seeds = some_nodes(t->num_nodes, 300, 2);
  const Sample expected = run_case(c, t, seeds, 4);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i)
    callers.emplace_back([&] {
      for (int j = 0; j < 3; ++j) CHECK(equal(expected, run_case(c, t, seeds, 4)));
    });
  for (auto& caller : callers) caller.join();
}

void test_a_forked_child_has_threads_of_its_own() {
  const auto t = make_graph(20000, 8, 10000, false, false);
  const auto seeds = some_nodes(t->num_nodes, 300, 2);
  const Sample expected = run_case({}, t, seeds, 4);
  const pid_t child = fork();
  if (child == 0) _exit(equal(expected, run_case({}, t, seeds, 4)) ? 0 : 1);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void test_walks_agree_for_any_number_of_threads() {
  for (bool wide : {false, true})
    for (bool weighted : {false, true})
      for (double q : {1.0, 0.5}) {
        const auto t = make_graph(3000, 6, 2000, wide, weighted);
        const auto starts = some_nodes(t->num_nodes, 5000, 3);
        constexpr size_t kLength = 12;
        set_num_threads(1);
        const auto one = random_walk(*t, starts.data(), starts.size(), kLength, 1, q, 9);
        set_num_threads(4);
        CHECK(equal(one, random_walk(*t, starts.data(), starts.size(), kLength, 1, q, 9)));
        CHECK(one.size() == starts.size() * (kLength + 1));
        random_fanout(*t, starts.data(), starts.size(), 7, weighted, 9);
      }
}

void test_exceptions_cross_threads_and_leave_the_pool_usable() {
  set_num_threads(4);
  for (int i = 0; i < 50; ++i)
    check_throws<std::runtime_error>([] {
      parallel_for(1000, 1, [](size_t begin, size_t) {
        if (begin == 500) throw std::runtime_error("from a worker");
      });
    });
  const auto t = make_graph(100, 3, 10, false, false);
  const std::vector<int64_t> bad = {5, 100};
  check_throws<std::out_of_range>([&] { run_case({}, t, bad, 4); });
}

void test_a_damaged_topology_is_an_error_not_a_wild_read() {
  auto t = make_graph(100, 5, 10, false, false);
  const auto seeds = some_nodes(100, 50, 4);
  auto* arrays = static_cast<Arrays*>(const_cast<void*>(t->owner.get()));
  arrays->narrow[arrays->indptr[3]] = 0xFFFFFFF0;
  const std::vector<int64_t> hub = {3};
  check_throws<FormatError>([&] { run_case({}, t, hub, 2); });
  arrays->indptr[4] = 1ull << 60;
  check_throws<FormatError>([&] { run_case({}, t, hub, 2); });
}

void test_gather_copies_rows_of_every_size() {
  set_num_threads(4);
  for (size_t row : {1, 2, 3, 4, 8, 24, 64, 100, 512, 4096}) {
    const size_t rows = 3000;
    std::vector<unsigned char> data(rows * row);
    Rng rng(1);
    for (auto& b : data) b = static_cast<unsigned char>(rng.next());
    const auto ids = some_nodes(rows, 5000, 5);
    PooledBuffer out(ids.size() * row);
    gather(data.data(), rows, row, ids.data(), ids.size(), out.data());
    for (size_t i = 0; i < ids.size(); ++i)
      CHECK(std::memcmp(static_cast<char*>(out.data()) + i * row,
                        data.data() + static_cast<size_t>(ids[i]) * row, row) == 0);
    const std::vector<int64_t> bad = {0, -1};
    check_throws<std::out_of_range>(
        [&] { gather(data.data(), rows, row, bad.data(), bad.size(), out.data()); });
  }
}

void test_buffers_are_used_again_and_bounded() {
  set_pool_limit(64 << 20);
  void* first;
  {
    PooledBuffer b(5 << 20);
    first = b.data();
  }
  PooledBuffer again(5 << 20);
  CHECK(again.data() == first);
  {
    Buffer large(256 << 20);
  }
  CHECK(pool_bytes() <= 64u << 20);
  set_pool_limit(0);
  CHECK(pool_bytes() == 0);
}

void test_the_pool_tells_what_nobody_takes() {
  set_pool_limit(64 << 20);
  constexpr size_t kSize = 4 << 20;  // a size that the pool does not round
  {
    const PooledBuffer a(kSize), b(kSize);
  }
  (void)pool_idle();
  CHECK(pool_bytes() == 2 * kSize && pool_idle() == 2 * kSize);
  for (int i = 0; i < 3; ++i) const PooledBuffer one(kSize);
  CHECK(pool_bytes() == 2 * kSize && pool_idle() == kSize);
  const PooledBuffer c(kSize);
  CHECK(pool_idle() == kSize);  // the other one
  set_pool_limit(0);
  CHECK(pool_bytes() == 0 && pool_idle() == 0);
}

void test_buffers_beyond_the_limit_stay_as_long_as_the_kernel_lets_them() {
  set_pool_limit(0, 64 << 20);
  constexpr size_t size = 16 << 20;
  char* first;
  {
    PooledBuffer b(size);
    first = static_cast<char*>(b.data());
    std::memset(first, 7, size);
  }
  CHECK(pool_bytes() == 0 && pool_loose_bytes() == size);
  ::madvise(first, size / 2, MADV_DONTNEED);  // as if the kernel had taken a part of it
  {
    const PooledBuffer again(size - 5);
    CHECK(again.data() == first && pool_loose_bytes() == 0);
    std::vector<unsigned char> there(size / 4096);
    CHECK(::mincore(first, size, there.data()) == 0);
    CHECK(std::all_of(there.begin(), there.end(), [](unsigned char page) { return page & 1; }));
  }
  std::vector<PooledBuffer> many;
  for (int i = 0; i < 6; ++i) many.emplace_back(size);
  many.clear();
  CHECK(pool_loose_bytes() == 64u << 20);  // the rest was unmapped
  set_pool_limit(32 << 20, 64 << 20);
  CHECK(pool_bytes() + pool_loose_bytes() <= 64u << 20);
  {
    const PooledBuffer a(size), b(size), c(size);
  }
  CHECK(pool_bytes() == 32u << 20 && pool_loose_bytes() <= 32u << 20);
  set_pool_limit(16 << 20, 32 << 20);  // what is kept no more is let go first
  CHECK(pool_bytes() == 16u << 20 && pool_loose_bytes() == 16u << 20);
  set_pool_limit(0);
  CHECK(pool_bytes() == 0 && pool_loose_bytes() == 0);
}

void test_tree_hash_does_not_depend_on_the_split() {
  std::vector<char> data(3 * kHashChunk + 12345);
  Rng rng(2);
  for (auto& b : data) b = static_cast<char>(rng.next());
  TreeHash split;
  for (size_t at = 0; at < data.size();) {
    const size_t n = std::min<size_t>(data.size() - at, 1 + rng.below(3 << 20));
    split.update(data.data() + at, n);
    at += n;
  }
  CHECK(split.digest() == tree_hash(data.data(), data.size()));
}

// Writes a .gd file of four floats, lets `spoil` damage it, and returns its path.
std::string feature_file(const std::function<void(std::string&)>& spoil) {
  static int count = 0;
  std::string path =
      "/tmp/gz_engine_test_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".gd";
  const float values[4] = {1, 2, 3, 4};
  Header h = new_header(Kind::kFeature);
  h.file_bytes = kPage + sizeof values;
  h.sections[kData] = {kPage, sizeof values, tree_hash(values, sizeof values), DType::kFloat32, 0};
  h.feature.ndim = 2;
  h.feature.shape[0] = h.feature.shape[1] = 2;
  seal_header(h);
  std::string bytes(reinterpret_cast<const char*>(&h), sizeof h);
  bytes.append(reinterpret_cast<const char*>(values), sizeof values);
  spoil(bytes);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

void test_every_byte_of_a_header_matters() {
  const std::string good = feature_file([](std::string&) {});
  verify_feature(good);
  CHECK(Feature::open(good)->row_bytes == 8);
  unlink(good.c_str());
  for (size_t at = 0; at < kPage; at += at < 400 ? 1 : 97) {
    const std::string bad =
        feature_file([&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 0x41); });
    check_throws<FormatError>([&] { Feature::open(bad); });
    unlink(bad.c_str());
  }
  for (size_t length : {size_t{0}, size_t{1}, kPage - 1, kPage, kPage + 15, kPage + 17}) {
    const std::string cut = feature_file([&](std::string& bytes) { bytes.resize(length); });
    check_throws<FormatError>([&] { Feature::open(cut); });
    unlink(cut.c_str());
  }
  const std::string flipped = feature_file([](std::string& bytes) { bytes[kPage] ^= 1; });
  check_throws<FormatError>([&] { verify_feature(flipped); });
  unlink(flipped.c_str());
  check_throws<IoError>([] { Feature::open("/tmp/there/is/no/such/file.gd"); });
}

void test_the_smallest_quota_of_a_process_counts() {
  namespace fs = std::filesystem;
  const fs::path root = "/tmp/gz_engine_test_" + std::to_string(getpid()) + "_cgroups";
  const auto write = [&](const fs::path& at, const std::string& text) {
    fs::create_directories((root / at).parent_path());
    std::ofstream(root / at) << text << '\n';
  };
  const std::string at = root.string();
  const auto quota = [&] { return cpu_quota((root / "proc").string()); };
  CHECK(quota() == 0);  // nothing can be read

  write("proc/mountinfo", "1 0 0:1 / " + at + "/v2 rw,nosuid shared:1 - cgroup2 none rw");
  write("proc/cgroup", "0::/");
  CHECK(quota() == 0);  // the root has no file
  write("proc/cgroup", "0::/pods/mine/inner");
  write("v2/pods/mine/inner/cpu.max", "max 100000");
  CHECK(quota() == 0);
  write("v2/pods/mine/cpu.max", "250000 100000");
  CHECK(quota() == 2.5);
  write("v2/pods/cpu.max", "50000 100000");
  CHECK(quota() == 0.5);
  write("proc/cgroup", "0::/pods-not/mine");
  CHECK(quota() == 0);

  // v1: a hierarchy for each controller, -1 for none; v2 beside it without the controller.
  write("proc/mountinfo", "1 0 0:1 / " + at + "/unified rw - cgroup2 none rw\n2 0 0:2 / " + at +
                              "/cpu rw shared:3 - cgroup none rw,cpu,cpuacct\n3 0 0:3 / " + at +
                              "/cpuset rw - cgroup none rw,cpuset");
  write("proc/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/a/b\n0::/a/b");
  write("cpu/a/b/cpu.cfs_quota_us", "-1");
  write("cpu/a/b/cpu.cfs_period_us", "100000");
  CHECK(quota() == 0);
  write("cpu/a/cpu.cfs_quota_us", "300000");
  write("cpu/a/cpu.cfs_period_us", "200000");
  CHECK(quota() == 1.5);

  // A container that sees its own group as the root of the mount, and its path as the host does.
  write("proc/mountinfo", "2 0 0:2 /docker/abc " + at + "/own ro - cgroup none rw,cpu");
  write("proc/cgroup", "4:cpu:/docker/abc");
  write("own/cpu.cfs_quota_us", "700000");
  write("own/cpu.cfs_period_us", "100000");
  CHECK(quota() == 7);
  write("proc/cgroup", "4:cpu:/docker/abcd");
  CHECK(quota() == 7);
  fs::remove_all(root);
}

}  // namespace

int main() {
  test_sampling_agrees_for_any_number_of_threads();
  test_many_callers_at_once();
  test_a_forked_child_has_threads_of_its_own();
  test_walks_agree_for_any_number_of_threads();
  test_exceptions_cross_threads_and_leave_the_pool_usable();
  test_a_damaged_topology_is_an_error_not_a_wild_read();
  test_gather_copies_rows_of_every_size();
  test_buffers_are_used_again_and_bounded();
  test_the_pool_tells_what_nobody_takes();
  test_buffers_beyond_the_limit_stay_as_long_as_the_kernel_lets_them();
  test_tree_hash_does_not_depend_on_the_split();
  test_the_smallest_quota_of_a_process_counts();
  test_every_byte_of_a_header_matters();
  std::puts("engine_test: all passed");
}
