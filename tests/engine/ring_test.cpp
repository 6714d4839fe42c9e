// Reads while the kernel refuses some of them, without Python, for the sanitizers: io_uring_enter is made to
// fail in every way it can, and every row must still be the file's. A process for each way, because a denial
// is remembered.
#include "read/ring.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/threads.h"
#include "checks.h"
#include "read/row_source.h"

namespace {

using namespace gz;

constexpr size_t kFirst = 4096;
constexpr uint64_t kRows = 6000;

uint64_t word_of(uint64_t row, size_t i) {
  return mix64(row * 1000003 + i);
}

struct TestFile {
  std::string path = "/var/tmp/gz_ring_test_" + std::to_string(getpid());
  size_t row_bytes;

  explicit TestFile(size_t bytes) : row_bytes(bytes) {
    std::ofstream f(path, std::ios::binary);
    f << std::string(kFirst, 'h');
    std::vector<uint64_t> row(row_bytes / 8);
    for (uint64_t r = 0; r < kRows; ++r) {
      for (size_t i = 0; i < row.size(); ++i) row[i] = word_of(r, i);
      f.write(reinterpret_cast<const char*>(row.data()), static_cast<std::streamsize>(row_bytes));
    }
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

// How io_uring_enter misbehaves. One call in `one_in` fails with `code`; code 0: it takes only some of the
// reads.
struct Fault {
  int code;
  uint64_t one_in;
  uint64_t calls_before;  // that go well
};
Fault fault;
std::atomic<uint64_t> calls{0}, injected{0};
detail::RingEnter kernel;

long failing_enter(int fd, unsigned submit, unsigned wait, unsigned flags) {
  const uint64_t call = calls.fetch_add(1);
  if ((submit == 0 && wait == 0) || call < fault.calls_before || mix64(call) % fault.one_in != 0)
    return kernel(fd, submit, wait, flags);
  injected.fetch_add(1);
  if (fault.code == 0) return kernel(fd, static_cast<unsigned>(mix64(call + 1) % (submit + 1)), 0, 0);
  errno = fault.code;
  return -1;
}

void check_gather(RowSource& source, const TestFile& file, uint64_t seed) {
  constexpr size_t kCount = 600;
  Rng rng(seed);
  std::vector<int64_t> ids(kCount);
  for (auto& id : ids) id = static_cast<int64_t>(rng.below(kRows));
  std::vector<uint64_t> out(kCount * file.row_bytes / 8);
  file.evict();
  source.gather(ids.data(), kCount, reinterpret_cast<char*>(out.data()));
  const size_t words = file.row_bytes / 8;
  for (size_t i = 0; i < kCount; ++i)
    for (size_t w = 0; w < words; w += words - 1)
      CHECK(out[i * words + w] == word_of(static_cast<uint64_t>(ids[i]), w));
}

void gathers_under(Fault f, size_t row_bytes) {
  set_num_threads(2);
  fault = f;
  kernel = detail::ring_enter.exchange(failing_enter);
  const TestFile file(row_bytes);
  RowSource source(Mapping::open(file.path), kFirst, kRows, row_bytes);
  source.configure(0, false);
  std::vector<std::thread> callers;
  for (uint64_t t = 0; t < 2; ++t)
    callers.emplace_back([&, t] {
      for (uint64_t turn = 0; turn < 8; ++turn) check_gather(source, file, t * 1000 + turn);
    });
  for (auto& c : callers) c.join();
  // Pages of small rows are few and stay in memory once mapped: of them only the first calls are sure.
  const bool always = f.one_in == 1 && f.calls_before == 0;
  if (always || (f.one_in < UINT64_MAX && row_bytes >= 512)) CHECK(injected.load() > 0);
  const bool denied = f.code == EPERM || f.code == ENOSYS;
  if (injected.load()) CHECK((read_choice().path == ReadPath::kThreads) == denied);
}

void in_a_child(Fault f, size_t row_bytes) {
  const pid_t child = fork();
  if (child == 0) {
    gathers_under(f, row_bytes);
    _exit(0);
  }
  int status = 1;
  const bool passed = waitpid(child, &status, 0) == child && status == 0;
  if (!passed)
    std::fprintf(stderr, "%s, one call in %lu, after %lu, rows of %zu bytes: status %d\n",
                 std::strerror(f.code), f.one_in, f.calls_before, row_bytes, status);
  CHECK(passed);
}

void test_no_refusal_gives_a_wrong_row() {
  // Rows of 512 bytes pass through buffers, of 4096 go straight to their places, of 64 by the page.
  for (size_t row_bytes : {512u, 4096u, 64u}) {
    in_a_child({.code = 0, .one_in = UINT64_MAX, .calls_before = 0}, row_bytes);
    for (int code : {EAGAIN, EBUSY, EPERM, ENOSYS, ENOMEM, EINTR, 0})
      in_a_child({.code = code, .one_in = code == EINTR ? 2u : 3u, .calls_before = 4}, row_bytes);
    for (int code : {EAGAIN, EPERM, EBADF}) {
      in_a_child({.code = code, .one_in = 1, .calls_before = 6}, row_bytes);
      in_a_child({.code = code, .one_in = 1, .calls_before = 0}, row_bytes);
    }
  }
}

}  // namespace

int main() {
  std::string why;
  if (!Ring::create(1, &why)) {
    std::printf("ring_test: skipped, %s\n", why.c_str());
    return 0;
  }
  test_no_refusal_gives_a_wrong_row();
  std::puts("ring_test: all passed");
}
