// The only owner of open, mmap, madvise and munmap.
//
// The engine reads through read-only mappings, which the kernel can serve with huge pages. What is given to
// users is a second one, private and writable: writing through it changes the process's own copy of the page,
// never the file. A mapping is shared by everything that points into it and goes away with the last of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "format.h"

namespace gz {

enum class Advice { kNormal, kRandom, kSequential, kWillNeed };

class Mapping {
 public:
  // A read-only mapping. Throws IoError when the file cannot be opened or mapped.
  static std::shared_ptr<Mapping> open(const std::string& path);
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
  // How many bytes of the range are in memory now (mincore); for statistics.
  uint64_t resident_bytes(uint64_t offset, uint64_t bytes) const;

 private:
  Mapping(std::string path, int fd, uint64_t size, bool writable);

  std::string path_;
  int fd_;
  uint64_t size_;
  std::byte* data_ = nullptr;
  bool writable_;
};

// The writable copy of a mapping that users see, made when it is first asked for.
class WritableCopy {
 public:
  std::shared_ptr<Mapping> of(const Mapping& mapping) const;

 private:
  mutable std::shared_ptr<Mapping> copy_;  // under fork_mutex()
};

// Maps `path` and checks its header. The header of the result is at data().
std::shared_ptr<Mapping> open_checked(const std::string& path, Kind kind);
inline const Header& header_of(const Mapping& m) {
  return *reinterpret_cast<const Header*>(m.data());
}

}  // namespace gz
