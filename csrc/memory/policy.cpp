#include "memory/policy.h"

#include <algorithm>
#include <cstdio>

namespace gz {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr double kSettled = 1;  // without a new peak, before a cache grows
constexpr double kBetweenSteps = 0.1;
constexpr double kCalm = 10;      // without danger, before anything grows again
constexpr double kBriefCalm = 2;  // before batches are begun ahead again
constexpr double kCramped = 5;    // so long batches ahead wait for room before the caches make some
constexpr double kBetweenTrims = 1, kTrimShare = 50;  // seconds, and of the time that it takes
constexpr double kCheckPages = 2;                     // between looks at pages that come back
constexpr double kFastest = 8e9;                      // bytes a second: nothing fills memory faster
constexpr double kShortest = 0.01, kLongest = 0.25;   // seconds between looks
// The reserve: at least this, for the pages of programs must stay somewhere; at most the second share of the
// limit, however wild the swings.
constexpr uint64_t kLeastReserve = 128 * kMiB, kReserveShare = 16, kMostReserveShare = 8;
constexpr uint64_t kMostPool = 1024 * kMiB, kPoolShare = 4;
constexpr uint64_t kLooseShare = 8;           // of the limit: what lies there is in the way of pages of files
constexpr uint64_t kAheadShare = 8;           // of files to be held: what they may lose to batches ahead
constexpr uint64_t kAheadOfHotRows = 2;       // of those with hot rows, of which the kernel takes the coldest
constexpr uint64_t kLeastCache = 64 * kMiB;   // to begin with
constexpr uint64_t kForPrograms = 64 * kMiB;  // their pages, beside those of files that are wanted
// Of the room, what the page cache is left for files that do not fit into it as a whole.
constexpr double kForPages = 0.6;

uint64_t minus(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

std::string text(const char* format, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  char out[200];
  std::snprintf(out, sizeof out, format, static_cast<double>(a) / 1e6, static_cast<double>(b) / 1e6,
                static_cast<double>(c) / 1e6);
  return out;
}

}  // namespace

void RecentLow::note(double now, uint64_t value) {
  if (!begun_) {
    begun_ = true;
    start_ = now;
    low_ = before_ = value;
  } else if (now - start_ >= window_) {
    before_ = low_;
    low_ = value;
    start_ = now;
  }
  low_ = std::min(low_, value);
}

MemoryPolicy MemoryPolicy::in_child(const MemoryPolicy& parent) {
  MemoryPolicy p;
  p.begun_ = parent.begun_;
  p.last_now_ = parent.last_now_;
  p.recent_ = parent.recent_;
  p.lasting_ = parent.lasting_;
  p.last_room_ = parent.last_room_;
  p.swing_ = parent.swing_;
  return p;
}

MemoryOrders MemoryPolicy::decide(const MemoryState& s) {
  observe(s);
  pages_and_room(s);
  MemoryOrders o;
  o.cache = s.cache;
  o.pool = s.pool_idle ? std::min(for_pool_, s.pool - s.pool_idle) : for_pool_;
  o.loose = std::min(kMostPool, s.limit / kLooseShare / std::max(1u, s.processes));
  if (s.now - urgent_at_ < kCalm) o.pool = std::min(o.pool, s.pool);
  if (s.free < reserve_) make_up(s, o);
  shrink(s, o);
  if (s.now - urgent_at_ >= kBriefCalm) o.ahead = minus(for_ahead_, o.cache + s.ahead);
  grow(s, o);
  trim(s, o);
  // So that the caches shrink before the kernel has to take rows from them.
  o.sleep = std::clamp(static_cast<double>(minus(s.free, s.cache)) / kFastest, kShortest, kLongest);
  last_now_ = s.now;
  return o;
}

void MemoryPolicy::observe(const MemoryState& s) {
  const uint64_t room = s.free + s.held_by_all;
  if (!begun_) {
    begun_ = true;
    last_room_ = room;
    recent_.note(s.now, room);
    new_low_at_ = s.now;
  }
  // What is gone in a tenth of a second at the fastest pace seen.
  const double passed = std::max(s.now - last_now_, 0.001);
  const double pace = std::min(1.0, 0.1 / passed);
  swing_ = std::max(swing_, static_cast<uint64_t>(static_cast<double>(minus(last_room_, room)) * pace));
  last_room_ = room;
  reserve_ = std::clamp(std::max(2 * swing_, s.limit / kReserveShare), kLeastReserve,
                        std::max(kLeastReserve, s.limit / kMostReserveShare));
  if (room + reserve_ / 8 < lowest_room()) new_low_at_ = s.now;
  recent_.note(s.now, room);
  lasting_.note(s.now, room);
}

void MemoryPolicy::pages_and_room(const MemoryState& s) {
  const uint64_t low = lowest_room();
  const auto useful = static_cast<uint64_t>(static_cast<double>(minus(low, s.pages_held)) * kForPages);
  pages_ = s.pages_held + std::min(s.pages_useful, useful);
  beside_held_ = minus(low, s.pages_held + std::max(s.held_by_all, s.ahead_wanted) + reserve_);
  const unsigned sharers = std::max(1u, s.sharers);
  // The kernel can take neither of these back.
  const uint64_t lasting = minus(lasting_.value(), reserve_);
  // Files that are read for every batch are worth more than batches ahead, which would push them out: these
  // have what is left beside them, or a small share where such a file does not fit, and is read anyway.
  const uint64_t beside = minus(lasting_.value(), std::max(reserve_, s.pages_held + kForPrograms));
  // Without a batch ahead nothing is read while the script computes: that is more than the least read rows.
  const uint64_t instead = std::max(s.pages_held / kAheadShare, s.pages_of_hot_rows / kAheadOfHotRows);
  for_ahead_ = std::min(lasting, std::max(beside, instead)) / sharers;
  for_pool_ = std::min(kMostPool, lasting / kPoolShare / std::max(1u, s.processes));
  // Pages lie in the reserve as long as nobody needs it.
  for_cache_ = minus(low, std::max(reserve_, pages_ + kForPrograms)) / sharers;
  spare_ = minus(for_cache_, s.cache + std::max(s.ahead, s.ahead_wanted));
}

// Memory may be about to run out: what can be freed at once makes up the reserve.
void MemoryPolicy::make_up(const MemoryState& s, MemoryOrders& o) {
  if (s.free < reserve_ / 2) urgent_at_ = s.now;
  o.pool = std::min(o.pool, minus(s.pool, reserve_ - s.free));
  if (o.pool < s.pool)
    o.why = text("the pool gave back %.0f MB: %.0f MB were free, %.0f MB are kept in reserve",
                 s.pool - o.pool, s.free, reserve_);
}

void MemoryPolicy::shrink(const MemoryState& s, MemoryOrders& o) {
  if (o.cache > for_cache_) {
    o.cache = for_cache_;
    o.why = text("caches gave back %.0f MB: the script left %.0f MB at its peak, %.0f MB of them for files",
                 s.cache - o.cache, lowest_room(), pages_);
  }
  if (s.others_wait && o.cache > 0) {
    o.cache = 0;
    o.why = text("caches gave back %.0f MB: other processes read rows and this one does not", s.cache);
  }
  if (pages_come_back(s) && o.cache > 0) {
    o.cache = minus(o.cache, std::max(o.cache / 4, s.cache_unit));
    thrash_most_ = o.cache;
    o.why = text(
        "caches gave back %.0f MB: files were dropped from memory and read again more often than "
        "rows were found",
        s.cache - o.cache);
  }
  // Batches ahead that wait for room are worth more than as many bytes of a cache.
  const bool cramped = o.cache + s.ahead_wanted > for_cache_;
  if (!cramped || o.cache == 0) {
    cramped_since_ = -1;
  } else if (cramped_since_ < 0) {
    cramped_since_ = s.now;
  } else if (s.now - cramped_since_ >= kCramped) {
    o.cache = minus(for_cache_, s.ahead_wanted);
    o.why = text("caches gave back %.0f MB: batches made ahead need them", s.cache - o.cache);
  }
}

// Whether the caches cost more reads than they save, or everything waits for memory. After such a finding
// they may not grow for a while, each time for longer.
bool MemoryPolicy::pages_come_back(const MemoryState& s) {
  const double passed = s.now - checked_at_;
  if (passed < kCheckPages) return false;
  const bool known = checked_at_ >= 0 && s.refaults >= refaults_then_ && s.stalled_us >= stalled_then_;
  const auto refaults = static_cast<double>(s.refaults - refaults_then_);
  const auto hits = static_cast<double>(s.cache_hits - hits_then_);
  const double stalled = static_cast<double>(s.stalled_us - stalled_then_) / 1e6;
  checked_at_ = s.now;
  refaults_then_ = s.refaults;
  stalled_then_ = s.stalled_us;
  hits_then_ = s.cache_hits;
  if (s.now >= thrash_until_) thrash_most_ = UINT64_MAX;
  if (!known || s.cache == 0) return false;
  const bool thrash = refaults / passed > 1000 && refaults > hits;
  if (!thrash && stalled / passed < 0.3) return false;
  thrash_pause_ = std::clamp(thrash_pause_ * 2, 30.0, 3600.0);
  thrash_until_ = s.now + thrash_pause_;
  return true;
}

// What the heap keeps is in the way of the next peak alone, and costs faults when it is used again.
void MemoryPolicy::trim(const MemoryState& s, MemoryOrders& o) {
  if (lowest_room() >= 2 * reserve_) return;
  o.trim = s.now - trimmed_at_ >= std::max(kBetweenTrims, kTrimShare * s.trim_took);
  if (o.trim) trimmed_at_ = s.now;
}

void MemoryPolicy::grow(const MemoryState& s, MemoryOrders& o) {
  if (!s.cache_full || o.cache < s.cache || s.others_wait || s.now - urgent_at_ < kCalm ||
      s.now - new_low_at_ < kSettled || s.now - grown_at_ < kBetweenSteps)
    return;
  // A cache of a few rows finds none, and room that comes and goes is not worth following.
  if (spare_ <
      (s.cache ? std::max(2 * s.cache_unit, for_cache_ / 16) : std::max(2 * s.cache_unit, kLeastCache)))
    return;
  const uint64_t step = std::max({spare_ / 8, s.cache_unit, s.cache ? 0 : kLeastCache / 2});
  const uint64_t larger = std::min(s.cache + step, thrash_most_);
  if (larger < s.cache + s.cache_unit) return;
  o.cache = larger;
  grown_at_ = s.now;
  o.why = text("caches grew by %.0f MB: the script left %.0f MB at its peak, %.0f MB of them for files",
               o.cache - s.cache, lowest_room(), pages_);
}

}  // namespace gz
