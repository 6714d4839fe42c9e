// Rows that lie in front, without Python, for the sanitizers: against the bytes of the column, from several
// threads, across a fork, and with lists of rows that break the rules.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "checks.h"
#include "fake_root.h"
#include "file/writer.h"
#include "hot/rows.h"

namespace {

using namespace gz;

constexpr uint64_t kRows = 3000;
constexpr size_t kWidth = 160;
constexpr uint64_t kHot = 500;

std::string path_of(const std::string& name) {
  return "/var/tmp/gz_hot_rows_test_" + std::to_string(getpid()) + "_" + name;
}

std::shared_ptr<Feature> written(const std::string& name, DType dtype, std::vector<uint64_t> row_shape,
                                 const void* data, size_t bytes) {
  const std::string path = path_of(name);
  unlink(path.c_str());
  ColumnWriter writer(path, dtype, std::move(row_shape));
  writer.append(data, bytes);
  writer.finish();
  return Feature::open(path);
}

std::string rows_of(const std::vector<int32_t>& ids) {
  std::string out;
  for (int32_t id : ids) {
    const auto row = gz_test::row_of(static_cast<uint64_t>(id), kWidth);
    out.append(row.begin(), row.end());
  }
  return out;
}

std::vector<int32_t> hot_ids() {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < kHot; ++i) ids.push_back(static_cast<int32_t>(i * 7 % kRows));
  return ids;
}

struct Column {
  std::shared_ptr<Feature> file;
  mutable std::vector<std::shared_ptr<Feature>> tiers;
  explicit Column() {
    std::vector<int32_t> all(kRows);
    for (uint64_t i = 0; i < kRows; ++i) all[i] = static_cast<int32_t>(i);
    const std::string rows = rows_of(all);
    file = written("x.gd", DType::kUInt8, {kWidth}, rows.data(), rows.size());
  }
  ~Column() {
    for (const char* name : {"x.gd", "ids.gd", "0.gd", "1.gd"}) unlink(path_of(name).c_str());
  }
  // In two tiers.
  std::shared_ptr<HotRows> hot(const std::vector<int32_t>& ids, size_t held = 2, size_t first = 200) const {
    auto list = written("ids.gd", DType::kInt32, {}, ids.data(), ids.size() * sizeof(int32_t));
    const std::string rows = rows_of(hot_ids());
    auto a = written("0.gd", DType::kUInt8, {kWidth}, rows.data(), first * kWidth);
    auto b =
        written("1.gd", DType::kUInt8, {kWidth}, rows.data() + first * kWidth, rows.size() - first * kWidth);
    tiers = {std::move(a), std::move(b)};
    return std::make_shared<HotRows>(*file, std::move(list), tiers, held);
  }
};

void evict(const Mapping& mapping) {
  CHECK(madvise(const_cast<std::byte*>(mapping.data()), mapping.size(), MADV_DONTNEED) == 0);
  CHECK(fsync(mapping.fd()) == 0);
  CHECK(posix_fadvise(mapping.fd(), 0, 0, POSIX_FADV_DONTNEED) == 0);
}

// Rows that were taken are right, those that were not are all in the rest, once; returns how many are.
size_t taken(HotRows& hot, uint64_t seed) {
  Rng rng(seed);
  std::vector<int64_t> ids(5000);
  for (int64_t& id : ids) id = static_cast<int64_t>(rng.below(kRows));
  std::vector<char> out(ids.size() * kWidth, 'x');
  std::vector<RowRequest> rest(ids.size());
  const size_t n = hot.take(ids.data(), ids.size(), out.data(), rest.data());
  std::vector<char> left(ids.size(), 0);
  for (size_t i = 0; i < n; ++i) {
    CHECK(rest[i].row == static_cast<uint64_t>(ids[rest[i].place]));
    CHECK(!left[rest[i].place]);
    left[rest[i].place] = 1;
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = gz_test::row_of(static_cast<uint64_t>(ids[i]), kWidth);
    CHECK(left[i] || std::memcmp(out.data() + i * kWidth, row.data(), kWidth) == 0);
  }
  return ids.size() - n;
}

