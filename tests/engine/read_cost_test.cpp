// How far apart rows may lie to be read together: found out from the times of reads, on disks that are
// played.
#include "file/read_cost.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/rng.h"
#include "checks.h"

namespace {

using namespace gz;

constexpr uint64_t kKiB = 1024;

// A disk on which a read takes `read` ns and a KiB of it `kib`, give or take `noise` of all; the processor
// keeps each waiting for `wait` more.
struct Disk {
  double read, kib, noise = 0, wait = 0;
  Rng rng{0};
  ReadCost::Call last{};

  void calls(ReadCost& cost, int count, uint64_t least, uint64_t most, uint64_t reads = 2000) {
    for (int i = 0; i < count; ++i) {
      const uint64_t size = least + (most > least ? rng.below(most - least) : 0);
      const double wrong = 1 + noise * (static_cast<double>(rng.below(2001)) / 1000 - 1);
      const double each = (read + kib * static_cast<double>(size) / kKiB) * wrong + wait;
      cost.note(last, reads, reads * size, static_cast<uint64_t>(each * static_cast<double>(reads)));
    }
  }
};

bool near(uint64_t found, double expected, double by) {
  return std::abs(static_cast<double>(found) - expected) < by * expected;
}

void test_a_gap_costs_what_a_read_does() {
  for (const double kib : {500.0, 800.0, 1500.0}) {
    ReadCost cost;
    Disk{.read = 10'000, .kib = kib}.calls(cost, 100, 4 * kKiB, 20 * kKiB);
    CHECK(near(cost.gap(), 10'000 / kib * kKiB, 0.01));
    ReadCost noisy;
    Disk{.read = 10'000, .kib = kib, .noise = 0.3}.calls(noisy, 500, 4 * kKiB, 20 * kKiB);
    CHECK(near(noisy.gap(), 10'000 / kib * kKiB, 0.35));
  }
}

// Of two files the one with the larger reads is read while the processor is busy.
void test_files_that_wait_for_the_processor_do_not_mislead() {
  ReadCost cost;
  Disk busy{.read = 10'000, .kib = 500, .wait = 5000}, idle{.read = 10'000, .kib = 500};
  for (int i = 0; i < 100; ++i) {
    busy.calls(cost, 1, 12 * kKiB, 20 * kKiB);
    idle.calls(cost, 1, 4 * kKiB, 12 * kKiB);
  }
  CHECK(cost.gap() >= 20 * kKiB && cost.gap() < 26 * kKiB);  // 20 KiB, and the mean of the waits
}

void test_it_stays_within_bounds() {
  ReadCost fast, slow, odd;
  Disk{.read = 10'000, .kib = 1}.calls(fast, 100, 4 * kKiB, 20 * kKiB);
  CHECK(fast.gap() == ReadCost::kMostGap);
  Disk{.read = 100, .kib = 2000}.calls(slow, 100, 4 * kKiB, 20 * kKiB);
  CHECK(slow.gap() == ReadCost::kLeastGap);
  Disk{.read = 40'000, .kib = -1000}.calls(odd, 100, 4 * kKiB, 20 * kKiB);  // larger ones come from a cache
  CHECK(odd.gap() == ReadCost::kMostGap);
}

void test_nothing_is_concluded_from_little() {
  ReadCost few, alike, small;
  Disk disk{.read = 40'000, .kib = 1000};
  disk.calls(few, 10, 4 * kKiB, 20 * kKiB);
  disk.calls(alike, 1000, 4 * kKiB, 5 * kKiB);
  disk.calls(small, 1000, 4 * kKiB, 20 * kKiB, 100);
  for (const ReadCost* cost : {&few, &alike, &small}) CHECK(cost->gap() == ReadCost::kUsualGap);
}

void test_it_follows_a_disk_that_changes() {
  ReadCost cost;
  Disk{.read = 10'000, .kib = 500}.calls(cost, 3000, 4 * kKiB, 20 * kKiB);
  Disk{.read = 10'000, .kib = 1500}.calls(cost, 3000, 4 * kKiB, 20 * kKiB);
  CHECK(near(cost.gap(), 10'000 / 1500.0 * kKiB, 0.1));
}

void test_some_calls_are_made_to_learn_from() {
  ReadCost cost;
  constexpr int kCalls = 4096;
  int least = 0, most = 0, usual = 0;
  for (int i = 0; i < kCalls; ++i) {
    const uint64_t gap = cost.next_gap();
    least += gap == ReadCost::kLeastGap;
    most += gap == ReadCost::kMostGap;
    usual += gap == ReadCost::kUsualGap;
    if (i == 127) CHECK(least >= 8 && most >= 8);
  }
  CHECK(least + most + usual == kCalls);
  CHECK(usual > kCalls * 9 / 10 && least > kCalls / 50 && most > kCalls / 50);
}

void test_each_disk_has_its_own() {
  Disk{.read = 10'000, .kib = 500}.calls(ReadCost::of(1), 100, 4 * kKiB, 20 * kKiB);
  CHECK(ReadCost::of(1).gap() > 2 * ReadCost::kUsualGap);
  CHECK(ReadCost::of(2).gap() == ReadCost::kUsualGap);
}

}  // namespace

int main() {
  test_a_gap_costs_what_a_read_does();
  test_files_that_wait_for_the_processor_do_not_mislead();
  test_it_stays_within_bounds();
  test_nothing_is_concluded_from_little();
  test_it_follows_a_disk_that_changes();
  test_some_calls_are_made_to_learn_from();
  test_each_disk_has_its_own();
  std::puts("ok");
}
