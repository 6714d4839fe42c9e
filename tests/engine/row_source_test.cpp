// Reading rows that are not in memory, without Python, for the sanitizers: the row cache against a plain
// model of SIEVE, deep queues against the bytes of the file, both from several threads and across a fork.
#include "row_source.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <list>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "error.h"
#include "extents.h"
#include "rng.h"
#include "row_cache.h"
#include "threads.h"

namespace {

using namespace gz;

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

// A row's bytes follow from its number. Made eight at a time: under the sanitizers every step counts.
std::vector<char> row_of(uint64_t row, size_t bytes) {
  std::vector<uint64_t> words((bytes + 7) / 8);
  for (size_t i = 0; i < words.size(); ++i) words[i] = mix64(row * 1000003 + i);
  std::vector<char> out(bytes);
  std::memcpy(out.data(), words.data(), bytes);
  return out;
}

// SIEVE as its paper writes it: a list, newest first, and a hand.
class PlainSieve {
 public:
  explicit PlainSieve(size_t capacity) : capacity_(capacity) {}

  bool ask(uint64_t row) {
    const auto found = where_.find(row);
    if (found == where_.end()) return false;
    found->second->asked = true;
    return true;
  }
  void insert(uint64_t row) {
    if (where_.count(row)) return;
    if (queue_.size() == capacity_) evict();
    queue_.push_front({row, false});
    where_[row] = queue_.begin();
  }

 private:
  struct Item {
    uint64_t row;
    bool asked;
  };
  void evict() {
    auto at = hand_ == queue_.end() ? std::prev(queue_.end()) : hand_;
    while (at->asked) {
      at->asked = false;
      at = at == queue_.begin() ? std::prev(queue_.end()) : std::prev(at);
    }
    hand_ = at == queue_.begin() ? queue_.end() : std::prev(at);
    where_.erase(at->row);
    queue_.erase(at);
  }

  size_t capacity_;
  std::list<Item> queue_;
  std::list<Item>::iterator hand_ = queue_.end();
  std::unordered_map<uint64_t, std::list<Item>::iterator> where_;
};

void test_the_cache_is_sieve() {
  constexpr size_t kBytes = 40;
  for (uint64_t budget : {500u, 1000u, 5000u, 50000u}) {
    RowCache cache(budget, kBytes);
    CHECK(cache.num_shards() == 1 && cache.capacity() > 0 && cache.bytes() <= budget);
    PlainSieve model(cache.capacity());
    Rng rng(budget);
    std::vector<char> out(kBytes);
    for (int turn = 0; turn < 5000; ++turn) {
      // A few rows often, many rows seldom.
      const uint64_t row = rng.below(2) ? rng.below(cache.capacity()) : rng.below(cache.capacity() * 20);
      const RowRequest request{row, 0};
      std::vector<RowRequest> missed;
      cache.find(0, &request, 1, out.data(), missed);
      CHECK(missed.empty() == model.ask(row));
      const auto expected = row_of(row, kBytes);
      if (missed.empty()) {
        CHECK(out == expected);
      } else {
        cache.insert(0, &request, 1, expected.data());
        model.insert(row);
      }
    }
    CHECK(cache.size() == cache.capacity());
  }
}

void test_no_budget_is_too_small() {
  for (uint64_t budget = 0; budget < 400; ++budget) {
    RowCache cache(budget, 64);
    CHECK(cache.bytes() <= budget);
    if (cache.capacity() == 0) continue;
    const RowRequest request{7, 0};
    const auto row = row_of(7, 64);
    for (size_t s = 0; s < cache.num_shards(); ++s) cache.insert(s, &request, 1, row.data());
  }
}

void test_threads_share_a_cache() {
  constexpr size_t kBytes = 128;
  RowCache cache(64 << 20, kBytes);
  CHECK(cache.num_shards() > 1);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Rng rng(static_cast<uint64_t>(t));
      std::vector<char> out(kBytes);
      for (int turn = 0; turn < 5000; ++turn) {
        const RowRequest request{rng.below(5000), 0};
        const size_t shard = cache.shard_of(request.row);
        std::vector<RowRequest> missed;
        cache.find(shard, &request, 1, out.data(), missed);
        const auto expected = row_of(request.row, kBytes);
        if (missed.empty())
          CHECK(out == expected);
        else
          cache.insert(shard, &request, 1, expected.data());
      }
    });
  for (auto& t : threads) t.join();
}

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
  test_the_cache_is_sieve();
  test_no_budget_is_too_small();
  test_threads_share_a_cache();
  test_rows_are_those_of_the_file();
  test_many_gathers_at_once();
  test_a_forked_child_reads_on_its_own();
  test_a_file_cut_short_is_an_error();
  std::puts("row_source_test: all passed");
}
