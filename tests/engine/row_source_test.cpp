// Reading rows that are not in memory, without Python, for the sanitizers: deep queues and caches against the
// bytes of the file, from several threads and across a fork.
#include "read/row_source.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "checks.h"
#include "read/extents.h"

namespace {

using namespace gz;

using gz_test::row_of;

struct TestFile {
  std::string path;
  size_t first, row_bytes;
  uint64_t rows;

  TestFile(size_t first_, size_t row_bytes_, uint64_t rows_)
      : first(first_), row_bytes(row_bytes_), rows(rows_) {
    path = "/var/tmp/gz_row_source_test_" + std::to_string(getpid());
    std::ofstream f(path, std::ios::binary);
    f << std::string(first, 'h');
    for (uint64_t r = 0; r < rows; ++r) {
      const auto row = row_of(r, row_bytes);
      f.write(row.data(), static_cast<std::streamsize>(row.size()));
    }
    f.close();
    evict();
  }
  ~TestFile() { unlink(path.c_str()); }

  void evict() const {
    const int fd = open(path.c_str(), O_RDONLY);
    CHECK(fd >= 0);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
};

std::vector<int64_t> some_ids(uint64_t rows, size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> ids(count);
  for (auto& id : ids) id = static_cast<int64_t>(rng.below(rows));
  return ids;
}

void check_gather(RowSource& source, const TestFile& file, size_t count, uint64_t seed) {
  const auto ids = some_ids(file.rows, count, seed);
  std::vector<char> out(count * file.row_bytes + 1, 'u');
  source.gather(ids.data(), count, out.data() + seed % 2);  // also where no device can write to
  for (size_t i = 0; i < count; ++i) {
    const auto expected = row_of(static_cast<uint64_t>(ids[i]), file.row_bytes);
    CHECK(std::memcmp(out.data() + seed % 2 + i * file.row_bytes, expected.data(), file.row_bytes) == 0);
  }
}

void test_rows_are_those_of_the_file() {
  for (size_t first : {size_t{4096}, size_t{128}})
    for (size_t row_bytes : {8u, 100u, 128u, 512u, 1000u, 4096u, 70000u}) {
      const TestFile file(first, row_bytes, row_bytes > 5000 ? 60 : 3000);
      for (uint64_t cache : {uint64_t{0}, uint64_t{3000}, uint64_t{1} << 20}) {
        const auto mapping = Mapping::open(file.path);
        RowSource source(mapping, first, file.rows, row_bytes);
        source.configure(cache, false);
        for (uint64_t seed = 0; seed < 4; ++seed) {
          file.evict();
          check_gather(source, file, std::min<size_t>(700, 2'000'000 / row_bytes), seed);
        }
      }
    }
}

// The rows of several batches come in one call, and have rows in common.
void test_a_row_asked_for_twice_is_read_once() {
  for (size_t row_bytes : {512u, 4096u, 70000u}) {
    const TestFile file(4096, row_bytes, 60);
    std::vector<int64_t> ids = {7, 40, 7, 20, 40, 7, 40};  // far apart, but for 512 bytes
    std::vector<char> out(ids.size() * row_bytes);
    for (uint64_t cache : {uint64_t{0}, uint64_t{8} << 20}) {
      RowSource source(Mapping::open(file.path), file.first, file.rows, row_bytes);
      source.configure(cache, false);
      file.evict();
      source.gather(ids.data(), ids.size(), out.data());
      const auto stats = source.stats();
      if (stats.misses == 0) return;  // kept in memory
      for (size_t i = 0; i < ids.size(); ++i)
        CHECK(std::memcmp(out.data() + i * row_bytes, row_of(static_cast<uint64_t>(ids[i]), row_bytes).data(),
                          row_bytes) == 0);
      CHECK(stats.misses == ids.size() && stats.reads <= 3);
      CHECK(stats.bytes_read <= 3 * (row_bytes + 2 * 4096));
    }
  }
}

// Of any bytes: what plain code makes of a row comes from the mapping, the disk and the cache alike.
void test_rows_are_decoded_whichever_way_they_come() {
  for (const DType stored : {DType::kFloat16, DType::kBFloat16, DType::kInt8})
    for (size_t values : {1u, 64u, 128u, 131u}) {
      const RowFormat format(stored, DType::kFloat32, values);
      const TestFile file(4096, format.stored_bytes, 2000);
      for (uint64_t cache : {uint64_t{0}, uint64_t{1} << 20}) {
        RowSource source(Mapping::open(file.path), file.first, file.rows, file.row_bytes);
        source.configure(cache, false);
        for (uint64_t seed = 0; seed < 4; ++seed) {
          if (seed != 2) file.evict();
          const auto ids = some_ids(file.rows, 1500, seed);
          std::vector<char> out(ids.size() * format.shown_bytes + 32), expected(format.shown_bytes);
          const size_t shift = seed % 2 ? 1 : -reinterpret_cast<uintptr_t>(out.data()) % 32;
          source.gather(ids.data(), ids.size(), out.data() + shift, format);
          for (size_t i = 0; i < ids.size(); ++i) {
            const auto row = row_of(static_cast<uint64_t>(ids[i]), file.row_bytes);
            decode_rows(format, row.data(), 1, expected.data(), DecodeBy::kScalar);
            CHECK(std::memcmp(out.data() + shift + i * expected.size(), expected.data(), expected.size()) ==
                  0);
          }
        }
      }
    }
}

void test_many_gathers_at_once() {
  const TestFile file(4096, 512, 4000);
  const auto mapping = Mapping::open(file.path);
  RowSource source(mapping, file.first, file.rows, file.row_bytes);
  source.configure(1 << 20, false);
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t turn = 0; turn < 6; ++turn) {
        file.evict();
        check_gather(source, file, 500, t * 100 + turn);
      }
    });
  for (auto& t : threads) t.join();
}

