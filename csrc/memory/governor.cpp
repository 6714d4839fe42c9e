#include "memory/governor.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/system.h"
#include "memory/container.h"
#include "memory/policy.h"
#include "memory/pool.h"
#include "memory/processes.h"

namespace gz::governor {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kReadBuffers = 16 * kMiB, kLeastReadBuffers = kMiB, kReadShare = 32;
constexpr uint64_t kSmallCache = 4 * kMiB;
constexpr uint64_t kPlenty = uint64_t{8} << 30;
constexpr double kIdle = 30;      // without a row read, a process counts as idle
constexpr double kPoolIdle = 10;  // seconds in which what the pool keeps must have been needed
constexpr double kFresh = 0.5;    // seconds for which a look is good enough, should there be no thread

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::string system_root() {
  const char* root = std::getenv("GZ_SYSTEM_ROOT");
  return root ? root : "";
}

struct Wanted {
  uint64_t bytes = 0;
  std::array<unsigned, 3> held{};  // how many want it, by Hold
};

class Governor {
 public:
  Governor() : container_(system_root()) {}

  void add(const std::shared_ptr<MemoryClient>& client) {
    {
      std::lock_guard lock(mutex_);
      clients_.push_back(client);
    }
    look();
  }

  void want_pages(std::pair<uint64_t, uint64_t> file, uint64_t bytes, Hold hold) {
    std::lock_guard lock(mutex_);
    Wanted& w = wanted_[file];
    w.bytes = bytes;
    ++w.held[static_cast<size_t>(hold)];
  }
  void release_pages(std::pair<uint64_t, uint64_t> file, Hold hold) {
    std::lock_guard lock(mutex_);
    Wanted& w = wanted_[file];
    --w.held[static_cast<size_t>(hold)];
    if (w.held == decltype(w.held){}) wanted_.erase(file);
  }

  void change_ahead(int64_t wanted, int64_t begun, int64_t there) {
    std::lock_guard lock(mutex_);
    ahead_wanted_ = sum(ahead_wanted_, wanted);
    ahead_begun_ = sum(ahead_begun_, begun);
    ahead_ = sum(ahead_, there);
    // What is there now is seen by the next look; until then it is off the room, as it was when it was begun.
    if (there > 0) ahead_room_ -= std::min(ahead_room_, static_cast<uint64_t>(there));
  }

  bool room_ahead(uint64_t bytes, bool known) {
    look_if_old();
    std::lock_guard lock(mutex_);
    const uint64_t room = ahead_room_ - std::min(ahead_room_, ahead_begun_);
    // What a script does with a batch takes several times the batch. Until that was seen, only plenty will
    // do.
    if (!known || bytes == 0) return room >= std::max({state_.limit / 2, kPlenty, 16 * bytes});
    return room >= 2 * bytes;  // itself, and what making it takes
  }

  void look() {
    std::lock_guard turn(look_mutex_);
    std::vector<std::shared_ptr<MemoryClient>> clients;
    {
      std::lock_guard lock(mutex_);
      for (const auto& c : clients_)
        if (auto client = c.lock()) clients.push_back(std::move(client));
      std::erase_if(clients_, [](const auto& c) { return c.expired(); });
    }
    std::vector<MemoryClient::Need> needs;
    for (const auto& c : clients) needs.push_back(c->need());
    MemoryState s = observe(needs);
    MemoryOrders orders;
    uint64_t grants[2];
    {
      std::lock_guard lock(mutex_);
      orders = policy_.decide(s);
      for (bool asked_for : {false, true}) grants[asked_for] = policy_.first_grant(asked_for);
      state_ = s;
      ahead_room_ = orders.ahead;
      urgent_ = s.free < policy_.reserve();
      sleep_ = orders.sleep;
      note(orders.why, s.now);
    }
    looked_at_.store(s.now, std::memory_order_relaxed);
    set_pool_limit(orders.pool, orders.loose);
    if (orders.trim) trim();
    for (size_t i = 0; i < clients.size(); ++i)
      if (needs[i].fresh) needs[i].size = first_size(*clients[i], needs[i], grants[needs[i].asked_for]);
    distribute(clients, needs, s.cache, orders);
  }

  void look_if_old() {
    if (now() - looked_at_.load(std::memory_order_relaxed) > kFresh) look();
  }

  double sleep() {
    std::lock_guard lock(mutex_);
    return sleep_;
  }

  uint64_t beside_held() {
    look_if_old();
    std::lock_guard lock(mutex_);
    return policy_.beside_held();
  }

