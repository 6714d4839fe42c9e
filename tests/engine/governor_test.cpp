// The governor without Python, for the sanitizers: what it reads, what it decides for scripts that are played
// to it, who shares with whom, and that forks and gathers do not disturb it.
#include "memory/governor.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "checks.h"
#include "fake_root.h"
#include "memory/container.h"
#include "memory/policy.h"
#include "memory/pool.h"
#include "memory/processes.h"

namespace {

using namespace gz;
using gz_test::FakeRoot;
namespace fs = std::filesystem;

constexpr uint64_t kMiB = uint64_t{1} << 20, kGiB = uint64_t{1} << 30;

void test_the_tightest_group_counts() {
  const FakeRoot root;
  root.machine(64 * kGiB, 50 * kGiB);
  CHECK(Container(root.path).read().free == 50 * kGiB);
  root.write("proc/self/cgroup", "0::/pod/job\n");
  root.group("/pod/job", "max", 3 * kGiB, 0);
  root.group("/pod", std::to_string(8 * kGiB), 7 * kGiB, 2 * kGiB);
  Container container(root.path);
  MemoryReading r = container.read();
  CHECK(r.limit == 8 * kGiB && r.free == 3 * kGiB && r.scope != 0 && r.refaults == 77);
  CHECK(container.limit() == 8 * kGiB);
  root.machine(64 * kGiB, 2 * kGiB);
  r = container.read();
  CHECK(r.limit == 64 * kGiB && r.free == 2 * kGiB && r.scope == 0);
  // Figures that do not agree, as those of a living group may.
  root.group("/pod", std::to_string(8 * kGiB), 9 * kGiB, 0);
  CHECK(container.read().free == 0);
  root.group("/pod", std::to_string(8 * kGiB), kGiB, 2 * kGiB);
  root.machine(64 * kGiB, 50 * kGiB);
  CHECK(container.read().free == 8 * kGiB);
}

void test_groups_of_the_first_version_and_of_containers() {
  const FakeRoot root;
  root.machine(64 * kGiB, 50 * kGiB);
  // The host's path, which is not there in a container: what is mounted is the container's own group.
  root.write("proc/self/cgroup", "9:cpu:/a\n4:hugetlb,memory:/docker/1234\n0::/\n");
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(4 * kGiB));
  root.write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(3 * kGiB));
  root.write("sys/fs/cgroup/memory/memory.stat",
             "active_file 1\ntotal_inactive_file " + std::to_string(kGiB) + "\ntotal_active_file 0\n");
  root.write("sys/fs/cgroup/memory/memory.pressure", "some total=5\nfull avg10=0.00 total=1234\n");
  const MemoryReading r = Container(root.path).read();
  CHECK(r.limit == 4 * kGiB && r.free == 2 * kGiB && r.stalled_us == 1234);
  root.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
  CHECK(Container(root.path).read().limit == 64 * kGiB);
}

// ---- decisions, for scripts that are played ----

// A container in which a script, a cache that fills itself and batches ahead live. The cache counts as free:
// `least_spared` is what was free beside it at the worst moment; below zero the kernel had to take rows.
struct Play {
  MemoryPolicy policy;
  MemoryState s;
  MemoryOrders orders;
  double fill = 400e6;  // bytes a second that misses bring
  double filled = 0, least_spared = 1e18;
  std::function<double(double)> script;

  Play(uint64_t limit, std::function<double(double)> script_) : script(std::move(script_)) {
    s.limit = limit;
    s.cache_unit = 4 * kMiB;
  }

  void look() {
    const auto used = static_cast<uint64_t>(script(s.now)) + s.ahead + s.pool;
    s.free = s.limit > used ? s.limit - used : 0;
    s.held_by_all = s.ahead;
    least_spared = std::min(least_spared, static_cast<double>(s.limit) - static_cast<double>(used) - filled);
    s.cache_full = filled + static_cast<double>(s.cache / 32) >= static_cast<double>(s.cache);
    orders = policy.decide(s);
    s.cache = orders.cache / s.cache_unit * s.cache_unit;
    filled = std::min(filled, static_cast<double>(s.cache));
    s.pool = std::min(s.pool, orders.pool);
  }
  // Until `end`; the policy sleeps as long as it likes, and a little longer.
  void run(double end) {
    while (s.now < end) {
      look();
      const double pause = orders.sleep + 0.02;
      s.now += pause;
      filled = std::min(static_cast<double>(s.cache), filled + fill * pause);
    }
  }
};

