// Lists that lie in front, without Python, for the sanitizers: what is sampled with them is what is sampled
// of the topology, for narrow and wide ids, from several threads, across a fork, warm and cold; and files
// that break the rules are refused before anything is read by them.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "build/builder.h"
#include "checks.h"
#include "column/topology.h"
#include "file/writer.h"
#include "hot/lists.h"
#include "sample/sampler.h"

namespace {

using namespace gz;

constexpr uint64_t kNodes = 5000;
constexpr uint64_t kFar = uint64_t{1} << 33;  // so many others: their ids take 64 bits

std::string path_of(const std::string& name) {
  return "/var/tmp/gz_hot_lists_test_" + std::to_string(getpid()) + "_" + name;
}

std::shared_ptr<Feature> written(const std::string& name, DType dtype, std::vector<uint64_t> row_shape,
                                 const void* data, size_t bytes) {
  const std::string path = path_of(name);
  unlink(path.c_str());
  ColumnWriter writer(path, dtype, std::move(row_shape));
  writer.append(data, bytes);
  writer.finish();
  auto file = Feature::open(path);
  file->source->configure(0, false);
  return file;
}

// Lists of 0 to 39 neighbours among `others`.
std::string build(uint64_t others) {
  std::string path = path_of(others == kFar ? "wide.gl" : "narrow.gl");
  unlink(path.c_str());
  std::vector<uint64_t> src, dst;
  Rng rng(others);
  for (uint64_t v = 0; v < kNodes; ++v)
    for (uint64_t i = rng.below(40); i > 0; --i) {
      src.push_back(rng.below(others));
      dst.push_back(v);
    }
  Builder builder({.directory = "/var/tmp"});
  std::vector<uint32_t> narrow_src(src.begin(), src.end()), narrow_dst(dst.begin(), dst.end());
  if (others == kFar)
    builder.add({.count = src.size(), .wide = true, .src = src.data(), .dst = dst.data()});
  else
    builder.add({.count = src.size(), .src = narrow_src.data(), .dst = narrow_dst.data()});
  builder.begin(path, kNodes, others, {});
  while (builder.step()) {
  }
  return path;
}

// Every third node, in an order of its own.
std::vector<int32_t> hot_nodes() {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < kNodes / 3; ++i) ids.push_back(static_cast<int32_t>(i * 5 % (kNodes / 3) * 3));
  return ids;
}

struct Copies {
  std::vector<int32_t> ids = hot_nodes();
  std::vector<int64_t> starts;
  std::string lists;
  bool wide;

  explicit Copies(const Topology& t) : wide(t.indices.wide) {
    const size_t width = wide ? 8 : 4;
    for (int32_t id : ids) {
      const auto range = t.edges_of(static_cast<uint64_t>(id));
      starts.push_back(static_cast<int64_t>(range.begin));
      starts.push_back(static_cast<int64_t>(lists.size() / width));
      lists.append(static_cast<const char*>(t.indices.address(range.begin)), range.size() * width);
    }
  }
  std::shared_ptr<HotLists> write(const Topology& t) const {
    return std::make_shared<HotLists>(
        t, written("ids.gd", DType::kInt32, {}, ids.data(), ids.size() * sizeof(int32_t)),
        written("starts.gd", DType::kInt64, {2}, starts.data(), starts.size() * sizeof(int64_t)),
        written("lists.gd", wide ? DType::kInt64 : DType::kInt32, {}, lists.data(), lists.size()));
  }
};

void evict(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY);
  CHECK(file >= 0);
  fsync(file);
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  close(file);
}

Sample drawn(const std::shared_ptr<Topology>& t, int64_t fanout, uint64_t seed, bool replace = false) {
  Rng rng(seed);
  std::vector<int64_t> seeds(600);
  for (int64_t& s : seeds) s = static_cast<int64_t>(rng.below(kNodes));
  const EdgeType type{.topology = t, .frontier_type = 0, .neighbour_type = 1, .fanouts = {fanout}};
  return sample({kNodes, t->num_other}, {type}, {{0, seeds.data(), seeds.size(), nullptr}},
                {.replace = replace, .rng_seed = seed});
}

bool same(const Sample& a, const Sample& b) {
  const auto equal = [](const PooledArray<int64_t>& x, const PooledArray<int64_t>& y) {
    return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin());
  };
  return equal(a.edges[0].rows, b.edges[0].rows) && equal(a.edges[0].neighbour, b.edges[0].neighbour) &&
         equal(a.edges[0].frontier, b.edges[0].frontier) && equal(a.nodes[1].ids, b.nodes[1].ids);
}

