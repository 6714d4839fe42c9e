// The only owner of open, mmap, madvise and munmap.
//
// The engine reads through read-only mappings. What is given to users is a second one, private and writable:
// writing through it changes the process's own copy of the page, never the file. A mapping is shared by
// everything that points into it and goes away with the last of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "file/format.h"
#include "file/page_guard.h"

namespace gz {

enum class Advice { kNormal, kRandom, kSequential, kWillNeed };

class Mapping {
 public:
  // A read-only mapping. Throws IoError when the file cannot be opened or mapped. `opened`: a descriptor of
  // the file where the caller has one, which stays the caller's; the path is then only its name.
  static std::shared_ptr<Mapping> open(const std::string& path, int opened = -1);
  // A private, writable mapping of the same file.
  std::shared_ptr<Mapping> writable_copy() const;
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  // False for what open() gives, and where the kernel refused a writable one (vm.overcommit_memory = 2).
  bool writable() const { return writable_; }

  // Advice for the pages that [offset, offset + bytes) touches. Advice is a hint: a kernel that refuses is
  // ignored.
  void advise(uint64_t offset, uint64_t bytes, Advice advice) const;
  // Has the kernel take back the file's pages, as far as no other process has them mapped.
  void drop_pages() const;
  // Puts a copy in huge pages, filled from the file, where [offset, offset + bytes) of it is mapped, at once
  // for all who read it. `offset` is a page's; the last page counts whole. Gives up as soon as `wanted` is
  // false, or where the file cannot be read or memory cannot be had; returns whether the copy is there.
  bool show_copy(uint64_t offset, uint64_t bytes, const std::atomic<bool>& wanted) const;
  // Puts the file's pages there again.
  void show_file(uint64_t offset, uint64_t bytes) const;
  // How many bytes of the range are in memory now (mincore); for statistics.
  uint64_t resident_bytes(uint64_t offset, uint64_t bytes) const;

 private:
  Mapping(std::string path, int fd, uint64_t size, bool writable);
  void map_again(uint64_t offset, uint64_t bytes) const;

  std::string path_;
  int fd_;
  uint64_t size_;
  std::byte* data_ = nullptr;
  bool writable_;
  std::optional<GuardedFile> guard_;
};

// Maps `path` and checks its header. The header of the result is at data().
std::shared_ptr<Mapping> open_checked(const std::string& path, Kind kind, int opened = -1);
inline const Header& header_of(const Mapping& m) {
  return *reinterpret_cast<const Header*>(m.data());
}

}  // namespace gz
