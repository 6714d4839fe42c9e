#include "file/read_cost.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/rng.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kFewestReads = 1024;  // a call with fewer waits for the first and the last of them
constexpr double kRemembered = 1 << 20;  // reads: with more, all count half
constexpr double kEnough = 1 << 15;      // reads, before anything is concluded
// The sizes of two calls must differ by so many bytes, as a quadratic mean, before that tells anything.
constexpr double kLeastSpread = 1024;
// One call in so many is made to learn from: while little is known, and later.
constexpr uint64_t kLearning = 128, kFirst = 4, kLater = 16;

}  // namespace

// Which calls these are is drawn: those of a batch come in the same order each time.
uint64_t ReadCost::next_gap() {
  const uint64_t call = calls_.fetch_add(1, std::memory_order_relaxed);
  Rng rng(call);
  switch (rng.below(2 * (call < kLearning ? kFirst : kLater))) {
    case 0:
      return kLeastGap;
    case 1:
      return kMostGap;
    default:
      return gap();
  }
}

void ReadCost::note(Call& last, uint64_t reads, uint64_t bytes, uint64_t ns) {
  if (reads < kFewestReads) return;
  const auto n = static_cast<double>(reads);
  const Call call{.reads = n, .size = static_cast<double>(bytes) / n, .ns = static_cast<double>(ns) / n};
  std::lock_guard lock(fork_mutex());
  const Call before = std::exchange(last, call);
  reads_ += n;
  bytes_ += n * call.size;
  ns_ += n * call.ns;
  const double weight = std::min(n, before.reads), larger = call.size - before.size;
  pairs_ += weight;
  size_size_ += weight * larger * larger;
  size_ns_ += weight * larger * (call.ns - before.ns);
  if (reads_ > kRemembered)
    for (double* sum : {&reads_, &bytes_, &ns_, &pairs_, &size_size_, &size_ns_}) *sum /= 2;
  if (pairs_ < kEnough || size_size_ < pairs_ * kLeastSpread * kLeastSpread) return;
  // One of the two may cost next to nothing.
  const double of_byte = std::max(0.0, size_ns_ / size_size_);
  const double of_read = std::max(0.0, (ns_ - of_byte * bytes_) / reads_);
  const double most = kMostGap;
  const double gap = of_read >= most * of_byte ? most : of_read / of_byte;
  gap_.store(std::max(kLeastGap, static_cast<uint64_t>(gap)), std::memory_order_relaxed);
}

ReadCost& ReadCost::of(uint64_t device) {
  static auto& all = *new std::map<uint64_t, ReadCost>;  // never destroyed: files may outlive statics
  std::lock_guard lock(fork_mutex());
  return all[device];
}

}  // namespace gz
