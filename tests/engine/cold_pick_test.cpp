// Picking by weight and by time from files that are not in memory, for the sanitizers: the picks of a warm
// run for any number of threads, by deep reads of what is wanted and of little else. What the page map says
// is counted in pages. Where the filesystem keeps files in memory, nothing is cold, and this says so.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "build/builder.h"
#include "checks.h"
#include "column/feature.h"
#include "file/writer.h"
#include "sample/sampler.h"

namespace {

using namespace gz;

constexpr uint64_t kNodes = 20000, kHub = 7;
constexpr size_t kDegree = 12, kHubDegree = 300000;

std::string name(const char* what) {
  return "/var/tmp/gz_cold_pick_test_" + std::to_string(getpid()) + "_" + what;
}

void evict(const Mapping& m) {
  ::madvise(m.data(), m.size(), MADV_DONTNEED);
  fsync(m.fd());
  posix_fadvise(m.fd(), 0, 0, POSIX_FADV_DONTNEED);
}

// Lists that ascend by neighbour, so by a time that is the neighbour's number, and by one that is the edge's.
class Files {
 public:
  Files() {
    std::vector<uint32_t> src, dst;
    Rng rng(1);
    for (uint64_t v = 0; v < kNodes; ++v)
      for (size_t i = 0; i < (v == kHub ? kHubDegree : kDegree); ++i) {
        src.push_back(static_cast<uint32_t>(rng.below(kNodes)));
        dst.push_back(static_cast<uint32_t>(v));
      }
    num_edges_ = src.size();
    Builder builder({.directory = "/var/tmp"});
    builder.add({.count = src.size(), .src = src.data(), .dst = dst.data()});
    builder.begin(topology_, kNodes, kNodes, {});
    while (builder.step()) {
    }
    std::vector<int64_t> counted(num_edges_);
    std::iota(counted.begin(), counted.end(), int64_t{0});
    write(edge_time_, DType::kInt64, counted.data(), num_edges_ * sizeof(int64_t));
    write(node_time_, DType::kInt64, counted.data(), kNodes * sizeof(int64_t));
    std::vector<float> weights(num_edges_);
    for (float& w : weights) w = static_cast<float>(rng.unit());
    write(weights_, DType::kFloat32, weights.data(), num_edges_ * sizeof(float));
  }
  ~Files() {
    for (const auto& path : {topology_, edge_time_, node_time_, weights_}) unlink(path.c_str());
  }

  const std::string topology_ = name("t.gl"), edge_time_ = name("et.gd"), node_time_ = name("nt.gd"),
                    weights_ = name("w.gd");

 private:
  static void write(const std::string& path, DType dtype, const void* data, size_t bytes) {
    ColumnWriter column(path, dtype, {});
    column.append(data, bytes);
    column.finish();
  }

  size_t num_edges_;
};

// A topology and a column, opened anew and nothing of them in memory, if that is wanted and can be had.
struct Opened {
  std::shared_ptr<Topology> topology;
  std::shared_ptr<Feature> feature;
  std::shared_ptr<ShownFile> shown;

  Opened(const Files& files, const std::string& column, bool cold)
      : topology(Topology::open(files.topology_)), feature(Feature::open(column)) {
    shown = feature->tensor.of(feature->source->residency());
    if (!cold) return;
    evict(*topology->mapping);
    evict(*feature->mapping);
  }
  bool is_cold() const {
    return feature->mapping->resident_bytes(0, feature->mapping->size()) < feature->mapping->size() / 4;
  }
  Column column() const {
    const std::byte* data = shown->mapping().data() + feature->offset;
    return {data, feature->dtype, feature->num_rows(), ArrayPlace::of(data, feature->bytes())};
  }
  uint64_t column_bytes() const { return feature->source->residency()->counts().bytes; }
  uint64_t topology_bytes() const { return topology->residency->counts().bytes; }
};

Sample pick(const Opened& o, Column EdgeColumns::* what, bool ascending, const std::vector<int64_t>& seeds,
            int64_t fanout) {
  EdgeType type{.topology = o.topology, .fanouts = {fanout}};
  type.columns.*what = o.column();
  type.columns.ascending = ascending;
  const bool timed = what != &EdgeColumns::weights;
  std::vector<int64_t> times;
  for (int64_t seed : seeds)  // the middle of its list, by edge_time; by node_time too, or nearly
    times.push_back(what == &EdgeColumns::edge_time
                        ? static_cast<int64_t>(o.topology->edges_of(static_cast<uint64_t>(seed)).begin) + 5
                        : static_cast<int64_t>(kNodes / 2));
  return sample({kNodes}, {type}, {{0, seeds.data(), seeds.size(), timed ? times.data() : nullptr}},
                {.disjoint = timed, .rng_seed = 3});
}

bool same(const Sample& a, const Sample& b) {
  const auto& x = a.edges[0].rows;
  const auto& y = b.edges[0].rows;
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin()) &&
         a.nodes[0].ids.size() == b.nodes[0].ids.size() &&
         std::equal(a.nodes[0].ids.begin(), a.nodes[0].ids.end(), b.nodes[0].ids.begin());
}