double waves(double t) {  // a step of training every two seconds: 0.6 to 1.6 GB
  return 1.1e9 + 0.5e9 * std::sin(t * 3.14159);
}

void test_a_cache_takes_what_the_scripts_peaks_leave() {
  Play play(4 * kGiB, waves);
  play.run(60);
  const uint64_t left = 4 * kGiB - 1'600'000'000;
  CHECK(play.s.cache > left * 6 / 10);
  CHECK(play.s.cache < left);
  CHECK(play.least_spared > 0);
}

void test_a_script_that_needs_all_gets_all() {
  Play play(2 * kGiB, [](double t) { return 1.5e9 + 0.5e9 * std::sin(t * 3.14159); });
  play.run(60);
  CHECK(play.s.cache < 64 * kMiB);
  CHECK(play.least_spared > 0);
}

void test_a_script_that_grows_by_a_gigabyte_gets_it() {
  for (double seconds : {0.3, 3.0, 30.0}) {
    Play play(4 * kGiB,
              [=](double t) { return waves(t) + 1.1e9 * std::clamp((t - 60) / seconds, 0.0, 1.0); });
    play.run(60);
    const uint64_t before = play.s.cache;
    CHECK(before > kGiB);
    play.run(100);
    CHECK(play.s.cache + 900'000'000 < before);
    CHECK(play.least_spared > 0 || seconds < 1);  // the quickest is served by the kernel
  }
}

void test_what_it_took_once_is_forgotten_after_a_while() {
  Play play(4 * kGiB, [](double t) { return t < 20 ? 4e9 : 1e9; });
  play.run(19);
  CHECK(play.s.cache == 0);
  play.run(120);
  CHECK(play.s.cache > kGiB);
}

void test_a_peak_between_two_looks_widens_the_reserve() {
  Play calm(16 * kGiB, [](double) { return 1e9; });
  calm.run(20);
  Play wild(16 * kGiB, [](double t) { return std::fmod(t, 2) < 0.5 ? 4e9 : 1e9; });
  wild.run(20);
  CHECK(wild.policy.reserve() > calm.policy.reserve());
}

