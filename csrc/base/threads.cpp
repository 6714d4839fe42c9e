#include "base/threads.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpus.h"
#include "base/system.h"

namespace gz {

constinit thread_local int detail::inherited = 0;

namespace {

// Waiting this long before sleeping spares the ~50 us a wake-up costs between the short phases of one sample.
constexpr auto kSpin = std::chrono::microseconds(20);
constexpr auto kAsk = std::chrono::milliseconds(50);  // how long to wait without asking for an interrupt

// ---- Ctrl-C ----

using Clock = std::chrono::steady_clock;
constexpr auto kLookEvery = std::chrono::milliseconds(200);

std::atomic<InterruptCheck> interrupt_check{nullptr};
thread_local Clock::time_point next_look{};
// Set in a thread while it works on a job: whether that job was ended elsewhere.
thread_local const std::atomic<bool>* job_ended = nullptr;

// Ends the work of a thread whose job another thread has ended; nobody sees it outside of parallel_for().
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

// ---- jobs ----

struct Job {
  detail::ChunkFn fn;
  void* context;
  size_t items;
  size_t grain;
  int helpers_wanted;              // guarded by Pool::mutex
  int inherited;                   // of the caller's thread
  std::atomic<size_t> next{0};     // first item no one has taken yet
  std::atomic<int> helpers{0};     // workers inside run()
  std::atomic<bool> ended{false};  // by an error: chunks that poll stop
  std::mutex error_mutex;
  std::exception_ptr error;

  void run() noexcept {
    job_ended = &ended;
    for (;;) {
      const size_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= items) break;
      guard([&] {
        fn(context, begin, std::min(items, begin + grain));
        poll();
      });
    }
    job_ended = nullptr;
  }

  // The first exception of the job ends it.
  template <class Fn>
  void guard(Fn&& work) noexcept {
    try {
      work();
    } catch (...) {
      std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
      ended.store(true, std::memory_order_relaxed);
      next.store(items, std::memory_order_relaxed);
    }
  }
};

template <class Ready>
bool spin_until(Ready&& ready) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

thread_local bool inside_job = false;

class Pool {
 public:
  void run(Job& job) {
    const int wanted = job.helpers_wanted;
    {
      std::lock_guard lock(mutex_);
      try {
        while (static_cast<int>(workers_.size()) < wanted) workers_.emplace_back([this] { work(); });
      } catch (const std::system_error&) {
        // The system grants no more threads: those there are, and this one, do the work.
      }
      jobs_.push_back(&job);
      posted_.fetch_add(1, std::memory_order_release);
    }
    if (wanted == 1)
      wake_.notify_one();
    else
      wake_.notify_all();
    inside_job = true;
    job.run();
    inside_job = false;
    {
      std::lock_guard lock(mutex_);
      jobs_.remove(&job);
    }
    // No worker can join any more; wait for those inside. `helpers` only reaches 0 under the mutex.
    const auto idle = [&] { return job.helpers.load(std::memory_order_acquire) == 0; };
    spin_until(idle);
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, kAsk, idle)) {  // a worker is in a long chunk
      lock.unlock();
      job.guard(poll);
      lock.lock();
    }
  }

  std::mutex& mutex() { return mutex_; }

 private:
  Job* take() {  // with mutex_ held
    for (Job* job : jobs_) {
      if (job->helpers_wanted > 0 && job->next.load(std::memory_order_relaxed) < job->items) {
        --job->helpers_wanted;
        job->helpers.fetch_add(1, std::memory_order_relaxed);
        return job;
      }
    }
    return nullptr;
  }

  void work() {
    inside_job = true;
    unsigned seen = 0;
    for (;;) {
      spin_until([&] { return posted_.load(std::memory_order_acquire) != seen; });
      Job* job = nullptr;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] {
          seen = posted_.load(std::memory_order_relaxed);
          return (job = take()) != nullptr;
        });
      }
      detail::inherited = job->inherited;
      job->run();
      detail::inherited = 0;
      std::lock_guard lock(mutex_);
      if (job->helpers.fetch_sub(1, std::memory_order_release) == 1) done_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::list<Job*> jobs_;
  std::vector<std::thread> workers_;
  std::atomic<unsigned> posted_{0};
};

// Never destroyed: workers wait in it until the process ends. A forked child has none of the threads, so it
// gets a new pool and keeps the parent's (reachable, untouched) beside it.
Pool* pool = nullptr;
Pool* parents_pool = nullptr;
std::atomic<int> thread_count{0};

void before_fork() {
  pool->mutex().lock();
}
void after_fork_in_parent() {
  pool->mutex().unlock();
}
void after_fork_in_child() {
  parents_pool = pool;
  pool = new Pool;
  inside_job = false;
}

Pool& the_pool() {
  static std::once_flag once;
  std::call_once(once, [] {
    pool = new Pool;
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  });
  return *pool;
}

}  // namespace

int num_threads() {
  int n = thread_count.load(std::memory_order_relaxed);
  if (n == 0) {
    n = usable_cpus();
    thread_count.store(n, std::memory_order_relaxed);
  }
  return n;
}

void set_num_threads(int n) {
  if (n < 1 || n > 1024)
    throw std::invalid_argument("num_threads is " + std::to_string(n) + "; give a number from 1 to 1024");
  thread_count.store(n, std::memory_order_relaxed);
}

std::mutex& fork_mutex() {
  static std::mutex* mutex = [] {
    // Never destroyed: threads may still be running when static destructors do.
    pthread_atfork([] { fork_mutex().lock(); }, [] { fork_mutex().unlock(); }, [] { fork_mutex().unlock(); });
    return new std::mutex;
  }();
  return *mutex;
}

void set_interrupt_check(InterruptCheck check) {
  interrupt_check.store(check, std::memory_order_relaxed);
}

void poll() {
  if (job_ended && job_ended->load(std::memory_order_relaxed)) throw Interrupted();
  const auto now = Clock::now();
  if (now < next_look) return;
  next_look = now + kLookEvery;
  const InterruptCheck check = interrupt_check.load(std::memory_order_relaxed);
  if (check && system::on_main_thread()) check();
}

void detail::run_chunks(size_t items, size_t grain, ChunkFn fn, void* context) {
  if (items == 0) return;
  grain = std::max<size_t>(1, grain);
  const size_t chunks = (items - 1) / grain + 1;
  const int threads = static_cast<int>(std::min<size_t>(chunks, num_threads()));
  if (threads <= 1 || inside_job) {
    for (size_t begin = 0; begin < items; begin += grain) {
      fn(context, begin, std::min(items, begin + grain));
      poll();
    }
    return;
  }
  Job job{.fn = fn,
          .context = context,
          .items = items,
          .grain = grain,
          .helpers_wanted = threads - 1,
          .inherited = detail::inherited,
          .error_mutex = {},
          .error = {}};
  the_pool().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace gz
