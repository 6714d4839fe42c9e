#include "column/feature.h"

#include "base/error.h"
#include "read/check.h"

namespace gz {
namespace {

std::shared_ptr<Feature> make(std::shared_ptr<Mapping> mapping, uint64_t offset, DType dtype, DType shown,
                              std::vector<uint64_t> shape) {
  auto f = std::make_shared<Feature>();
  f->values = 1;
  for (size_t d = 1; d < shape.size(); ++d) f->values = checked_product(f->values, shape[d]);
  checked_product(f->values, dtype_bytes(dtype));
  const RowFormat format(dtype, shown, f->values);
  f->row_bytes = format.stored_bytes;
  f->shown = format.shown;
  f->mapping = std::move(mapping);
  f->offset = offset;
  f->dtype = dtype;
  f->shape = std::move(shape);
  // Rows are fetched at random: read-ahead around them costs bandwidth and evicts what is useful.
  f->mapping->advise(f->offset, f->bytes(), Advice::kRandom);
  f->source = std::make_shared<RowSource>(f->mapping, f->offset, f->num_rows(), f->row_bytes);
  return f;
}

}  // namespace

std::shared_ptr<Feature> Feature::open(const std::string& path, int opened) {
  auto mapping = open_checked(path, Kind::kFeature, opened);
  const Header& h = header_of(*mapping);
  const FeatureShape& f = h.feature;
  return make(std::move(mapping), h.sections[kData].offset, h.sections[kData].dtype, f.shown,
              std::vector<uint64_t>(f.shape, f.shape + f.ndim));
}

std::shared_ptr<Feature> Feature::adopt(const std::string& path, uint64_t offset, DType dtype,
                                        std::vector<uint64_t> shape) {
  auto mapping = Mapping::open(path);
  if (shape.empty()) throw FormatError(path, "holds a single number, not rows");
  uint64_t bytes = dtype_bytes(dtype), end;
  bool overflow = false;
  for (uint64_t d : shape) overflow |= __builtin_mul_overflow(bytes, d, &bytes);
  if (overflow || __builtin_add_overflow(offset, bytes, &end) || end > mapping->size())
    throw FormatError(path, "is " + std::to_string(mapping->size()) +
                                " bytes long, too short for the array its header describes: truncated");
  return make(std::move(mapping), offset, dtype, DType::kNone, std::move(shape));
}

RowFormat Feature::format(DType as) const {
  const bool halves = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  if (as != shown && as != dtype && !(halves && as == DType::kFloat32))
    throw std::invalid_argument(mapping->path() + ": rows of " + dtype_name(shown) + " are not read as " +
                                dtype_name(as));
  RowFormat f(dtype, as, values);
  f.stored_bytes = row_bytes;
  if (as == dtype) f.shown_bytes = row_bytes;  // rows as they lie, with their scales
  return f;
}

void Feature::gather(const int64_t* ids, size_t count, void* out, const RowFormat& format) const {
  source->gather(ids, count, static_cast<char*>(out), format);
}

}  // namespace gz