// How many of the rows that taken() asks for lie in tiers.
size_t hot_among(uint64_t seed) {
  const HotIndex index(*Feature::open(path_of("ids.gd")), kHot, kRows);
  Rng rng(seed);
  size_t count = 0;
  for (int i = 0; i < 5000; ++i) count += index.find(rng.below(kRows)) != HotIndex::kNone;
  return count;
}

bool is_there(const Mapping& mapping) {
  unsigned char page = 1;
  CHECK(mincore(const_cast<std::byte*>(mapping.data()), 1, &page) == 0);
  return page & 1;
}

void wait_until(const std::function<bool()>& holds) {
  for (int i = 0; i < 60'000 && !holds(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(holds());
}

void test_threads_and_forks_take_the_rows_of_the_column() {
  const Column column;
  const auto hot = column.hot(hot_ids());
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 5; ++i) taken(*hot, t * 100 + i);
    });
  for (std::thread& t : threads) t.join();
  wait_until([&] { return taken(*hot, 7) > 5000 / 10; });  // a sixth of the rows are in front
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    taken(*hot, 11);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void test_pages_that_were_taken_back_are_read_again() {
  const Column column;
  const auto hot = column.hot(hot_ids());
  const size_t all = hot_among(7);
  for (const auto& tier : column.tiers) evict(*tier->mapping);
  wait_until([&] { return taken(*hot, 7) == all; });  // both were read as a whole
  const uint64_t before = hot->reads().pages;
  for (const auto& tier : column.tiers) evict(*tier->mapping);
  if (is_there(*column.tiers[0]->mapping)) return;  // a filesystem that keeps them in memory
  CHECK(taken(*hot, 7) == all);
  CHECK(hot->reads().pages > before + 4 && hot->reads().bytes > 0);
}

// What is left of `wanted` after those that lie in tiers were read, as [row, place]; all that was read is
// right.
std::vector<std::pair<uint64_t, uint64_t>> left_by(HotRows& hot, const std::vector<uint64_t>& wanted) {
  PooledArray<RowRequest> requests(wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) requests[i] = {wanted[i], i};
  std::vector<char> out(wanted.size() * kWidth, 'x');
  hot.read(requests, out.data());
  std::vector<std::pair<uint64_t, uint64_t>> left;
  std::vector<char> is_left(wanted.size(), 0);
  for (const RowRequest& r : requests) {
    left.emplace_back(r.row, r.place);
    is_left[r.place] = 1;
  }
  const std::string nothing(kWidth, 'x');
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto row = gz_test::row_of(wanted[i], kWidth);
    CHECK(std::memcmp(out.data() + i * kWidth, is_left[i] ? nothing.data() : row.data(), kWidth) == 0);
  }
  return left;
}

// Of those that are not held, and no others; from several threads, and in a forked child.
void test_rows_of_tiers_that_are_not_held_are_read_from_there() {
  const Column column;
  std::vector<uint64_t> wanted;
  Rng rng(5);
  for (int i = 0; i < 4000; ++i) wanted.push_back(rng.below(kRows));
  for (size_t held : {0, 1, 2}) {
    const auto hot = column.hot(hot_ids(), held);
    const HotIndex index(*Feature::open(path_of("ids.gd")), kHot, kRows);
    std::vector<std::pair<uint64_t, uint64_t>> expected;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const uint32_t place = index.find(wanted[i]);
      const bool in_memory = held == 2 || (held == 1 && place < 200);
      if (place == HotIndex::kNone || in_memory) expected.emplace_back(wanted[i], i);
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) threads.emplace_back([&] { CHECK(left_by(*hot, wanted) == expected); });
    for (std::thread& t : threads) t.join();
    CHECK((hot->reads().reads > 0) == (held < 2));
    CHECK(hot->reads().pages == 0);
    // One read brings many: of each tier at most as many are made as extents.cpp makes parts of a request.
    CHECK(hot->reads().reads <= 3 * 64 * (2 - held));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      CHECK(left_by(*hot, wanted) == expected);
      _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(left_by(*hot, {}).empty());
  }
}

