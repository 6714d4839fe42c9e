// The processes of gz that live on the same memory: DataLoader workers, ranks, anything started beside.
//
// They meet in a table in a small shared file, a row each. A row is owned by whoever holds the lock on its
// byte of the file; the kernel takes that lock back when its process ends, however it ends, so the dead do
// not count. Where there is no place for such a file a process counts itself alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gz {

class Processes {
 public:
  struct Row {
    uint64_t scope = 0;           // whose memory it lives on (MemoryReading::scope)
    uint64_t held = 0;            // bytes it could give back at once: row caches and batches ahead
    bool sharing = false;         // whether it has or wants a part of what is divided
    bool active = false;          // whether it read rows lately
    std::vector<uint64_t> files;  // hashes of the files it caches rows of
  };
  struct Others {
    unsigned count = 0;           // of the other processes of the scope
    uint64_t held = 0;            // by them
    unsigned sharing = 0;         // how many of them share
    unsigned active = 0;          // how many of those read rows lately
    std::vector<uint64_t> files;  // of all those that share, one entry a process and file
  };

  // The table lies in the first of `folders` in which one can be made.
  explicit Processes(std::vector<std::string> folders = {"/dev/shm", "/tmp"});
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Writes this process's row, and tells of the rest.
  Others exchange(const Row& mine);
  // In a forked child: the row is its parent's, and it gets one of its own.
  void leave();

 private:
  struct Slot;
  static constexpr size_t kSlots = 512;

  bool open();
  bool open(const std::string& folder);
  bool claim();
  bool lives(size_t slot) const;

  std::vector<std::string> folders_;
  int fd_ = -1;
  Slot* table_ = nullptr;
  bool tried_ = false;
  size_t mine_ = kSlots;  // the slot of this process; kSlots: none
};

}  // namespace gz
