#include "read/extents.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "memory/governor.h"
#include "read/ring.h"

namespace gz {
namespace {

constexpr unsigned kDepth = 128;  // reads in flight of a call
// What may lie between pages that are read together: it would take the place of others in the page cache. Of
// rows it depends on the disk (read_cost.h).
constexpr uint64_t kMergePageGap = 4096;
constexpr uint64_t kLargestExtent = 64 << 10;  // unless a single row is larger
constexpr size_t kBlockingThreads = 32;
constexpr size_t kBuckets = 64;  // parts of a request that threads take one after the other

[[noreturn]] void fail(int code, const Mapping& m, uint64_t offset, const char* why) {
  throw IoError(code, m.path(), "cannot read at byte " + std::to_string(offset) + ": " + why);
}

uint64_t device_of(const Mapping& m) {
  struct stat st;
  return ::fstat(m.fd(), &st) == 0 ? st.st_dev : 0;
}

uint64_t now_ns() {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count());
}

// Rows that are read together: requests [begin, end) of the sorted ones.
struct Extent {
  uint64_t offset = 0, bytes = 0;  // in the file, aligned
  size_t begin = 0, end = 0;
  char* straight = nullptr;  // read to here; null: to a buffer, then copied
};

class Extents {
 public:
  Extents(const ReadFile& file, uint64_t first, size_t row_bytes, PooledArray<RowRequest>& requests,
          char* out)
      : file_(file),
        first_(first),
        row_bytes_(row_bytes),
        out_(out),
        gap_(out ? file.cost().next_gap() : kMergePageGap),
        sorted_(requests.size()) {
    uint64_t low = UINT64_MAX, high = 0;
    for (const auto& r : requests) {
      low = std::min(low, r.row);
      high = std::max(high, r.row);
    }
    // By position into buckets; each is sorted by the thread that takes it.
    const uint64_t width = (high - low) / kBuckets + 1;
    size_t count[kBuckets + 1] = {};
    for (const auto& r : requests) ++count[(r.row - low) / width + 1];
    for (size_t b = 0; b < kBuckets; ++b) count[b + 1] += count[b];
    std::copy(count, count + kBuckets + 1, bounds_);
    for (const auto& r : requests) sorted_[count[(r.row - low) / width]++] = r;
  }

  struct Cursor {
    size_t at = 0, end = 0;
  };

  // The next extent for the thread that owns `cursor`; false when there is none left.
  bool next(Cursor& c, Extent& e) {
    while (c.at == c.end) {
      const size_t bucket = next_bucket_.fetch_add(1, std::memory_order_relaxed);
      if (bucket >= kBuckets) return take_left(c) && next(c, e);
      c = {bounds_[bucket], bounds_[bucket + 1]};
      std::sort(sorted_.data() + c.at, sorted_.data() + c.end,
                [](const RowRequest& a, const RowRequest& b) { return a.row < b.row; });
    }
    const uint64_t unit = file_.offset_unit();
    const auto low = [&](size_t i) { return start_of(i) / unit * unit; };
    const auto high = [&](size_t i) { return (start_of(i) + row_bytes_ + unit - 1) / unit * unit; };
    e = {.offset = low(c.at), .bytes = high(c.at) - low(c.at), .begin = c.at, .end = c.at + 1};
    for (++c.at; c.at < c.end; ++c.at, ++e.end) {
      const uint64_t until = high(c.at) - e.offset;
      // A row that is asked for twice is read once, however large it is.
      if (low(c.at) > e.offset + e.bytes + gap_ || until > std::max(kLargestExtent, e.bytes)) break;
      e.bytes = until;
    }
    if (out_ && e.end == e.begin + 1 && e.offset == start_of(e.begin) && e.bytes == row_bytes_) {
      char* const to = out_ + sorted_[e.begin].place * row_bytes_;
      if (reinterpret_cast<uintptr_t>(to) % file_.memory_unit() == 0) e.straight = to;
    }
    return true;
  }

  uint64_t largest() const {  // bytes a buffer needs
    return std::max(kLargestExtent, (row_bytes_ / file_.offset_unit() + 2) * file_.offset_unit());
  }

  // Leaves what the cursor has not reached to whoever asks for more.
  void leave(Cursor& c) {
    std::lock_guard lock(left_mutex_);
    if (!stopped_ && c.at != c.end) left_.push_back(c);
    c = {};
  }

  void stop() {
    next_bucket_.store(kBuckets, std::memory_order_relaxed);
    std::lock_guard lock(left_mutex_);
    stopped_ = true;
    left_.clear();
  }

  // The read of `e` into `buffer` ended with `result`, bytes or -errno.
  void finish(const Extent& e, char* buffer, int64_t result) {
    uint64_t end = start_of(e.end - 1) + row_bytes_;
    if (!out_) end = std::min(end, file_.mapping().size());  // the last page of a file need not be whole
    const uint64_t needed = end - e.offset;
    // A read that was refused, cancelled or cut short is made again, through the page cache; where the disk
    // or the file's new length is the reason, that says so.
    if (result < 0 || static_cast<uint64_t>(result) < needed) read_plainly(e, buffer, needed);
    if (!out_ || e.straight) return;
    for (size_t i = e.begin; i < e.end; ++i)
      std::memcpy(out_ + sorted_[i].place * row_bytes_, buffer + (start_of(i) - e.offset), row_bytes_);
  }

