// The row cache against a plain model of SIEVE, and while it grows and shrinks under the hands of others, for
// the sanitizers.
#include "cache/row_cache.h"

#include <sys/mman.h>

#include <atomic>
#include <fstream>
#include <list>
#include <thread>
#include <unordered_map>

#include "checks.h"

namespace {

using namespace gz;
using gz_test::row_of;

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
  for (uint64_t budget : {5000u, 9000u, 20000u, 200000u}) {
    RowCache cache(budget, kBytes);
    cache.resize(budget);
    const auto slabs = cache.slabs();
    const uint64_t capacity = cache.size().rows;
    CHECK(slabs->count() == 1 && capacity > 0 && cache.size().bytes <= budget);
    RowSlab& slab = (*slabs)[0];
    PlainSieve model(capacity);
    Rng rng(budget);
    std::vector<char> out(kBytes);
    for (int turn = 0; turn < 5000; ++turn) {
      // A few rows often, many rows seldom.
      const uint64_t row = rng.below(2) ? rng.below(capacity) : rng.below(capacity * 20);
      const RowRequest request{row, 0};
      std::vector<RowRequest> missed;
      slab.find(&request, 1, out.data(), missed);
      CHECK(missed.empty() == model.ask(row));
      const auto expected = row_of(row, kBytes);
      if (missed.empty()) {
        CHECK(out == expected);
      } else {
        slab.insert(&request, 1, expected.data());
        model.insert(row);
      }
    }
    CHECK(cache.size().filled_rows == capacity);
  }
}

// Of a gather for several batches: a row that two of them lack is taken in as if one had come after the
// other.
void test_a_row_asked_for_twice_in_one_call_stays_longer() {
  constexpr size_t kBytes = 40;
  RowCache cache(9000, kBytes);
  cache.resize(9000);
  RowSlab& slab = (*cache.slabs())[0];
  const uint64_t capacity = cache.size().rows;
  std::vector<RowRequest> requests;
  std::vector<char> rows;
  const auto add = [&](uint64_t row) {
    const auto bytes = row_of(row, kBytes);
    requests.push_back({row, requests.size()});
    rows.insert(rows.end(), bytes.begin(), bytes.end());
  };
  for (uint64_t row = 0; row < capacity; ++row) add(row);
  add(0);
  slab.insert(requests.data(), requests.size(), rows.data());
  requests.clear();
  rows.clear();
  add(capacity);  // one has to go: 1, not 0
  slab.insert(requests.data(), 1, rows.data());
  std::vector<RowRequest> missed;
  std::vector<char> out(2 * kBytes);
  const RowRequest asked[] = {{0, 0}, {1, 1}};
  slab.find(asked, 2, out.data(), missed);
  CHECK(missed.size() == 1 && missed[0].row == 1);
}

void test_no_budget_is_too_small() {
  for (uint64_t budget = 0; budget < 20'000; budget += 37) {
    RowCache cache(budget, 64);
    cache.resize(budget);
    CHECK(cache.most() <= budget && cache.size().bytes <= budget);
    const auto slabs = cache.slabs();
    if (!slabs) continue;
    const RowRequest request{7, 0};
    const auto row = row_of(7, 64);
    (*slabs)[slabs->slab_of(7)].insert(&request, 1, row.data());
  }
}

// One row at a time: asked for, and taken in if it was not there.
struct AskedOne {
  std::vector<char> out;
  explicit AskedOne(size_t bytes) : out(bytes) {}

  bool operator()(const RowCache& cache, uint64_t row) {
    const auto slabs = cache.slabs();
    if (!slabs) return false;
    RowSlab& slab = (*slabs)[slabs->slab_of(row)];
    const RowRequest request{row, 0};
    std::vector<RowRequest> missed;
    slab.find(&request, 1, out.data(), missed);
    const auto expected = row_of(row, out.size());
    if (missed.empty())
      CHECK(out == expected);
    else
      slab.insert(&request, 1, expected.data());
    return missed.empty();
  }
};

void test_a_ceiling_is_kept_and_nearly_met() {
  for (uint64_t ceiling : {10ull << 20, 100'000'000ull, (6ull << 30) + 12345}) {
    RowCache cache(ceiling, 512);
    CHECK(cache.most() <= ceiling && cache.most() > ceiling - ceiling / 100);
    cache.resize(UINT64_MAX);
    CHECK(cache.size().bytes == cache.most());
  }
}