struct Case {
  std::string column;
  Column EdgeColumns::* what;
  bool ascending;
};

void test_cold_picks_are_warm_ones_and_are_read_in_bulk(const Files& files) {
  std::vector<int64_t> seeds(400);
  for (size_t i = 0; i < seeds.size(); ++i) seeds[i] = static_cast<int64_t>(i * (kNodes / 400) + kHub);
  const Case cases[] = {{files.weights_, &EdgeColumns::weights, false},
                        {files.edge_time_, &EdgeColumns::edge_time, false},
                        {files.edge_time_, &EdgeColumns::edge_time, true},
                        {files.node_time_, &EdgeColumns::node_time, false},
                        {files.node_time_, &EdgeColumns::node_time, true}};
  for (const Case& c : cases) {
    set_num_threads(1);
    const Sample warm = pick(Opened(files, c.column, false), c.what, c.ascending, seeds, 4);
    CHECK(warm.edges[0].rows.size() > seeds.size());
    for (int threads : {1, 2, 4}) {
      set_num_threads(threads);
      const Opened o(files, c.column, true);
      const bool was_cold = o.is_cold();
      CHECK(same(pick(o, c.what, c.ascending, seeds, 4), warm));
      if (!was_cold) continue;
      CHECK(o.column_bytes() >= (c.what == &EdgeColumns::node_time ? 10 : 200) * kPage);
      CHECK(o.topology_bytes() > 0);
    }
  }
}

// A list of 300,000 is 300 pages of neighbours and 600 of times: a search looks at a few of them.
void test_of_a_list_in_order_only_what_a_search_meets_is_read(const Files& files) {
  const Opened o(files, files.edge_time_, true);
  if (!o.is_cold()) return;
  pick(o, &EdgeColumns::edge_time, true, std::vector<int64_t>(64, kHub), 4);
  CHECK(o.column_bytes() > 0 && o.column_bytes() < 100 * kPage);
  CHECK(o.topology_bytes() > 0 && o.topology_bytes() < 100 * kPage);
}

// What is missing is read, and nothing else. Two maps of one file, so that the second has to ask the kernel
// for what the first brought in; both are there before the file is put out of memory, for opening reads
// ahead. The kernel may drop a page at any time, but not a quarter of those just read.
void test_the_page_map_tells_what_is_there_from_what_is_not(const Files& files) {
  const Opened one(files, files.edge_time_, false), two(files, files.edge_time_, false);
  evict(*one.feature->mapping);
  evict(*two.feature->mapping);
  if (!one.is_cold()) return;
  constexpr uint64_t kStep = 8;  // so far apart that reads are not joined
  const uint64_t count = one.feature->mapping->size() / kPage / kStep;
  const auto fetch = [&](const Opened& o, uint64_t first) {  // pages that were read
    Residency& r = *o.feature->source->residency();
    const uint64_t before = r.counts().bytes;
    r.fetch(count, [&](size_t i) { return std::pair<uint64_t, uint64_t>((first + i * kStep) * kPage, 8); });
    return (r.counts().bytes - before) / kPage;
  };
  CHECK(fetch(one, 1) >= count - count / 8);
  CHECK(fetch(one, 1) <= count / 4);
  CHECK(fetch(two, 1) <= count / 4);
}

}  // namespace

int main() {
  const Files files;
  if (!Opened(files, files.edge_time_, true).is_cold())
    std::puts("cold_pick_test: /var/tmp keeps files in memory, nothing is cold");
  test_cold_picks_are_warm_ones_and_are_read_in_bulk(files);
  test_of_a_list_in_order_only_what_a_search_meets_is_read(files);
  test_the_page_map_tells_what_is_there_from_what_is_not(files);
  std::puts("cold_pick_test: all passed");
}
