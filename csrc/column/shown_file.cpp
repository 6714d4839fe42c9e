#include "column/shown_file.h"

#include <map>
#include <mutex>

#include "base/threads.h"
#include "read/check.h"
#include "read/gather.h"

namespace gz {
namespace {

struct Entry {
  uintptr_t end;
  std::shared_ptr<Residency> file;
};

// By where each begins. Under fork_mutex(). Never destroyed: arrays may outlive everything else at exit.
std::map<uintptr_t, Entry>& shown_files() {
  static auto& files = *new std::map<uintptr_t, Entry>;
  return files;
}

uintptr_t begin_of(const Mapping& m) {
  return reinterpret_cast<uintptr_t>(m.data());
}

}  // namespace

// fork_mutex() is held by who makes it.
ShownFile::ShownFile(std::shared_ptr<Mapping> copy, std::shared_ptr<Residency> file)
    : copy_(std::move(copy)) {
  if (copy_->size() == 0) return;
  const uintptr_t begin = begin_of(*copy_);
  shown_files()[begin] = {begin + copy_->size(), std::move(file)};
}

ShownFile::~ShownFile() {
  if (copy_->size() == 0) return;
  std::shared_ptr<Residency> file;  // it may end with this, and not while the lock is held
  std::lock_guard lock(fork_mutex());
  const auto it = shown_files().find(begin_of(*copy_));
  file = std::move(it->second.file);
  shown_files().erase(it);
}

std::shared_ptr<ShownFile> WritableCopy::of(const std::shared_ptr<Residency>& file) const {
  std::lock_guard lock(fork_mutex());
  if (!shown_) shown_ = std::make_shared<ShownFile>(file->mapping()->writable_copy(), file);
  return shown_;
}

ArrayPlace ArrayPlace::of(const void* data, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  std::lock_guard lock(fork_mutex());
  auto it = shown_files().upper_bound(at);
  if (it == shown_files().begin()) return {};
  --it;
  if (at + bytes > it->second.end) return {};
  return {it->second.file, at - it->first};
}

void gather_array(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
                  void* out) {
  check_ids(ids, count, num_rows, "row");
  const ArrayPlace place = ArrayPlace::of(rows, num_rows * row_bytes);
  const auto offset = [&](int64_t id) { return place.offset + static_cast<uint64_t>(id) * row_bytes; };
  if (place.file && row_bytes && !place.file->likely(count, [&](size_t i) { return offset(ids[i]); })) {
    const PooledArray<int64_t> own = checked_copy(ids, count, num_rows, "row");
    place.file->fetch(count,
                      [&](size_t i) { return std::pair<uint64_t, uint64_t>(offset(own[i]), row_bytes); });
  }
  gather(rows, num_rows, row_bytes, ids, count, out);
}

}  // namespace gz