void test_files_to_be_held_come_before_the_cache() {
  Play play(4 * kGiB, waves);
  play.s.pages_held = 2 * kGiB;
  play.run(60);
  CHECK(play.s.cache < 2 * kGiB - 1'600'000'000);
  Play partly(4 * kGiB, waves);
  partly.s.pages_useful = 100 * kGiB;  // a topology that never fits gets the larger part
  partly.run(60);
  CHECK(partly.s.cache > 500 * kMiB && partly.s.cache < kGiB + kGiB / 10);
}

void test_batches_ahead_go_first_then_the_cache() {
  Play play(4 * kGiB, [](double t) { return t < 60 ? 1e9 : 1e9 + (t - 60) * 10e6; });
  play.s.ahead_wanted = 400 * kMiB;
  play.s.ahead = 400 * kMiB;
  play.run(59);
  const uint64_t cache = play.s.cache;
  CHECK(cache > kGiB && play.orders.ahead > 0);
  while (play.orders.ahead > 0) play.run(play.s.now + 0.1);
  CHECK(play.s.cache == cache);  // nothing more is begun, and the cache is still what it was
  play.run(play.s.now + 60);
  CHECK(play.s.cache < cache);
}

// A topology that fits stays in memory: batches ahead take what is left beside it. One that does not fit is
// read for every batch whatever they take, and may lose a little more to them.
void test_batches_ahead_do_not_push_out_files_to_be_held() {
  const auto room_with = [](uint64_t held, uint64_t hot_rows = 0) {
    Play play(5 * kGiB / 2, [](double) { return 1.5e9; });
    play.s.pages_held = held;
    play.s.pages_of_hot_rows = hot_rows;
    play.s.ahead_wanted = 500 * kMiB;
    play.run(60);
    return play.orders.ahead;
  };
  CHECK(room_with(0) >= 500 * kMiB);
  CHECK(room_with(800 * kMiB) < 300 * kMiB);
  CHECK(room_with(4 * kGiB) == 512 * kMiB);
  // Of hot rows, which can be read elsewhere, half; never what the script takes at its peaks.
  CHECK(room_with(800 * kMiB, 800 * kMiB) == 400 * kMiB);
  CHECK(room_with(8 * kGiB, 8 * kGiB) < 5 * kGiB / 2 - 1'500'000'000);
}

// What pages beside those files may take: nothing where the script's peaks and the files leave nothing,
// however much is free now; batches ahead come first.
void test_what_files_to_be_held_leave() {
  double reserve = 0;
  const auto left = [&](uint64_t held, uint64_t ahead) {
    Play play(4 * kGiB, waves);
    play.s.pages_held = held;
    play.s.ahead_wanted = ahead;
    play.run(20);
    reserve = static_cast<double>(play.policy.reserve());
    return static_cast<double>(play.policy.beside_held());
  };
  const double none = left(0, 0), all = 4.0 * kGiB - 1.6e9 - reserve;
  CHECK(reserve >= 256 * kMiB && std::abs(none - all) < 10e6);
  CHECK(std::abs(left(kGiB, 0) - (all - kGiB)) < 10e6);
  CHECK(std::abs(left(kGiB, 500 * kMiB) - (all - kGiB - 500 * kMiB)) < 10e6);
  CHECK(left(3 * kGiB, 0) == 0);
}

void test_a_cache_leaves_room_for_batches_ahead() {
  Play play(4 * kGiB, [](double) { return 1e9; });
  play.run(60);
  const uint64_t cache = play.s.cache;
  play.s.ahead_wanted = 600 * kMiB;
  play.run(80);
  CHECK(play.s.cache + 400 * kMiB < cache);
  CHECK(play.orders.ahead >= 600 * kMiB);
}

void test_in_danger_the_pool_gives_back_and_nothing_is_begun() {
  Play play(4 * kGiB, [](double) { return 1e9; });
  play.s.ahead_wanted = 200 * kMiB;
  play.run(60);
  play.s.pool = 200 * kMiB;
  play.script = [&](double) { return static_cast<double>(play.s.limit - 300 * kMiB); };
  play.look();  // 100 MiB free; a quarter GiB or more is the reserve
  CHECK(play.s.pool == 0 && play.s.cache == 0 && play.orders.ahead == 0);
  CHECK(!play.orders.why.empty());
  play.script = [](double) { return 1e9; };
  play.run(play.s.now + 5);
  CHECK(play.orders.pool == 0);  // not at once again
  play.run(play.s.now + 120);
  CHECK(play.s.cache > kGiB);  // the kernel can take its rows back
  CHECK(play.orders.pool == 0 && play.orders.ahead == 0);
  play.run(play.s.now + 2 * 3600);
  CHECK(play.orders.pool > 500 * kMiB && play.orders.ahead > 0);
}

void test_what_nobody_needs_of_the_pool_goes() {
  Play play(4 * kGiB, [](double) { return 1e9; });
  play.run(60);
  play.s.pool = 300 * kMiB;
  play.look();
  CHECK(play.s.pool == 300 * kMiB);  // there is room for it
  play.s.pool_idle = 200 * kMiB;
  play.look();
  CHECK(play.s.pool == 100 * kMiB);
  play.s.pool_idle = 0;
  play.look();
  CHECK(play.s.pool == 100 * kMiB && play.orders.pool > 300 * kMiB);  // it may keep as much again
}

// What the kernel cannot take back is held only out of room that no peak of the last half hour needed.
void test_a_peak_once_an_epoch_is_not_forgotten() {
  Play play(3 * kGiB / 2, [](double t) { return std::fmod(t, 600) < 595 ? 0.6e9 : 1.55e9; });
  play.s.ahead_wanted = 200 * kMiB;
  play.run(590);
  CHECK(play.orders.pool > 100 * kMiB && play.orders.ahead >= play.s.ahead_wanted);  // it has seen none yet
  play.run(605);
  for (double t : {700.0, 1190.0, 1790.0, 2390.0}) {
    play.run(t);
    CHECK(play.orders.pool == 0 && play.orders.ahead == 0);
  }
}

// A step that comes close to the limit: the pool has nothing of it when the next one comes, quicker than any
// look.
void test_the_pool_keeps_nothing_that_a_step_needs() {
  Play play(3 * kGiB / 2, [](double t) { return std::fmod(t, 4) < 3 ? 0.6e9 : 1.5e9; });
  for (double t = 4.5; t < 60; t += 4) {
    play.run(t);
    play.s.pool = std::min(play.orders.pool, uint64_t{300} * kMiB);  // a batch was made and dropped
    CHECK(play.s.pool == 0);
  }
}

// The heap gives back what is free in it where a peak came near the limit, now and then; elsewhere never.
void test_the_heap_is_trimmed_where_peaks_come_near_the_limit() {
  for (const double peak : {0.9e9, 1.5e9}) {
    Play play(3 * kGiB / 2, [=](double t) { return std::fmod(t, 4) < 3 ? 0.6e9 : peak; });
    play.run(10);
    for (const double took : {0.0, 0.03, 0.5}) {
      play.s.trim_took = took;
      int trims = 0;
      for (const double end = play.s.now + 50; play.s.now < end; play.s.now += 0.05) {
        play.look();
        trims += play.orders.trim;
      }
      const double most = 50 / std::max(1.0, 50 * took) + 1;
      CHECK(peak < 1e9 ? trims == 0 : trims <= most && trims >= most / 2 - 1);
    }
  }
}

void test_a_child_knows_the_peaks_of_its_parent() {
  Play play(2 * kGiB, [](double t) { return t < 10 ? 2.1e9 : 1e9; });
  play.run(20);
  play.policy = MemoryPolicy::in_child(play.policy);
  play.look();
  CHECK(play.orders.pool == 0 && play.orders.ahead == 0 && play.s.cache == 0);
}

void test_processes_divide() {
  Play one(8 * kGiB, [](double) { return 1e9; }), four(8 * kGiB, [](double) { return 1e9; });
  four.s.sharers = 4;
  one.run(60);
  four.run(60);
  CHECK(four.s.cache <= one.s.cache / 4 + 64 * kMiB && four.s.cache > one.s.cache / 8);
  one.s.others_wait = true;
  one.look();
  CHECK(one.s.cache == 0);
}

void test_a_cache_that_pushes_out_files_shrinks() {
  Play play(4 * kGiB, [](double) { return 1e9; });
  play.run(60);
  uint64_t cache = play.s.cache;
  for (int i = 0; i < 20; ++i) {  // more rows found than pages read again: it stays
    play.s.cache_hits += 200'000;
    play.s.refaults += 100'000;
    play.run(play.s.now + 2);
  }
  CHECK(play.s.cache >= cache);
  cache = play.s.cache;
  for (int i = 0; i < 5; ++i) {
    play.s.cache_hits += 20'000;
    play.s.refaults += 100'000;
    play.run(play.s.now + 2);
  }
  CHECK(play.s.cache < cache / 2);
  cache = play.s.cache;
  play.run(play.s.now + 20);
  CHECK(play.s.cache == cache);  // and is not tried again at once
}

// ---- processes ----

struct Child {
  pid_t pid;
  int go[2], ready[2];

  explicit Child(const std::function<void(std::function<void()>)>& work) {
    CHECK(pipe(go) == 0 && pipe(ready) == 0);
    pid = fork();
    if (pid == 0) {
      work([this] {
        char c = 0;
        CHECK(write(ready[1], &c, 1) == 1);
        CHECK(read(go[0], &c, 1) == 1);
      });
      _exit(0);
    }
    char c;
    CHECK(read(ready[0], &c, 1) == 1);
  }
  void kill_it() {
    kill(pid, SIGKILL);
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
  }
};

void test_processes_see_each_other_until_they_die() {
  const FakeRoot folder;
  Processes here({folder.path});
  const Processes::Row row{.scope = 7, .held = 100, .sharing = true, .active = true, .files = {11, 12}};
  CHECK(here.exchange(row).count == 0);
  const auto same = [&](auto wait) {
    Processes there({folder.path});
    there.exchange({.scope = 7, .held = 5, .sharing = true, .active = true, .files = {11}});
    wait();
  };
  const auto elsewhere = [&](auto wait) {
    Processes there({folder.path});
    there.exchange({.scope = 8, .held = 5, .sharing = true, .active = true, .files = {11}});
    wait();
  };
  Child a(same), b(same), c(elsewhere);
  Processes::Others others = here.exchange(row);
  CHECK(others.count == 2 && others.sharing == 2 && others.active == 2 && others.held == 10);
  CHECK(others.files == std::vector<uint64_t>({11, 11}));
  a.kill_it();
  others = here.exchange(row);
  CHECK(others.count == 1 && others.held == 5);
  b.kill_it();
  c.kill_it();
  CHECK(here.exchange(row).count == 0);
}

void test_without_a_place_to_meet_a_process_is_alone() {
  Processes nowhere({"/nonexistent"});
  CHECK(nowhere.exchange({.scope = 1, .held = 1, .sharing = true, .active = true, .files = {}}).count == 0);
}

// ---- the governor itself, in a fake container ----

struct FakeCache : MemoryClient {
  std::atomic<uint64_t> size{0}, most{kGiB};
  std::atomic<bool> fresh{true};

  Need need() override {
    Need n;
    n.size = size;
    n.most = most;
    n.fresh = fresh.exchange(false);
    n.asked_for = true;
    n.unit = 4 * kMiB;
    n.full = n.active = true;
    n.file = 42;
    return n;
  }
  void resize(uint64_t bytes, const std::string&) override { size = bytes / (4 * kMiB) * (4 * kMiB); }
};

void test_the_governor_has_its_clients_give_back(const FakeRoot& root) {
  root.machine(64 * kGiB, 60 * kGiB);
  root.write("proc/self/cgroup", "0::/job\n");
  const auto use = [&](uint64_t bytes) { root.group("/job", std::to_string(4 * kGiB), bytes, 0); };
  use(kGiB / 2);
  const auto cache = std::make_shared<FakeCache>();
  governor::add(cache);
  const uint64_t first = cache->size;
  CHECK(first > 512 * kMiB && first <= kGiB);
  CHECK(governor::room_ahead(100 * kMiB, true) && !governor::room_ahead(2 * kGiB, true));
  CHECK(!governor::room_ahead(100 * kMiB, false));  // nobody knows yet what the script will do with it
  uint64_t room = 0;  // while no look is made, what was begun and what came of it are off the room alike
  while (governor::room_ahead(room + kMiB, true)) room += kMiB;
  const auto batch = static_cast<int64_t>(room);
  governor::change_ahead(0, batch, 0);
  CHECK(!governor::room_ahead(room, true) && governor::room_ahead(room / 3, true));
  governor::change_ahead(0, -batch, batch);
  CHECK(!governor::room_ahead(room, true) && governor::room_ahead(room / 3, true));
  governor::change_ahead(0, 0, -batch);
  use(4 * kGiB - 100 * kMiB);
  governor::look();
  CHECK(cache->size == 0);
  CHECK(!governor::room_ahead(kMiB, true));
  const MemoryStats stats = governor::stats();
  CHECK(stats.limit == 4 * kGiB && stats.change.find("gave back") != std::string::npos);
  CHECK(governor::read_buffers(1) <= 16 * kMiB && governor::read_buffers(64) == kMiB);
}

void test_a_dropped_client_is_forgotten() {
  auto cache = std::make_shared<FakeCache>();
  governor::add(cache);
  std::weak_ptr<FakeCache> gone = cache;
  cache.reset();
  CHECK(gone.expired());
  governor::look();
}

// Forks while other threads take and give memory and the governor looks all the time.
void test_forks_do_not_disturb_it() {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      const auto cache = std::make_shared<FakeCache>();
      governor::add(cache);
      while (!done) {
        const PooledArray<char> buffer(1 << 20);
        governor::look();
        governor::room_ahead(kMiB, true);
      }
    });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
#if !defined(__SANITIZE_THREAD__)  // which cannot follow threads that start after such a fork
      const PooledArray<char> buffer(1 << 20);
      governor::add(std::make_shared<FakeCache>());
#endif
      governor::look();
      _exit(governor::stats().limit == 4 * kGiB ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
  done = true;
  for (auto& t : threads) t.join();
}

}  // namespace

