// What users see of a file: a private, writable mapping, over which their arrays lie.
//
// Such arrays come back as plain memory: weights and times to sample by, tables to look up in. A table of all
// of these mappings tells which file an address lies in, so that what is not in memory of it is fetched many
// pages at a time, as what the engine reads through its own mapping is. Values still come from the array,
// with what the user wrote there.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "file/mapping.h"
#include "read/residency.h"

namespace gz {

class ShownFile {
 public:
  // By WritableCopy.
  ShownFile(std::shared_ptr<Mapping> copy, std::shared_ptr<Residency> file);
  ~ShownFile();
  ShownFile(const ShownFile&) = delete;
  ShownFile& operator=(const ShownFile&) = delete;

  const Mapping& mapping() const { return *copy_; }

 private:
  std::shared_ptr<Mapping> copy_;
};

// The one that a file has, made when it is first asked for.
class WritableCopy {
 public:
  std::shared_ptr<ShownFile> of(const std::shared_ptr<Residency>& file) const;

 private:
  mutable std::shared_ptr<ShownFile> shown_;  // under fork_mutex()
};

// Where an array lies: in a file that is shown, or (no file) somewhere else.
struct ArrayPlace {
  std::shared_ptr<Residency> file = nullptr;
  uint64_t offset = 0;

  static ArrayPlace of(const void* data, size_t bytes);

  // Brings in items about to be read that are not in memory; whether there were any. item(i): the number of
  // the i-th, of `width` bytes; UINT64_MAX for one that will not be read.
  template <class Item>
  bool fetch_missing(size_t count, size_t width, Item&& item) const {
    return file && file->fetch_missing(count, [&](size_t i) {
      const uint64_t number = item(i);
      return number == UINT64_MAX ? std::pair<uint64_t, uint64_t>(offset, 0)
                                  : std::pair<uint64_t, uint64_t>(offset + number * width, width);
    });
  }
};

// gather() (gather.h) of an array that may lie in a file.
void gather_array(const void* rows, uint64_t num_rows, size_t row_bytes, const int64_t* ids, size_t count,
                  void* out);

}  // namespace gz
