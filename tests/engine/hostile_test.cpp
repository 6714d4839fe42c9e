// Files broken at random, every checksum made right again, for the sanitizers: whatever reads them gives data
// inside its bounds or one of the engine's exceptions.
//
//   hostile_test            files made and broken here: GZ_CASES of them, from GZ_TEST_SEED on
//   hostile_test FOLDER     every .gl and .gd below a folder, which tests/trust/hostile.py fills
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/threads.h"
#include "build/builder.h"
#include "checks.h"
#include "column/feature.h"
#include "column/topology.h"
#include "column/verify.h"
#include "file/writer.h"
#include "query/edges.h"
#include "query/induced.h"
#include "sample/layer.h"
#include "sample/sampler.h"
#include "walk/walker.h"

namespace {

using namespace gz;
namespace fs = std::filesystem;

size_t passed = 0, refused = 0;

// Ends well, or in an exception that has a Python class of its own. The guard is that of every call.
void attempt(const std::function<void()>& call) {
  try {
    guarded(call);
    ++passed;
  } catch (const FormatError&) {
    ++refused;
  } catch (const IoError&) {
    ++refused;
  } catch (const std::invalid_argument&) {
    ++refused;
  } catch (const std::out_of_range&) {  // ids of one end, given for the other
    ++refused;
  } catch (const std::length_error&) {
    ++refused;
  } catch (const std::bad_alloc&) {
    ++refused;
  }
}

std::vector<int64_t> first_ids(uint64_t n) {
  std::vector<int64_t> ids(std::min<uint64_t>(n, 200));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
  return ids;
}

void check_sample(const Topology& t, const Sample& s) {
  for (int64_t v : s.nodes[0].ids) CHECK(static_cast<uint64_t>(v) < std::max(t.num_nodes, t.num_other));
  for (int64_t e : s.edges[0].rows) CHECK(static_cast<uint64_t>(e) < t.num_rows());
  for (int64_t v : s.edges[0].neighbour) CHECK(static_cast<uint64_t>(v) < s.nodes[0].ids.size());
}

void read_topology(const std::string& path) {
  attempt([&] { verify_topology(path); });
  std::shared_ptr<Topology> t;
  attempt([&] { t = Topology::open(path); });
  if (!t) return;
  const auto ids = first_ids(t->num_nodes);
  const ChosenNodes chosen{ids.data(), nullptr, ids.size()};
  const std::vector<double> weights(std::min<uint64_t>(t->num_rows(), 1 << 16), 1.0);
  const std::vector<int64_t> times(weights.size(), 0), seed_times(ids.size(), 1);
  std::vector<int64_t> out(ids.size()), other(ids.size());
  for (const int64_t fanout : {-1, 3})
    for (const bool replace : {false, true})
      for (const bool disjoint : {false, true}) {
        EdgeType e{.topology = t, .fanouts = {fanout, 2}};
        const SampleOptions options{.replace = replace, .disjoint = disjoint};
        const auto run = [&](const int64_t* seed_time) {
          attempt([&] {
            check_sample(*t, sample({t->num_nodes}, {e}, {{0, ids.data(), ids.size(), seed_time}}, options));
          });
        };
        run(nullptr);
        if (t->edge_ids && !t->ids_are_in_rows) e.ids = t;
        e.columns.weights = {weights.data(), DType::kFloat64, weights.size()};
        run(nullptr);
        e.columns.edge_time = {times.data(), DType::kInt64, times.size()};
        run(seed_times.data());
        e.fanouts = {fanout};
        attempt([&] {
          sample_layer({t->num_nodes}, {{.type = e}}, {{ids.data(), ids.size()}},
                       {.replace = replace, .numbered = disjoint});
        });
        attempt([&] {
          labor_layer({t->num_nodes}, {{.type = e}}, {{ids.data(), ids.size()}}, {.importance = 1});
        });
      }
  for (const double q : {1.0, 0.5, 50.0})
    attempt([&] {
      for (int64_t v : random_walk(*t, ids.data(), ids.size(), 8, 1, q, 0))
        CHECK(v >= -1 && v < static_cast<int64_t>(t->num_nodes));
    });
  attempt([&] { random_fanout(*t, ids.data(), ids.size(), 3, false, 0); });
  attempt([&] { t->degrees(ids.data(), ids.size(), out.data()); });
  attempt([&] { t->max_degree(); });
  attempt([&] { induced_edges(*t, chosen, chosen); });
  attempt([&] { subgraph_edges({t->num_nodes}, {{t, 0, 0}}, {chosen}); });
  attempt([&] { match_edges(*t, ids.data(), ids.data(), ids.size(), out.data()); });
  const auto places = first_ids(t->num_edges);
  out.resize(places.size());
  other.resize(places.size());
  attempt([&] { locate_edges(*t, places.data(), places.size(), out.data(), other.data()); });
  attempt([&] { invert(*t); });
}

void read_feature(const std::string& path) {
  attempt([&] { verify_feature(path); });
  attempt([&] {
    const auto f = Feature::open(path);
    const auto ids = first_ids(f->num_rows());
    for (const DType as : {f->shown, f->dtype}) {
      const RowFormat format = f->format(as);
      if (format.shown_bytes > 1 << 20 || format.stored_bytes > 1 << 20) return;
      std::vector<char> out(ids.size() * format.shown_bytes);
      f->gather(ids.data(), ids.size(), out.data(), format);
    }
  });
}

void read_file(const fs::path& path) {
  if (path.extension() == ".gl")
    read_topology(path);
  else
    read_feature(path);
}

// ---- files of our own ----

using Bytes = std::vector<char>;

Bytes load(const fs::path& path) {
  std::ifstream f(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(f), {});
}

void save(const fs::path& path, const Bytes& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Small files that between them have every section.
std::vector<fs::path> make_files(const fs::path& folder) {
  std::vector<fs::path> made;
  std::vector<uint32_t> src(150), dst(150);
  std::vector<float> weight(150);
  for (uint32_t e = 0; e < 150; ++e) {
    src[e] = static_cast<uint32_t>(mix64(e) % 30);
    dst[e] = static_cast<uint32_t>(mix64(e + 1000) % 30);
    weight[e] = static_cast<float>(e % 4);
  }
  for (const bool rows : {false, true}) {
    BuildOptions o{.directory = folder, .direction = rows ? Direction::kOut : Direction::kIn, .payload = 4};
    o.keep_ids = true;
    o.positions = !rows;
    o.ids_are_in_rows = rows;
    o.weight_offset = 0;
    Builder b(o);
    b.add({.count = src.size(),
           .src = src.data(),
           .dst = dst.data(),
           .payload = reinterpret_cast<char*>(weight.data())});
    made.push_back(folder / (rows ? "out.gl" : "in.gl"));
    b.begin(made.back(), 30, 30, {});
    while (b.step()) {
    }
  }
  for (const DType dtype : {DType::kBool, DType::kFloat32}) {
    made.push_back(folder / (std::string(dtype_name(dtype)) + ".gd"));
    ColumnWriter column(made.back(), dtype, {40});
    const Bytes zeros(30 * 40 * dtype_bytes(dtype));
    column.append(zeros.data(), zeros.size());
    column.finish();
  }
  for (const DType dtype : {DType::kFloat16, DType::kInt8}) {  // read as float32
    made.push_back(folder / (std::string(dtype_name(dtype)) + ".gd"));
    ColumnWriter column(made.back(), dtype, {40}, DType::kFloat32);
    const Bytes zeros(30 * column.row_bytes());
    column.append(zeros.data(), zeros.size());
    column.finish();
  }
  return made;
}

// One or two changes, then every checksum as it should be.
void break_it(Bytes& bytes, Rng& rng) {
  constexpr uint64_t kValues[] = {
      0, 1, 3, 29, 30, 31, 149, 150, 4096, 0xFFFFFFFF, uint64_t{1} << 32, uint64_t{1} << 62, UINT64_MAX};
  for (uint64_t turns = 1 + rng.below(2); turns; --turns) {
    const uint64_t value = rng.below(3) ? kValues[rng.below(std::size(kValues))] : rng.next();
    const size_t width = rng.below(2) ? 4 : 8;
    const bool header = rng.below(3) == 0 || bytes.size() <= kPage + 8;
    const size_t at = header ? rng.below(392 / width) * width
                             : kPage + rng.below((bytes.size() - kPage - 8) / width) * width;
    std::memcpy(bytes.data() + at, &value, width);
  }
  Header h;
  std::memcpy(&h, bytes.data(), sizeof h);
  for (Section& s : h.sections)
    if (s.dtype != DType::kNone && s.offset <= bytes.size() && s.bytes <= bytes.size() - s.offset)
      s.checksum = tree_hash(bytes.data() + s.offset, s.bytes);
  seal_header(h);
  std::memcpy(bytes.data(), &h, sizeof h);
}

uint64_t number_from(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void test_broken_files() {
  const fs::path folder = fs::temp_directory_path() / ("gz_hostile_test_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::vector<Bytes> sound;
  const auto files = make_files(folder);
  for (const auto& f : files) {
    const size_t before = refused;
    read_file(f);
    CHECK(f.extension() == ".gl" || refused == before);
    sound.push_back(load(f));
  }
#if defined(__SANITIZE_THREAD__)
  const uint64_t cases = 40;
#else
  const uint64_t cases = number_from("GZ_CASES", 400);
#endif
  const uint64_t seed = number_from("GZ_TEST_SEED", 0);
  for (uint64_t i = 0; i < cases; ++i) {
    Rng rng(fold(fold(0, seed), i));
    const size_t which = rng.below(files.size());
    Bytes bytes = sound[which];
    break_it(bytes, rng);
    save(files[which], bytes);
    read_file(files[which]);
  }
  fs::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(2);
  size_t files = 0;
  if (argc > 1) {
    for (const auto& entry : fs::recursive_directory_iterator(argv[1]))
      if (entry.path().extension() == ".gl" || entry.path().extension() == ".gd") {
        read_file(entry.path());
        ++files;
      }
    std::printf("%zu files\n", files);
  } else {
    test_broken_files();
  }
  CHECK(passed > 0 && refused > 0);
  std::printf("hostile_test: all passed: %zu calls ended well, %zu in an error\n", passed, refused);
}