  const ReadFile& file() const { return file_; }
  bool of_rows() const { return out_ != nullptr; }

 private:
  uint64_t start_of(size_t i) const { return first_ + sorted_[i].row * row_bytes_; }

  bool take_left(Cursor& c) {
    std::lock_guard lock(left_mutex_);
    if (left_.empty()) return false;
    c = left_.back();
    left_.pop_back();
    return true;
  }

  void read_plainly(const Extent& e, char* buffer, uint64_t needed) const {
    for (uint64_t got = 0; got < needed;) {
      const ssize_t n =
          ::pread(file_.mapping().fd(), buffer + got, needed - got, static_cast<off_t>(e.offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail(errno, file_.mapping(), e.offset + got, std::strerror(errno));
      if (n == 0)
        fail(EIO, file_.mapping(), e.offset + got,
             "the file has become shorter than it was when it was opened");
      got += static_cast<uint64_t>(n);
    }
  }

  const ReadFile& file_;
  uint64_t first_;
  size_t row_bytes_;
  char* out_;
  uint64_t gap_;  // bytes that may lie between two rows which are read together
  PooledArray<RowRequest> sorted_;
  size_t bounds_[kBuckets + 1];
  std::atomic<size_t> next_bucket_{0};
  std::mutex left_mutex_;
  std::vector<Cursor> left_;
  bool stopped_ = false;
};

// A ring belongs to one thread. A forked child must not touch its parent's: it forgets that one.
struct ThreadRing {
  std::unique_ptr<Ring> ring;
  pid_t pid = 0;

  ~ThreadRing() {
    if (pid != ::getpid()) (void)ring.release();
  }
  Ring* get(std::string* why) {
    if (ring && pid != ::getpid()) (void)ring.release();
    if (!ring) {
      ring = Ring::create(kDepth, why);
      pid = ::getpid();
    }
    return ring.get();
  }
};
thread_local ThreadRing thread_ring;

// False where the kernel takes no more reads: what it had is done, what is left is left in `extents`.
bool read_with_ring(Ring& ring, Extents& extents, ReadCounts& counts) {
  const uint64_t largest = (extents.largest() + kPage - 1) / kPage * kPage;
  const uint64_t room = governor::read_buffers(static_cast<unsigned>(num_threads()));
  const auto depth = static_cast<unsigned>(std::clamp<uint64_t>(room / largest, 1, ring.depth()));
  const PooledArray<char> buffers(depth * largest);  // more than the pool leaves to the heap: page-aligned
  std::vector<Extent> active(depth);
  std::vector<uint32_t> free_slots(depth);
  for (uint32_t i = 0; i < depth; ++i) free_slots[i] = depth - 1 - i;
  const auto buffer_of = [&](uint64_t slot) {
    return active[slot].straight ? active[slot].straight : buffers.data() + slot * largest;
  };
  const auto push = [&](uint64_t slot) {
    const Extent& e = active[slot];
    ring.push_read(extents.file().fd(), buffer_of(slot), static_cast<uint32_t>(e.bytes), e.offset, slot);
  };

  Extents::Cursor cursor;
  std::exception_ptr error;
  bool more = true, taken = true;
  const uint64_t begun = now_ns();
  uint64_t reads = 0, bytes = 0, waits = 0, in_flight = 0, ns = 0, looked = begun;
  const auto attempt = [&](auto&& step) {
    if (error) return;
    try {
      step();
    } catch (...) {
      error = std::current_exception();
      extents.stop();
    }
  };
  // What was begun is always waited for, even after an error: the kernel writes into these buffers.
  for (;;) {
    while (more && taken && !error && !free_slots.empty()) {
      Extent& e = active[free_slots.back()];
      if (!(more = extents.next(cursor, e))) break;
      push(free_slots.back());
      free_slots.pop_back();
      ++reads;
      bytes += e.bytes;
    }
    if (ring.in_flight() == 0) break;
    attempt(poll);
    ++waits;
    in_flight += ring.in_flight();
    const unsigned waited_for = ring.in_flight();
    taken = ring.submit_and_wait(std::min(waited_for, std::max(1u, depth / 8)));
    const uint64_t now = now_ns();
    ns += waited_for * (now - std::exchange(looked, now));
    for (Ring::Completion c; taken ? ring.pop(c) : ring.drain(c);) {
      attempt([&] { extents.finish(active[c.tag], buffer_of(c.tag), c.result); });
      free_slots.push_back(static_cast<uint32_t>(c.tag));
    }
  }
  counts.reads += reads;
  counts.bytes += bytes;
  counts.waits += waits;
  counts.in_flight += in_flight;
  counts.ns += ns;
  if (extents.of_rows() && depth == ring.depth()) extents.file().note(reads, bytes, looked - begun);
  if (error) std::rethrow_exception(error);
  extents.leave(cursor);
  return taken;
}

void read_blocking(Extents& extents, ReadCounts& counts) {
  // A page more than the pool leaves to the heap, so that it is page-aligned.
  const PooledArray<char> buffer((extents.largest() + kPage) / kPage * kPage);
  Extents::Cursor cursor;
  for (Extent e; extents.next(cursor, e);) {
    char* const to = e.straight ? e.straight : buffer.data();
    ssize_t n;
    const uint64_t begun = now_ns();
    do {
      n = ::pread(extents.file().fd(), to, e.bytes, static_cast<off_t>(e.offset));
    } while (n < 0 && errno == EINTR);
    counts.ns += now_ns() - begun;
    extents.finish(e, to, n < 0 ? -errno : n);
    poll();
    ++counts.reads;
    counts.bytes += e.bytes;
  }
}

void read_with_threads(Extents& extents, size_t requests, ReadCounts& counts) {
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    try {
      read_blocking(extents, counts);
    } catch (...) {
      extents.stop();
      std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  };
  const size_t wanted = std::min(kBlockingThreads, requests / 8 + 1);
  counts.waits += 1;
  counts.in_flight += wanted;
  std::vector<std::thread> threads;
  try {
    while (threads.size() + 1 < wanted) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // The system grants no more threads: those there are, and this one, do the work.
  }
  work();
  for (auto& t : threads) t.join();
  if (error) std::rethrow_exception(error);
}

std::string forced_path() {
  const char* value = std::getenv("GZ_IO");
  return value ? value : "";
}

ReadChoice choose() {
  const std::string forced = forced_path();
  if (forced == "threads") return {ReadPath::kThreads, "GZ_IO=threads"};
  std::string why;
  if (Ring::create(1, &why))
    return {ReadPath::kRing, forced == "ring" ? "GZ_IO=ring" : "the kernel has io_uring"};
  return {ReadPath::kThreads, why};
}

std::atomic<int> denied{0};  // errno with which the kernel began to deny io_uring to this process

void remember_refusal(int code) {
  // Short of memory passes; what a filter denies, it goes on denying.
  if (code == EPERM || code == EACCES || code == ENOSYS) denied.store(code, std::memory_order_relaxed);
}

}  // namespace

ReadChoice read_choice() {
  static const ReadChoice choice = choose();
  const int code = denied.load(std::memory_order_relaxed);
  if (code == 0 || choice.path != ReadPath::kRing) return choice;
  return {ReadPath::kThreads, std::string("the kernel has begun to deny io_uring: ") + std::strerror(code)};
}

bool only_mapping() {
  static const bool only = forced_path() == "map";
  return only;
}

ReadFile::ReadFile(std::shared_ptr<const Mapping> mapping, Caching caching)
    : mapping_(std::move(mapping)), device_(device_of(*mapping_)) {
  // The same file even if another has taken its name since.
  const std::string same = "/proc/self/fd/" + std::to_string(mapping_->fd());
  if (caching == Caching::kPast && system::kDirect != 0) {
    fd_ = ::open(same.c_str(), O_RDONLY | O_CLOEXEC | system::kDirect);
    direct_ = fd_ >= 0;
  }
  if (fd_ < 0) {
    fd_ = ::open(same.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) fd_ = ::dup(mapping_->fd());  // no /proc
    if (fd_ < 0) fail(errno, *mapping_, 0, std::strerror(errno));
    system::expect_random_reads(fd_);
    return;
  }
  // Whole pages even where the device takes sectors of 512 bytes, which it may answer far slower
  // (docs/design.md).
  offset_unit_ = memory_unit_ = kPage;
#if defined(STATX_DIOALIGN)
  struct statx st;
  if (::statx(fd_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &st) == 0 && st.stx_mask & STATX_DIOALIGN &&
      st.stx_dio_offset_align) {
    offset_unit_ = std::max<uint64_t>(st.stx_dio_offset_align, kPage);
    memory_unit_ = std::max<uint64_t>(1, st.stx_dio_mem_align);
  }
#endif
}

ReadFile::~ReadFile() {
  ::close(fd_);
}

void read_rows(const ReadFile& file, uint64_t first, size_t row_bytes, PooledArray<RowRequest>& requests,
               char* out, ReadCounts& counts) {
  if (requests.size() == 0) return;
  Extents extents(file, first, row_bytes, requests, out);
  if (read_choice().path == ReadPath::kRing) {
    // By the caller alone: one queue of this depth gives a disk all it can take (197 against 194 thousand
    // reads a second with two), and the workers go on with what others compute.
    std::string why;
    Ring* const ring = thread_ring.get(&why);
    if (ring && read_with_ring(*ring, extents, counts)) return;
    if (ring)
      remember_refusal(ring->error());  // out of descriptors, of locked memory, of requests, or denied
  }
  read_with_threads(extents, requests.size(), counts);
}

}  // namespace gz
