// How much memory there is, and how much of it is free: the machine's, or what the tightest of the cgroups
// above this process leaves (v1 and v2). Page cache counts as free, for the kernel gives it up.
//
// Read from the files of /proc and /sys/fs/cgroup each time: some ten reads, 20 to 60 us. Nothing stays open.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gz {

struct MemoryReading {
  uint64_t limit = 0;  // bytes of the machine, or of the cgroup that leaves least
  uint64_t free = 0;   // what can be taken before something is killed
  uint64_t scope = 0;  // names whose memory that is: the inode of the cgroup's folder, 0 for the machine
  // Growing counters, for the differences between two readings of one scope; 0 where they are not told.
  uint64_t stalled_us = 0;  // time in which everything waited for memory (PSI)
  uint64_t refaults = 0;    // pages of files that were dropped and read again
};

class Container {
 public:
  // `root` stands before /proc and /sys: a folder with files of the same names, for tests.
  explicit Container(std::string root = "");

  MemoryReading read();
  // The most that this process could ever have.
  uint64_t limit();

 private:
  struct Names;
  struct Level {
    std::string folder;
    const Names* names;
    uint64_t scope;
  };
  static const Names kV1, kV2;

  void find_levels();
  bool read_level(const Level& level, MemoryReading& out) const;

  std::string root_;
  std::vector<Level> levels_;         // those with a limit
  int64_t found_at_ = INT64_MIN / 2;  // when they were looked for, in seconds
};

}  // namespace gz