int main() {
  test_the_tightest_group_counts();
  test_groups_of_the_first_version_and_of_containers();
  test_a_cache_takes_what_the_scripts_peaks_leave();
  test_a_script_that_needs_all_gets_all();
  test_a_script_that_grows_by_a_gigabyte_gets_it();
  test_what_it_took_once_is_forgotten_after_a_while();
  test_a_peak_between_two_looks_widens_the_reserve();
  test_files_to_be_held_come_before_the_cache();
  test_batches_ahead_go_first_then_the_cache();
  test_batches_ahead_do_not_push_out_files_to_be_held();
  test_what_files_to_be_held_leave();
  test_a_cache_leaves_room_for_batches_ahead();
  test_in_danger_the_pool_gives_back_and_nothing_is_begun();
  test_what_nobody_needs_of_the_pool_goes();
  test_a_peak_once_an_epoch_is_not_forgotten();
  test_the_pool_keeps_nothing_that_a_step_needs();
  test_the_heap_is_trimmed_where_peaks_come_near_the_limit();
  test_a_child_knows_the_peaks_of_its_parent();
  test_processes_divide();
  test_a_cache_that_pushes_out_files_shrinks();
  test_processes_see_each_other_until_they_die();
  test_without_a_place_to_meet_a_process_is_alone();
  {
    const FakeRoot root;
    setenv("GZ_SYSTEM_ROOT", root.path.c_str(), 1);
    governor::begin();
    test_the_governor_has_its_clients_give_back(root);
    test_a_dropped_client_is_forgotten();
    test_forks_do_not_disturb_it();
  }
  std::puts("governor_test: all passed");
}
