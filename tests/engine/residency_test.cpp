// Pages of a file that is read beside files that are to be held: they are dropped after use where these leave
// them no room, and stay where there is room, or where the file is one that is read by the page.
#include "read/residency.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "base/threads.h"
#include "checks.h"
#include "fake_root.h"

namespace {

using namespace gz;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSize = 80 * kMiB;  // more than what is never worth dropping

struct File {
  std::string path = "/var/tmp/gz_residency_test_" + std::to_string(getpid());
  File() {  // all of it a hole
    const int file = open(path.c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, kSize) == 0 && close(file) == 0);
  }
  ~File() { unlink(path.c_str()); }
};

// In a process of its own, whose governor has seen no other machine.
void on_a_machine(uint64_t available, const std::function<void()>& run) {
  const gz_test::FakeRoot root;
  root.machine(uint64_t{64} << 30, available);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    setenv("GZ_SYSTEM_ROOT", root.path.c_str(), 1);
    run();
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

void fetch(Residency& r, uint64_t from, uint64_t to) {
  r.fetch((to - from) / kMiB, [&](size_t i) { return std::pair(from + i * kMiB, kMiB); });
}
uint64_t there(const Residency& r) {
  return r.mapping()->resident_bytes(0, kSize);
}

void test_used_pages_go_where_there_is_no_room() {
  const File file;
  on_a_machine(10 * kMiB, [&] {
    Residency r(Mapping::open(file.path));
    r.claim_no_pages();
    fetch(r, 0, 10 * kMiB);
    r.drop_used();
    CHECK(there(r) == 10 * kMiB);  // too few to be worth it
    fetch(r, 10 * kMiB, kSize);
    CHECK(there(r) == kSize);
    r.drop_used();
    CHECK(there(r) < kSize / 2);
    const uint64_t before = r.counts().bytes;
    fetch(r, 0, 10 * kMiB);  // it knows that they are gone
    CHECK(r.counts().bytes == before + 10 * kMiB && there(r) >= 10 * kMiB);
  });
}

void test_used_pages_stay_elsewhere() {
  const auto stay = [](uint64_t available, bool by_page, bool whole) {
    const File file;  // another one each time: nothing of it is there yet
    on_a_machine(available, [&] {
      Residency r(Mapping::open(file.path), by_page);
      if (whole) r.allow_loading(true);
      fetch(r, 0, kSize);
      CHECK(r.counts().bytes == kSize);
      r.drop_used();
      CHECK(there(r) == kSize);
    });
  };
  stay(20'000 * kMiB, false, false);  // beside a reserve of a sixteenth of the machine
  stay(10 * kMiB, true, false);
  stay(10 * kMiB, false, true);
}

}  // namespace

int main() {
  test_used_pages_go_where_there_is_no_room();
  test_used_pages_stay_elsewhere();
  std::puts("ok");
}