void test_growing_and_shrinking_keep_what_stays() {
  constexpr size_t kBytes = 512;
  constexpr uint64_t kRows = 20'000;
  RowCache cache(64 << 20, kBytes);
  AskedOne ask(kBytes);
  const auto found = [&] {
    uint64_t hits = 0;
    for (uint64_t row = 0; row < kRows; ++row) hits += ask(cache, row);
    return hits;
  };
  cache.resize(8 * cache.slab_bytes());
  CHECK(found() == 0);
  CHECK(found() == kRows);
  cache.resize(10 * cache.slab_bytes());  // a fifth moves to the new slabs
  const uint64_t after_growth = found();
  CHECK(after_growth > kRows * 7 / 10 && after_growth < kRows * 9 / 10);
  CHECK(found() == kRows);
  cache.resize(5 * cache.slab_bytes());  // half of them goes; some of the rest had stayed where they were
  const uint64_t after_shrinking = found();
  CHECK(after_shrinking > kRows * 4 / 10 && after_shrinking < kRows * 7 / 10);
  cache.resize(0);
  CHECK(!cache.slabs() && cache.size().bytes == 0 && found() == 0);
}

uint64_t anonymous_bytes() {
  std::ifstream f("/proc/self/statm");
  uint64_t size = 0, resident = 0, shared = 0;
  f >> size >> resident >> shared;
  return (resident - shared) * 4096;
}

// Also what a gather still has in its hands: the memory goes at once, not when the gather ends.
void test_what_shrinks_is_given_back_at_once() {
  constexpr size_t kBytes = 512;
  RowCache cache(128 << 20, kBytes);
  cache.resize(UINT64_MAX);
  AskedOne ask(kBytes);
  for (uint64_t row = 0; row < 150'000; ++row) ask(cache, row);
  const auto in_hand = cache.slabs();
  const uint64_t full = anonymous_bytes();
  cache.resize(0);
  CHECK(anonymous_bytes() + (60 << 20) < full);
  std::vector<char> out(kBytes);
  std::vector<RowRequest> missed;
  const RowRequest request{7, 0};
  RowSlab& slab = (*in_hand)[in_hand->slab_of(7)];
  slab.find(&request, 1, out.data(), missed);
  CHECK(missed.size() == 1);
  slab.insert(&request, 1, out.data());
}

// What the kernel takes in need, page by page, is missed and never wrong; what is read again is found again.
// MADV_DONTNEED does to a page at once what the kernel does to one that was let go (MADV_FREE).
void test_rows_whose_pages_were_taken_are_missed_and_come_back() {
  for (size_t bytes : {128u, 512u, 1000u, 4088u, 4096u, 9000u}) {
    const uint32_t rows = RowSlab::rows_in(1 << 20, bytes);
    RowSlab slab(rows, bytes);
    Rng rng(bytes);
    std::vector<char> out(bytes);
    const auto ask = [&](uint64_t row) {  // whether it was there
      const RowRequest request{row, 0};
      std::vector<RowRequest> missed;
      slab.find(&request, 1, out.data(), missed);
      const auto expected = row_of(row, bytes);
      if (missed.empty())
        CHECK(out == expected);
      else
        slab.insert(&request, 1, expected.data());
      return missed.empty();
    };
    for (uint64_t row = 0; row < rows; ++row) CHECK(!ask(row));
    for (uint64_t row = 0; row < rows; ++row) CHECK(ask(row));
    uint64_t lost = 0;
    for (int turn = 0; turn < 20; ++turn) {
      const auto [memory, size] = slab.row_memory();
      for (int i = 0; i < 5; ++i)
        CHECK(madvise(memory + rng.below(size / 4096) * 4096, 4096, MADV_DONTNEED) == 0);
      for (int i = 0; i < 200; ++i) lost += !ask(rng.below(rows));  // while other pages are still gone
    }
    CHECK(lost > 0);
    for (uint64_t row = 0; row < rows; ++row) ask(row);
    for (uint64_t row = 0; row < rows; ++row) CHECK(ask(row));
  }
}

void test_threads_share_a_cache_that_changes_size() {
  constexpr size_t kBytes = 128;
  RowCache cache(64 << 20, kBytes);
  std::atomic<bool> done{false};
  std::thread sizes([&] {
    Rng rng(99);
    while (!done) cache.resize(rng.below(17) * cache.slab_bytes());
  });
  std::atomic<uint64_t> hits{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Rng rng(static_cast<uint64_t>(t));
      AskedOne ask(kBytes);
      // On a busy machine the sizes may change faster than rows come in: then it takes longer to find one.
      for (int turn = 0; turn < 5000 || (hits == 0 && turn < 1000000); ++turn)
        hits += ask(cache, rng.below(500));
    });
  for (auto& t : threads) t.join();
  done = true;
  sizes.join();
  CHECK(hits > 0);
}

}  // namespace

int main() {
  test_the_cache_is_sieve();
  test_a_row_asked_for_twice_in_one_call_stays_longer();
  test_no_budget_is_too_small();
  test_a_ceiling_is_kept_and_nearly_met();
  test_growing_and_shrinking_keep_what_stays();
  test_what_shrinks_is_given_back_at_once();
  test_rows_whose_pages_were_taken_are_missed_and_come_back();
  test_threads_share_a_cache_that_changes_size();
  std::puts("row_cache_test: all passed");
}
