#include "file/page_guard.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/threads.h"

namespace gz {
namespace {

// Guards this thread is inside of; its workers too. Beside it, what the handler remembers.
int& depth() {
  return detail::inherited;
}
#define GZ_IN_HANDLER __attribute__((tls_model("initial-exec")))
thread_local const char* chained_at GZ_IN_HANDLER = nullptr;  // stack of the handler that called another
thread_local bool chained GZ_IN_HANDLER = false;              // since this thread last entered the engine

const auto kSystemPage = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));

std::atomic<uint64_t> generation{0};  // grows when pages are hidden and when they are shown again
std::atomic<uint64_t> hidden_now{0};  // ranges of pages
std::atomic<int64_t> looked_at{-1};   // by take_the_signal(): nanoseconds of the second; -1: not yet

// Taken in the handler too, so: no sleeping lock, and whoever holds it touches no mapped file.
class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire)) ::sched_yield();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

// Puts other pages in the place of [begin, end). By the system call itself: what a sanitizer puts before mmap
// has no business in a signal handler, and takes this for a write that races with the threads that read
// there. They may: what they read is thrown away.
bool map_over(uintptr_t begin, uintptr_t end, int protection, int flags, int fd, uint64_t offset) {
  return ::syscall(SYS_mmap, begin, end - begin, protection, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE | flags,
                   fd, offset) != -1;
}

}  // namespace

// All under one lock, which a fork never leaves held in the child.
class GuardRegistry {
 public:
  void add(GuardedFile* file) {
    std::lock_guard lock(lock_);
    files_.push_back(file);
  }

  void remove(GuardedFile* file) {
    std::lock_guard lock(lock_);
    std::erase(files_, file);
    forget_hidden(*file);
    if (file->hidden_) ::munmap(file->hidden_, file->room_ * sizeof(GuardedFile::Pages));
  }

  bool hide(uintptr_t address) {
    const uintptr_t page = kSystemPage;
    std::lock_guard lock(lock_);
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const GuardedFile* f) {
      return f->begin_ <= address && address < f->end_;
    });
    if (found == files_.end()) return false;
    GuardedFile& f = **found;
    const auto covers = [&](const GuardedFile::Pages& p) { return p.begin <= address && address < p.end; };
    if (std::any_of(f.hidden_, f.hidden_ + f.num_hidden_, covers)) return true;  // another thread was first

    GuardedFile::Pages pages{address / page * page, address / page * page + page};
    struct stat st;
    if (::fstat(f.fd_, &st) == 0) {
      const uintptr_t file_end = f.begin_ + (static_cast<uintptr_t>(st.st_size) + page - 1) / page * page;
      // Past the end of the file there is nothing of anyone's left.
      if (address >= file_end) pages = {file_end, f.end_};
    }
    // A scan meets one page after the other.
    const bool grows = f.num_hidden_ && f.hidden_[f.num_hidden_ - 1].end == pages.begin;
    if (f.num_hidden_ == GuardedFile::kMostHidden && !grows && !f.writable_) {
      forget_hidden(f);
      pages = {f.begin_, f.end_};
    }
    if (!grows && f.num_hidden_ == f.room_ && !make_room(f)) return false;
    last_offset_ = address - f.begin_;
    last_code_ = EIO;
    const size_t n = std::min(f.path_.size(), sizeof last_path_ - 1);
    std::memcpy(last_path_, f.path_.data(), n);
    last_path_[n] = 0;
    // Before the zeros can be seen: who sees them finds this changed.
    generation.fetch_add(1);
    if (!grows) hidden_now.fetch_add(1);
    const int protection = f.writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
    if (!map_over(pages.begin, pages.end, protection, MAP_ANONYMOUS, -1, 0)) {
      if (!grows) hidden_now.fetch_sub(1);
      return false;
    }
    if (grows)
      f.hidden_[f.num_hidden_ - 1].end = pages.end;
    else
      f.hidden_[f.num_hidden_++] = pages;
    return true;
  }

  // Maps the files where zeros are now.
  void mend() {
    std::lock_guard lock(lock_);
    for (GuardedFile* f : files_) {
      if (f->num_hidden_ == 0) continue;
      char byte;
      const ssize_t got = ::pread(f->fd_, &byte, 1, static_cast<off_t>(f->hidden_[0].begin - f->begin_));
      last_code_ = got < 0 ? errno : got == 0 ? 0 : EIO;
      const int protection = f->writable_ ? PROT_READ | PROT_WRITE : PROT_READ;
      for (size_t i = 0; i < f->num_hidden_; ++i) {
        const auto [begin, end] = f->hidden_[i];
        map_over(begin, end, protection, 0, f->fd_, begin - f->begin_);
        ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_RANDOM);  // as their sections are
      }
      forget_hidden(*f);
    }
  }

  IoError last_error() {
    std::lock_guard lock(lock_);
    return {last_code_ ? last_code_ : EIO, last_path_,
            "cannot read at byte " + std::to_string(last_offset_) + ": " +
                (last_code_ ? std::strerror(last_code_)
                            : "the file has become shorter than it was when it was opened")};
  }

  SpinLock& lock() { return lock_; }

  // Never destroyed: mappings may die after static destructors have run.
  static GuardRegistry& get() {
    static GuardRegistry* registry = [] {
      pthread_atfork([] { get().lock_.lock(); }, [] { get().lock_.unlock(); },
                     [] {
                       get().lock_.unlock();
                       looked_at = -1;
                     });
      return new GuardRegistry;
    }();
    return *registry;
  }

 private:
  // For one more range. By the system calls alone, as it may be the handler that asks.
  static bool make_room(GuardedFile& f) {
    using Pages = GuardedFile::Pages;
    const size_t bytes = f.room_ * sizeof(Pages), more = bytes ? bytes * 2 : kSystemPage;
    const long got =
        ::syscall(SYS_mmap, nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == -1) return false;
    auto* const larger = reinterpret_cast<Pages*>(got);
    std::copy(f.hidden_, f.hidden_ + f.num_hidden_, larger);
    if (f.hidden_) ::syscall(SYS_munmap, f.hidden_, bytes);
    f.hidden_ = larger;
    f.room_ = more / sizeof(Pages);
    return true;
  }

  void forget_hidden(GuardedFile& f) {
    if (f.num_hidden_ == 0) return;
    generation.fetch_add(1);
    hidden_now.fetch_sub(f.num_hidden_);
    f.num_hidden_ = 0;
  }

  SpinLock lock_;
  std::vector<GuardedFile*> files_;
  char last_path_[PATH_MAX] = "";
  uint64_t last_offset_ = 0;
  int last_code_ = EIO;  // 0: the file is too short
};