// The last of two is held no longer where pages of both are taken back again and again; the first stays, and
// both do where nothing is taken back.
void test_fewer_tiers_are_held_where_memory_is_short() {
  const Column column;
  const auto hot = column.hot(hot_ids());
  const size_t all = hot_among(7);
  wait_until([&] { return taken(*hot, 7) == all; });
  for (int i = 0; i < 20; ++i) CHECK(taken(*hot, 7) == all);
  CHECK(hot->held() == 2);
  for (const auto& tier : column.tiers) evict(*tier->mapping);
  if (is_there(*column.tiers[0]->mapping)) return;  // a filesystem that keeps them in memory
  for (int i = 0; i < 100 && hot->held() == 2; ++i) {
    for (const auto& tier : column.tiers) evict(*tier->mapping);
    taken(*hot, static_cast<uint64_t>(i));
  }
  CHECK(hot->held() == 1);
  for (int i = 0; i < 20; ++i) {
    for (const auto& tier : column.tiers) evict(*tier->mapping);
    CHECK(taken(*hot, 7) < all);
  }
  CHECK(hot->held() == 1);
  CHECK(left_by(*hot, {300 * 7 % kRows}).empty());  // the 300th lies in the second tier
  CHECK(left_by(*hot, {7}).size() == 1);            // the first
}

// Where all rows of the first were there each time, the second is held, too, unless memory is short or the
// first two were too many before.
void test_more_tiers_are_held_where_there_is_room() {
  const Column column;
  const auto hot = column.hot(hot_ids(), 1);
  const size_t all = hot_among(7);
  CHECK(taken(*hot, 7) < all);
  wait_until([&] { return taken(*hot, 7) == all; });
  CHECK(hot->held() == 2);
  CHECK(left_by(*hot, {300 * 7 % kRows}).size() == 1);
  for (const auto& tier : column.tiers) evict(*tier->mapping);
  if (is_there(*column.tiers[0]->mapping)) return;  // a filesystem that keeps them in memory
  wait_until([&] {
    for (const auto& tier : column.tiers) evict(*tier->mapping);
    taken(*hot, 7);
    return hot->held() == 1;
  });
  for (int i = 0; i < 100; ++i) taken(*hot, 7);
  CHECK(hot->held() == 1);
}

void test_no_more_tiers_are_held_where_memory_is_short() {
  const Column column;
  const gz_test::FakeRoot root;
  root.machine(uint64_t{1} << 36, 10 << 20);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {  // its governor has seen no other machine
    setenv("GZ_SYSTEM_ROOT", root.path.c_str(), 1);
    const auto hot = column.hot(hot_ids(), 1);
    for (int i = 0; i < 100; ++i) taken(*hot, 7);
    CHECK(hot->held() == 1);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
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

void test_lists_that_break_the_rules_are_refused() {
  const Column column;
  std::vector<int32_t> twice = hot_ids(), outside = hot_ids(), negative = hot_ids(), few = hot_ids();
  twice[4] = twice[9];
  outside[4] = kRows;
  negative[4] = -1;
  few.pop_back();
  for (const auto& ids : {twice, outside, negative}) {
    const auto list = written("ids.gd", DType::kInt32, {}, ids.data(), ids.size() * sizeof(int32_t));
    CHECK(is_format_error([&] { HotIndex(*list, kHot, kRows); }));
  }
  CHECK(is_format_error([&] { column.hot(few); }));
  const std::vector<int32_t> ids = hot_ids();
  const auto list = written("ids.gd", DType::kInt32, {}, ids.data(), ids.size() * sizeof(int32_t));
  const auto narrow = written("0.gd", DType::kUInt8, {kWidth / 2}, rows_of(ids).data(), kWidth);
  CHECK(is_format_error([&] { HotRows(*column.file, list, {narrow}, 1); }));
  CHECK(is_format_error([&] { HotRows(*column.file, column.file, {}, 0); }));
  const HotIndex index(*list, kHot, kRows);
  for (uint64_t i = 0; i < kHot; ++i) CHECK(index.find(static_cast<uint64_t>(ids[i])) == i);
  CHECK(index.find(1) == HotIndex::kNone);
}

}  // namespace

int main() {
  set_num_threads(3);
  test_no_more_tiers_are_held_where_memory_is_short();  // before there is a governor
  test_lists_that_break_the_rules_are_refused();
  test_pages_that_were_taken_back_are_read_again();
  test_rows_of_tiers_that_are_not_held_are_read_from_there();
  test_fewer_tiers_are_held_where_memory_is_short();
  test_more_tiers_are_held_where_there_is_room();
  test_threads_and_forks_take_the_rows_of_the_column();
  std::puts("ok");
}
