// Few of each of many lists: the code for this processor gives the bits of the plain code, which draws list
// by list as choose_without_replacement() does, and neither writes where another thread does.
#include "pick/subset.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "checks.h"

namespace {

using namespace gz;

struct Lists {
  std::vector<uint64_t> begins, degrees, offsets{0};
  std::vector<int64_t> nodes, batch;

  Lists(const std::vector<uint64_t>& degrees_, uint64_t k) : degrees(degrees_) {
    Rng rng(k);
    for (uint64_t d : degrees) {
      begins.push_back(rng.below(uint64_t{1} << 40));
      nodes.push_back(static_cast<int64_t>(rng.below(uint64_t{1} << 33)));
      batch.push_back(static_cast<int64_t>(rng.below(1000)));
      offsets.push_back(offsets.back() + std::min(d, k));
    }
  }
  Frontier frontier(bool disjoint) const {
    return {.nodes = nodes.data(), .size = nodes.size(), .batch = disjoint ? batch.data() : nullptr};
  }
};

constexpr int64_t kUntouched = -7;
constexpr uint64_t kStream = 77;

struct Chosen {
  std::vector<int64_t> positions, owners;
  bool operator==(const Chosen&) const = default;
};

Chosen choose(const Lists& lists, uint64_t k, bool disjoint, size_t from, size_t to, ChooseBy by) {
  const size_t size = lists.offsets.back();
  Chosen out{std::vector(size, kUntouched), std::vector(size, kUntouched)};
  const Frontier frontier = lists.frontier(disjoint);
  choose_few_of_each({lists.begins.data(), lists.degrees.data(), lists.offsets.data(), frontier, kStream}, k,
                     from, to, 1000, out.positions.data(), out.owners.data(), by);
  return out;
}

// One list after the other.
Chosen expected(const Lists& lists, uint64_t k, bool disjoint, size_t from, size_t to) {
  const size_t size = lists.offsets.back();
  Chosen out{std::vector(size, kUntouched), std::vector(size, kUntouched)};
  for (size_t i = from; i < to; ++i) {
    int64_t* const p = out.positions.data() + lists.offsets[i];
    const auto begin = static_cast<int64_t>(lists.begins[i]);
    Rng rng(lists.frontier(disjoint).stream(i, kStream));
    if (lists.degrees[i] > k)
      choose_without_replacement(rng, lists.degrees[i], k, begin, p);
    else
      for (uint64_t j = 0; j < lists.degrees[i]; ++j) p[j] = begin + static_cast<int64_t>(j);
    for (size_t at = lists.offsets[i]; at < lists.offsets[i + 1]; ++at)
      out.owners[at] = 1000 + static_cast<int64_t>(i);
  }
  return out;
}

std::vector<uint64_t> degrees(size_t count, uint64_t k, uint64_t largest) {
  Rng rng(k + count);
  std::vector<uint64_t> out(count);
  for (auto& d : out) d = rng.below(3) ? rng.below(2 * k + 2) : rng.below(largest);
  return out;
}

void check(const Lists& lists, uint64_t k, size_t from, size_t to) {
  for (bool disjoint : {false, true}) {
    const Chosen want = expected(lists, k, disjoint, from, to);
    CHECK(choose(lists, k, disjoint, from, to, ChooseBy::kScalar) == want);
    CHECK(choose(lists, k, disjoint, from, to, ChooseBy::kVector) == want);
  }
}

void test_both_ways_give_what_single_lists_give() {
  for (uint64_t k = 1; k <= kFew; ++k)
    for (uint64_t largest : {uint64_t{40}, uint64_t{100}, uint64_t{1} << 31, uint64_t{1} << 34}) {
      const Lists lists(degrees(67, k, largest), k);
      for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 67}, {3, 64}, {8, 16}, {5, 6}, {9, 9}})
        check(lists, k, from, to);
    }
}

void test_lists_as_long_as_32_bits_count() {
  const uint64_t limit = uint64_t{1} << 32;
  check(Lists({limit - 1, limit, limit + 1, 3, 0, limit - 2, 5, 6, limit - 1, 1}, 5), 5, 0, 10);
  check(Lists({limit - 1, limit - 1, 0, 0, 0}, 5), 5, 0, 5);
  check(Lists({0, 0, 0}, 5), 5, 0, 3);
}

}  // namespace

int main() {
  test_both_ways_give_what_single_lists_give();
  test_lists_as_long_as_32_bits_count();
}