namespace {

// ---- the signal ----

std::atomic<const struct sigaction*> previous{nullptr};  // who gets what is not ours
std::atomic<const struct sigaction*> original{nullptr};  // who was there before gz came

bool from_a_load(const siginfo_t* info) {
  return info->si_code == BUS_ADRERR || info->si_code == BUS_ADRALN || info->si_code == BUS_OBJERR ||
         info->si_code == BUS_MCEERR_AR;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const char here = 0;
  // Called back by the handler that was passed to, or by a signal it raised: it takes us for the one before
  // it.
  const bool nested = chained_at && &here < chained_at;
  const struct sigaction* to = previous.load();
  if (nested || (chained && !from_a_load(info))) to = original.load();
  if (to->sa_handler == SIG_IGN && !from_a_load(info)) return;
  if (to->sa_handler == SIG_DFL || to->sa_handler == SIG_IGN) {
    struct sigaction die{};
    die.sa_handler = SIG_DFL;
    ::sigaction(SIGBUS, &die, nullptr);
    if (!from_a_load(info)) ::raise(signal);
    return;  // a load is made again, and is the end this time
  }
  chained = true;
  chained_at = &here;
  if (to->sa_flags & SA_SIGINFO)
    to->sa_sigaction(signal, info, context);
  else
    to->sa_handler(signal);
  chained_at = nullptr;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int code = errno;
  const bool ours = depth() > 0 && from_a_load(info) && detail::hide_page(info->si_addr);
  if (!ours) pass_on(signal, info, context);
  errno = code;
}

bool same(const struct sigaction& a, const struct sigaction& b) {
  return a.sa_sigaction == b.sa_sigaction && a.sa_flags == b.sa_flags;
}

// Others may take the signal at any time (faulthandler; torch, in every worker of a DataLoader), so this
// looks again and again; once a tick of the kernel's clock (some milliseconds), because a look is a system
// call. What they put there gets what is not ours.
void take_the_signal() {
  timespec tick{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
  if (looked_at.load(std::memory_order_relaxed) == tick.tv_nsec) return;
  looked_at.store(tick.tv_nsec, std::memory_order_relaxed);
  struct sigaction now;
  if (::sigaction(SIGBUS, nullptr, &now) != 0 || now.sa_sigaction == on_bus_error) return;
  std::lock_guard lock(GuardRegistry::get().lock());
  if (::sigaction(SIGBUS, nullptr, &now) != 0 || now.sa_sigaction == on_bus_error) return;
  const struct sigaction* known = previous.load();
  if (!known || !same(*known, now)) {
    static std::vector<const struct sigaction*> kept;  // a handler may be reading any of them
    kept.push_back(new struct sigaction(now));
    known = kept.back();
    previous.store(known);
  }
  if (!original.load()) original.store(known);
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  ::sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

bool detail::hide_page(void* address) {
  return GuardRegistry::get().hide(reinterpret_cast<uintptr_t>(address));
}

GuardedFile::GuardedFile(void* data, size_t bytes, int fd, bool writable, const std::string& path)
    : begin_(reinterpret_cast<uintptr_t>(data)),
      end_(begin_ + bytes),
      fd_(fd),
      writable_(writable),
      path_(path) {
  end_ = (end_ + kSystemPage - 1) / kSystemPage * kSystemPage;
  GuardRegistry::get().add(this);
}

GuardedFile::~GuardedFile() {
  GuardRegistry::get().remove(this);
}

PageGuard::PageGuard() {
  if (depth()++ == 0) {
    take_the_signal();
    chained = false;
    chained_at = nullptr;
  }
  start_ = generation.load();
}

PageGuard::~PageGuard() {
  --depth();
  if (disturbed()) GuardRegistry::get().mend();
}

bool PageGuard::disturbed() const {
  std::atomic_thread_fence(std::memory_order_acquire);
  return generation.load() != start_ || hidden_now.load() != 0;
}

void PageGuard::check() const {
  if (!disturbed()) return;
  GuardRegistry::get().mend();
  throw GuardRegistry::get().last_error();
}

}  // namespace gz