// Whoever has the same file open has the same cache, of the largest size that was asked for.
void test_all_who_open_a_file_share_its_cache() {
  const TestFile file(4096, 512, 4000);
  const auto open = [&] {
    return std::make_unique<RowSource>(Mapping::open(file.path), file.first, file.rows, file.row_bytes);
  };
  const auto first = open(), second = open();
  first->configure(1 << 20, false);
  second->configure(2 << 20, false);
  const auto ids = some_ids(file.rows, 500, 1);
  std::vector<char> out(500 * 512);
  first->gather(ids.data(), ids.size(), out.data());
  second->configure(1 << 20, false);
  file.evict();
  second->gather(ids.data(), ids.size(), out.data());
  CHECK(second->stats().hits == 500 && second->stats().misses == 0);
  CHECK(second->stats().cache_bytes <= 1 << 20);
  {
    const auto third = open();
    third->configure(3 << 20, false);
    file.evict();
    third->gather(ids.data(), ids.size(), out.data());
    const uint64_t bytes = third->stats().cache_bytes;
    CHECK(bytes > 1 << 20 && bytes <= 3 << 20);
    CHECK(first->stats().cache_bytes == bytes);
  }
  CHECK(first->stats().cache_bytes <= 1 << 20);
}

// The governor may have any cache grow or shrink at any moment.
void test_gathers_while_the_cache_changes_size() {
  const TestFile file(4096, 512, 4000);
  const auto mapping = Mapping::open(file.path);
  RowSource source(mapping, file.first, file.rows, file.row_bytes);
  std::atomic<bool> done{false};
  std::thread sizes([&] {
    for (uint64_t turn = 0; !done; ++turn) source.configure((turn % 5) << 20, false);
  });
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t turn = 0; turn < 6; ++turn) {
        file.evict();
        check_gather(source, file, 500, t * 100 + turn);
      }
    });
  for (auto& t : threads) t.join();
  done = true;
  sizes.join();
}

void test_a_forked_child_reads_on_its_own() {
  const TestFile file(4096, 512, 4000);
  const auto mapping = Mapping::open(file.path);
  RowSource source(mapping, file.first, file.rows, file.row_bytes);
  source.configure(1 << 20, false);
  check_gather(source, file, 500, 1);
  const pid_t child = fork();
  if (child == 0) {
    file.evict();
    check_gather(source, file, 500, 1);
    check_gather(source, file, 500, 2);
    _exit(0);
  }
  int status = 1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  check_gather(source, file, 500, 3);
}

void test_a_file_cut_short_is_an_error() {
  const TestFile file(4096, 512, 4000);
  const auto mapping = Mapping::open(file.path);
  RowSource source(mapping, file.first, file.rows, file.row_bytes);
  file.evict();
  CHECK(truncate(file.path.c_str(), 4096 + 512 * 100) == 0);
  // Beyond the new end of the file: no page of it is in memory, so it is read, and the read comes up short.
  const std::vector<int64_t> ids(300, 3999);
  std::vector<char> out(300 * 512);
  try {
    source.gather(ids.data(), ids.size(), out.data());
  } catch (const IoError& e) {
    CHECK(std::string(e.what()).find("byte") != std::string::npos);
    return;
  }
  CHECK(false);
}

}  // namespace

int main() {
  set_num_threads(4);
  // First: ThreadSanitizer stops a child that starts a thread where one of the parent's had its stack.
  test_a_forked_child_reads_on_its_own();
  test_rows_are_those_of_the_file();
  test_a_row_asked_for_twice_is_read_once();
  test_rows_are_decoded_whichever_way_they_come();
  test_many_gathers_at_once();
  test_all_who_open_a_file_share_its_cache();
  test_gathers_while_the_cache_changes_size();
  test_a_file_cut_short_is_an_error();
  std::puts("row_source_test: all passed");
}