  uint64_t read_buffers(unsigned threads) {
    std::lock_guard lock(mutex_);
    const uint64_t all = state_.limit ? state_.limit / kReadShare / (urgent_ ? 4 : 1) : UINT64_MAX;
    return std::clamp(all / std::max(1u, threads), kLeastReadBuffers, kReadBuffers);
  }

  MemoryStats stats() {
    look();
    std::lock_guard lock(mutex_);
    const uint64_t room = policy_.lowest_room();
    return {.limit = state_.limit,
            .free = state_.free,
            .script_peak = state_.limit - std::min(state_.limit, room),
            .reserve = policy_.reserve(),
            .pages = policy_.pages(),
            .caches = state_.cache,
            .pool = pool_bytes(),
            .ahead = ahead_,
            .in_use = pool_in_use(),
            .processes = state_.sharers,
            .change = change_,
            .changed_ago = change_.empty() ? 0 : now() - changed_at_};
  }

  uint64_t free_memory() {
    std::lock_guard turn(look_mutex_);
    return container_.read().free;
  }
  uint64_t memory_limit() {
    std::lock_guard turn(look_mutex_);
    return container_.limit();
  }

  // Around a fork, so that the child finds nothing half done.
  void stop_for_fork() {
    look_mutex_.lock();
    mutex_.lock();
  }
  void go_on() {
    mutex_.unlock();
    look_mutex_.unlock();
  }
  // In the child: it has the parent's files, but not its caches, its batches or its row in the table.
  void begin_in_child() {
    clients_.clear();
    processes_.leave();
    policy_ = MemoryPolicy::in_child(policy_);
    ahead_ = ahead_begun_ = ahead_wanted_ = ahead_room_ = 0;
    change_.clear();
    active_at_ = -kIdle;
    looked_at_.store(0, std::memory_order_relaxed);
    go_on();
  }

 private:
  void trim() {  // with look_mutex_ held
    const double start = now();
    system::trim_heap();
    trim_took_ = now() - start;
  }

  static uint64_t sum(uint64_t a, int64_t b) {
    return b < 0 && static_cast<uint64_t>(-b) > a ? 0 : a + static_cast<uint64_t>(b);
  }

  // Reads the container's files, tells the other processes and hears of them. Divides what users asked for
  // by the processes that cache the same file.
  MemoryState observe(std::vector<MemoryClient::Need>& needs) {
    const MemoryReading reading = container_.read();
    MemoryState s{.now = now(),
                  .limit = reading.limit,
                  .free = reading.free,
                  .stalled_us = reading.stalled_us,
                  .refaults = reading.scope ? reading.refaults : 0};  // the machine's may be anyone's
    Processes::Row row{.scope = reading.scope, .held = 0, .sharing = false, .active = false, .files = {}};
    uint64_t pinned = 0;
    s.cache_unit = needs.empty() ? 1 : UINT64_MAX;
    for (const auto& n : needs) {
      s.cache += n.size;
      pinned += n.pinned;
      s.cache_hits += n.hits;
      s.cache_full |= n.full && n.size < n.most;
      s.cache_unit = std::min(s.cache_unit, n.unit);
      if (n.active) active_at_ = s.now;
      row.files.push_back(n.file);
    }
    row.active = s.now - active_at_ < kIdle;
    std::lock_guard lock(mutex_);
    s.ahead = ahead_;
    s.ahead_wanted = ahead_wanted_;
    row.held = pinned + s.ahead;
    row.sharing = row.active || s.cache > 0 || s.ahead_wanted > 0;
    const Processes::Others others = processes_.exchange(row);
    s.held_by_all = row.held + others.held;
    s.sharers = std::max(1u, others.sharing + row.sharing);
    s.others_wait = !row.active && others.active > 0;
    for (const auto& [file, w] : wanted_) {
      const auto [whole, hot_rows, partly] = w.held;
      (whole + hot_rows ? s.pages_held : s.pages_useful) += w.bytes;
      if (hot_rows && !whole) s.pages_of_hot_rows += w.bytes;
    }
    if (s.now - idle_at_ >= kPoolIdle) {
      idle_at_ = s.now;
      s.pool_idle = pool_idle();
    }
    s.pool = std::max(pool_bytes(), s.pool_idle);
    s.processes = 1 + others.count;
    s.trim_took = trim_took_;
    for (auto& n : needs)
      if (n.asked_for)
        n.most /= 1 + static_cast<uint64_t>(std::count(others.files.begin(), others.files.end(), n.file));
    return s;
  }

