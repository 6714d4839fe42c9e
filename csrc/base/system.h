// What some systems have and others do not, each found by the name that the system's headers give it.
// Where it is missing, what it would have done is left out: these save time or memory, and no result hangs
// on them. CONTRIBUTING.md lists what does keep the engine from other systems.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if __has_include(<malloc.h>)
#include <malloc.h>
#endif
#if __has_include(<sys/syscall.h>)
#include <sys/syscall.h>
#endif

#include <cstddef>
#include <cstdint>
#include <thread>

namespace gz::system {

// ---- memory ----

inline void prefer_huge_pages([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MADV_HUGEPAGE)
  ::madvise(at, bytes, MADV_HUGEPAGE);
#endif
}

inline void keep_from_children([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MADV_DONTFORK)
  ::madvise(at, bytes, MADV_DONTFORK);
#endif
}

// Undoes the above; false where that fails.
inline bool give_to_children([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MADV_DOFORK)
  return ::madvise(at, bytes, MADV_DOFORK) == 0;
#else
  return true;
#endif
}

// A forked child finds zeros there.
inline void wipe_in_children([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MADV_WIPEONFORK)
  ::madvise(at, bytes, MADV_WIPEONFORK);
#endif
}

// Puts pages in the place of others, which go; false where that cannot be.
inline bool move_pages([[maybe_unused]] void* from, [[maybe_unused]] size_t bytes,
                       [[maybe_unused]] void* to) {
#if defined(MREMAP_FIXED)
  return ::mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED;
#else
  return false;
#endif
}

// Maps pages that are in the page cache, and spares their faults.
inline void map_resident([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#if defined(MADV_POPULATE_READ)
  ::madvise(at, bytes, MADV_POPULATE_READ);
#endif
}

// Has the allocator give back pages of what was freed: glibc's keeps them where something small lies behind.
inline void trim_heap() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

// ---- files ----

// For a file without a name in a folder; 0 where it has to get one and lose it again.
#if defined(O_TMPFILE)
inline constexpr int kUnnamed = O_TMPFILE;
#else
inline constexpr int kUnnamed = 0;
#endif

// For reads past the page cache; 0 where there are none.
#if defined(O_DIRECT)
inline constexpr int kDirect = O_DIRECT;
#else
inline constexpr int kDirect = 0;
#endif

// Begins to write out what was written to the page cache, without waiting.
inline void start_writeback([[maybe_unused]] int fd, [[maybe_unused]] uint64_t offset,
                            [[maybe_unused]] uint64_t bytes) {
#if defined(SYNC_FILE_RANGE_WRITE)
  ::sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
#endif
}

// Nothing is to be read ahead.
inline void expect_random_reads([[maybe_unused]] int fd) {
#if defined(POSIX_FADV_RANDOM)
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
#endif
}

// When the file was last changed; the field has two names.
template <typename Stat>
uint64_t modified_ns(const Stat& st) {
  const auto in_ns = [](const timespec& t) {
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(t.tv_nsec);
  };
  if constexpr (requires { st.st_mtim; })
    return in_ns(st.st_mtim);
  else
    return in_ns(st.st_mtimespec);
}

// ---- processors and threads ----

inline int allowed_cpus() {
#if defined(CPU_COUNT)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

// In a forked child, the thread that forked.
inline bool on_main_thread() {
#if defined(SYS_gettid)
  return ::syscall(SYS_gettid) == ::getpid();
#else
  return ::pthread_main_np() != 0;
#endif
}

}  // namespace gz::system
