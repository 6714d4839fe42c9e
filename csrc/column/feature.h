// A feature column: rows of one dtype and shape in a mapped file, a .gd or an adopted .npy.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "column/shown_file.h"
#include "file/encoding.h"
#include "file/format.h"
#include "file/mapping.h"
#include "read/row_source.h"

namespace gz {

struct Feature {
  std::shared_ptr<Mapping> mapping;
  std::shared_ptr<RowSource> source;
  uint64_t offset = 0;          // of the first row in the file
  DType dtype = DType::kNone;   // as it is stored
  DType shown = DType::kNone;   // as it is read
  std::vector<uint64_t> shape;  // rows first
  size_t values = 0;            // of a row
  size_t row_bytes = 0;         // in the file

  uint64_t num_rows() const { return shape[0]; }
  uint64_t bytes() const { return num_rows() * row_bytes; }
  WritableCopy tensor;  // what users see

  // `opened`: as in Mapping::open.
  static std::shared_ptr<Feature> open(const std::string& path, int opened = -1);
  // An array that lies in a file whose header the caller has read (.npy). Checks that the rows are inside the
  // file.
  static std::shared_ptr<Feature> adopt(const std::string& path, uint64_t offset, DType dtype,
                                        std::vector<uint64_t> shape);

  // What comes of rows that are read as `as`: `shown`, `dtype` for rows as they lie in the file, or float32
  // of halves. Throws std::invalid_argument.
  RowFormat format(DType as) const;
  // What the file holds, whatever was written to the tensor.
  void gather(const int64_t* ids, size_t count, void* out, const RowFormat& format) const;
  void gather(const int64_t* ids, size_t count, void* out) const { gather(ids, count, out, format(shown)); }
};

}  // namespace gz
