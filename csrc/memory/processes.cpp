#include "memory/processes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iterator>

namespace gz {
namespace {

constexpr uint32_t kLayout = 1;  // part of the file's name: who knows another layout uses another file
constexpr size_t kMostFiles = 16;

enum : uint32_t { kSharing = 1, kActive = 2 };

}  // namespace

// Written by its owner, read by all, each field for itself: they are figures to steer by.
struct Processes::Slot {
  std::atomic<uint32_t> taken, state;
  std::atomic<uint64_t> scope, held;
  std::atomic<uint64_t> files[kMostFiles];

  void clear() {
    taken = state = 0;
    scope = held = 0;
    for (auto& f : files) f = 0;
  }
};
static_assert(std::atomic<uint64_t>::is_always_lock_free, "the table is shared between processes");

Processes::Processes(std::vector<std::string> folders) : folders_(std::move(folders)) {}

Processes::~Processes() {
  if (table_ && mine_ < kSlots) table_[mine_].clear();
  leave();
}

void Processes::leave() {
  if (table_) ::munmap(table_, kSlots * sizeof(Slot));
  if (fd_ >= 0) ::close(fd_);
  table_ = nullptr;
  fd_ = -1;
  mine_ = kSlots;
  tried_ = false;
}

bool Processes::open() {
  if (!tried_) {
    tried_ = true;
    for (const auto& folder : folders_)
      if (open(folder)) break;
  }
  return table_ != nullptr;
}

bool Processes::open(const std::string& folder) {
  const std::string path =
      folder + "/gz-memory-" + std::to_string(kLayout) + "-" + std::to_string(::geteuid());
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) return false;
  struct stat st;
  void* at = MAP_FAILED;
  // A file of another user, or one others may write to, is none of ours.
  if (::fstat(fd_, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == ::geteuid() && (st.st_mode & 022) == 0 &&
      ::ftruncate(fd_, kSlots * sizeof(Slot)) == 0)
    at = ::mmap(nullptr, kSlots * sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) {
    ::close(fd_);
    fd_ = -1;
    return false;
  }
  table_ = static_cast<Slot*>(at);
  return true;
}

// Locks of this kind belong to the process: a forked child does not have them, and the kernel ends them with
// it.
bool Processes::lives(size_t slot) const {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(slot);
  lock.l_len = 1;
  return ::fcntl(fd_, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool Processes::claim() {
  for (size_t slot = 0; slot < kSlots; ++slot) {
    if (table_[slot].taken.load() && lives(slot)) continue;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(slot);
    lock.l_len = 1;
    if (::fcntl(fd_, F_SETLK, &lock) != 0) continue;  // another was quicker
    table_[slot].clear();
    table_[slot].taken = 1;
    mine_ = slot;
    return true;
  }
  return false;
}

Processes::Others Processes::exchange(const Row& mine) {
  Others others;
  if (!open() || (mine_ == kSlots && !claim())) return others;
  Slot& own = table_[mine_];
  own.scope = mine.scope;
  own.held = mine.held;
  own.state = (mine.sharing ? kSharing : 0u) | (mine.active ? kActive : 0u);
  for (size_t f = 0; f < kMostFiles; ++f) own.files[f] = f < mine.files.size() ? mine.files[f] : 0;

  for (size_t slot = 0; slot < kSlots; ++slot) {
    Slot& s = table_[slot];
    if (slot == mine_ || !s.taken.load() || s.scope.load() != mine.scope) continue;
    if (!lives(slot)) continue;
    ++others.count;
    others.held += s.held.load();
    const uint32_t state = s.state.load();
    if (!(state & kSharing)) continue;
    ++others.sharing;
    others.active += (state & kActive) != 0;
    for (const auto& f : s.files)
      if (const uint64_t file = f.load()) others.files.push_back(file);
  }
  return others;
}

}  // namespace gz