  // What a new cache gets. One that the user asked for and that is too small to matter is had as a whole.
  static uint64_t first_size(MemoryClient& client, const MemoryClient::Need& n, uint64_t grant) {
    if (n.asked_for) grant = std::max(grant, kSmallCache);
    client.resize(std::min(grant, n.most), "");
    return client.need().size;
  }

  // Has the caches grow or shrink from `total` to what they may have together.
  static void distribute(const std::vector<std::shared_ptr<MemoryClient>>& clients,
                         const std::vector<MemoryClient::Need>& needs, uint64_t total,
                         const MemoryOrders& orders) {
    const auto full = [](const MemoryClient::Need& n) { return n.full && n.size < n.most; };
    const auto growing = static_cast<uint64_t>(std::count_if(needs.begin(), needs.end(), full));
    for (size_t i = 0; i < clients.size(); ++i) {
      const MemoryClient::Need& n = needs[i];
      uint64_t size = n.size;
      if (orders.cache < total)
        size = static_cast<uint64_t>(static_cast<double>(n.size) * static_cast<double>(orders.cache) /
                                     static_cast<double>(total));
      else if (full(n))
        size += (orders.cache - total) / growing;
      size = std::min(size, n.most);
      if (size != n.size) clients[i]->resize(size, orders.why);
    }
  }

  void note(const std::string& why, double when) {  // with mutex_ held
    if (why.empty()) return;
    change_ = why;
    changed_at_ = when;
  }

  // One look at a time. Taken before mutex_, and never with a lock that is also taken around a fork.
  std::mutex look_mutex_;
  Container container_;
  double active_at_ = -kIdle, trim_took_ = 0, idle_at_ = 0;

  std::mutex mutex_;  // for the rest; held only while figures are read and written
  Processes processes_;
  MemoryPolicy policy_;
  MemoryState state_;
  std::vector<std::weak_ptr<MemoryClient>> clients_;
  std::map<std::pair<uint64_t, uint64_t>, Wanted> wanted_;
  uint64_t ahead_wanted_ = 0, ahead_begun_ = 0, ahead_ = 0, ahead_room_ = 0;
  bool urgent_ = false;
  double sleep_ = 0.05, changed_at_ = 0;
  std::string change_;
  std::atomic<double> looked_at_{0};
};

std::atomic<bool> watching{false};

// Never destroyed: its thread runs until the process ends.
Governor& the_governor() {
  static Governor* instance = [] {
    // Locks are taken before a fork in the reverse order of registration. A look takes those of the pool
    // while it holds the governor's, so the pool must have registered first.
    (void)pool_bytes();
    auto* g = new Governor;
    static Governor* registered = g;
    pthread_atfork([] { registered->stop_for_fork(); }, [] { registered->go_on(); },
                   [] {
                     watching.store(false);
                     registered->begin_in_child();
                   });
    return g;
  }();
  return *instance;
}

void watch() {
  Governor& g = the_governor();
  for (;;) {
    g.look();
    std::this_thread::sleep_for(std::chrono::duration<double>(g.sleep()));
  }
}

}  // namespace

void begin() {
  the_governor();
  on_large_buffer(wake);
}

void wake() {
  if (watching.load(std::memory_order_relaxed) || watching.exchange(true)) return;
  the_governor();
  // Signals are for threads that know what to do with them.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread(watch).detach();
  } catch (const std::system_error&) {
    // No thread to be had: looks are made when clients and batches ahead ask.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void add(const std::shared_ptr<MemoryClient>& client) {
  wake();
  the_governor().add(client);
}

PagesWanted::PagesWanted(uint64_t device, uint64_t inode, uint64_t bytes, Hold hold)
    : device_(device), inode_(inode), hold_(hold) {
  the_governor().want_pages({device, inode}, bytes, hold);
}
PagesWanted::~PagesWanted() {
  the_governor().release_pages({device_, inode_}, hold_);
}

void change_ahead(int64_t wanted, int64_t begun, int64_t there) {
  the_governor().change_ahead(wanted, begun, there);
}
bool room_ahead(uint64_t bytes, bool known) {
  wake();
  return the_governor().room_ahead(bytes, known);
}
uint64_t beside_held() {
  wake();
  return the_governor().beside_held();
}
uint64_t read_buffers(unsigned threads) {
  return the_governor().read_buffers(threads);
}
void look() {
  the_governor().look();
}
MemoryStats stats() {
  return the_governor().stats();
}
uint64_t free_memory() {
  return the_governor().free_memory();
}
uint64_t memory_limit() {
  return the_governor().memory_limit();
}

}  // namespace gz::governor
