// Mapped pages that cannot be read, as exceptions instead of signals.
//
// A bad sector under a mapped file, or a file cut short while it is open, is SIGBUS at the load that meets
// it. Jumping out of the handler would skip destructors and leave locks held. So the handler puts zeros where
// the page should be and lets the call run to its end, which is then an IoError naming file and offset: what
// was made of the zeros never leaves the call. Then the file is mapped there again, so that the next call
// meets the disk as it is by then.
//
//   guarded(fn)    runs fn; for every entry into the engine
//   GuardedFile    tells the handler of a mapping
//
// Other calls that ran meanwhile, in this process, may have seen the zeros: they end in the same error. A
// fault of a thread that is not inside guarded(), or in memory that is not ours, goes to the handler that was
// there before, as if there were none of ours: a user who reads a bad sector through a tensor gets the
// signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace gz {

// A mapped file, from the first page on. Lives no longer than the mapping.
class GuardedFile {
 public:
  // `writable`: private pages may differ from the file's; those are left alone.
  GuardedFile(void* data, size_t bytes, int fd, bool writable, const std::string& path);
  ~GuardedFile();
  GuardedFile(const GuardedFile&) = delete;
  GuardedFile& operator=(const GuardedFile&) = delete;

 private:
  friend class GuardRegistry;
  struct Pages {
    uintptr_t begin, end;
  };

  uintptr_t begin_, end_;
  int fd_;
  bool writable_;
  const std::string& path_;
  // Of a file that is only read, all of it is zeros once so many parts are: on a disk that is gone no
  // number of them would do. A writable one has pages that no file could give back, so there each bad page
  // counts, as many as the kernel allows a process parts of mappings (vm.max_map_count).
  static constexpr size_t kMostHidden = 64;
  // Zeros for now. Made in the handler, so by mmap: the page that holds them grows to two, to four, ...
  Pages* hidden_ = nullptr;
  size_t num_hidden_ = 0, room_ = 0;
};

// Guards this thread's reads, and those of the workers that help it, while it lives.
class PageGuard {
 public:
  PageGuard();
  ~PageGuard();
  PageGuard(const PageGuard&) = delete;
  PageGuard& operator=(const PageGuard&) = delete;

  // Throws IoError where a page could not be read since this guard was made.
  void check() const;

 private:
  bool disturbed() const;
  uint64_t start_;
};

template <class Fn>
auto guarded(Fn&& fn) -> std::invoke_result_t<Fn> {
  const PageGuard guard;
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Fn>>) {
      std::forward<Fn>(fn)();
      guard.check();
    } else {
      auto result = std::forward<Fn>(fn)();
      guard.check();
      return result;
    }
  } catch (const IoError&) {
    throw;
  } catch (...) {
    guard.check();  // zeros read as a damaged file, say: the disk is the reason
    throw;
  }
}

namespace detail {
// What the handler does for a fault at `address`; false where it is not ours. Tests call it to make a page
// fail.
bool hide_page(void* address);
}  // namespace detail

}  // namespace gz