void test_samples_are_those_of_the_topology(uint64_t others) {
  const std::string path = build(others);
  const auto plain = Topology::open(path), hot = Topology::open(path);
  CHECK(plain->indices.wide == (others == kFar));
  hot->use(Copies(*plain).write(*hot));
  for (const char* name : {"ids.gd", "starts.gd", "lists.gd"}) evict(path_of(name));
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int64_t fanout : {5, 33, -1})
        for (bool replace : {false, true})
          if (!replace || fanout > 0)
            CHECK(same(drawn(plain, fanout, t, replace), drawn(hot, fanout, t, replace)));
    });
  for (std::thread& t : threads) t.join();
  CHECK(hot->hot->stats().found > 3 * 5 * 100);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    CHECK(same(drawn(plain, 4, 7), drawn(hot, 4, 7)));
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Nothing is read of the topology where all lists that are asked for lie in front.
void test_the_topology_is_left_alone() {
  const std::string path = build(kNodes);
  const auto t = Topology::open(path);
  t->use(Copies(*t).write(*t));
  CHECK(madvise(const_cast<std::byte*>(t->mapping->data()), t->mapping->size(), MADV_DONTNEED) == 0);
  for (const std::string& name : {path, path_of("ids.gd"), path_of("starts.gd"), path_of("lists.gd")})
    evict(name);
  std::vector<int64_t> seeds;
  for (int32_t id : hot_nodes()) seeds.push_back(id);
  const EdgeType type{.topology = t, .fanouts = {-1}};
  const Sample all = sample({kNodes}, {type}, {{0, seeds.data(), seeds.size(), nullptr}}, {});
  CHECK(all.edges[0].rows.size() > seeds.size());
  CHECK(t->residency->counts().reads == 0);
  const bool cold = t->mapping->resident_bytes(0, t->mapping->size()) < t->mapping->size() / 2;
  if (!cold) std::puts("a filesystem that keeps files in memory: nothing was cold");
  CHECK(!cold || t->hot->stats().reads > 0);
}

template <class Call>
bool is_format_error(Call&& call) {
  try {
    call();
  } catch (const FormatError&) {
    return true;
  }
  return false;
}

void test_files_that_break_the_rules_are_refused() {
  const std::string path = build(kNodes);
  const auto t = Topology::open(path);
  const Copies right(*t);
  const auto refused_at_once = [&](auto&& change) {
    Copies c = right;
    change(c);
    CHECK(is_format_error([&] { c.write(*t); }));
  };
  refused_at_once([](Copies& c) { c.ids.pop_back(); });
  refused_at_once([](Copies& c) { c.wide = true; });
  const auto refused_when_used = [&](auto&& change) {
    Copies c = right;
    change(c);
    const auto damaged = Topology::open(path);
    damaged->use(c.write(*damaged));
    CHECK(is_format_error([&] { drawn(damaged, -1, 1); }));
  };
  refused_when_used([](Copies& c) { c.ids[4] = c.ids[9]; });
  refused_when_used([](Copies& c) { c.ids[4] = kNodes; });
  refused_when_used([](Copies& c) { c.ids[4] = -1; });
  const auto all = [](Copies& c, size_t which, int64_t value) {
    for (size_t i = which; i < c.starts.size(); i += 2) c.starts[i] = value;
  };
  for (int64_t wild : {int64_t{-1}, INT64_MIN, INT64_MAX}) {
    refused_when_used([&](Copies& c) { all(c, 0, wild); });
    refused_when_used([&](Copies& c) { all(c, 1, wild); });
  }
  refused_when_used([](Copies& c) { std::reverse(c.starts.begin(), c.starts.end()); });
  refused_when_used([](Copies& c) { c.lists.resize(c.lists.size() / 8 * 4); });
  refused_when_used([](Copies& c) { std::fill(c.lists.begin(), c.lists.end(), '\xff'); });
}

}  // namespace

int main() {
  set_num_threads(3);
  test_samples_are_those_of_the_topology(kNodes);
  test_samples_are_those_of_the_topology(kFar);
  test_the_topology_is_left_alone();
  test_files_that_break_the_rules_are_refused();
  for (const char* name : {"ids.gd", "starts.gd", "lists.gd", "wide.gl", "narrow.gl"})
    unlink(path_of(name).c_str());
  std::puts("ok");
}
