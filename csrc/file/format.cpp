#include "file/format.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "file/encoding.h"

namespace gz {
namespace {

struct DTypeInfo {
  DType type;
  size_t bytes;
  const char* name;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kBool, 1, "bool"},       {DType::kUInt8, 1, "uint8"},       {DType::kInt8, 1, "int8"},
    {DType::kInt16, 2, "int16"},     {DType::kInt32, 4, "int32"},       {DType::kInt64, 8, "int64"},
    {DType::kFloat16, 2, "float16"}, {DType::kBFloat16, 2, "bfloat16"}, {DType::kFloat32, 4, "float32"},
    {DType::kFloat64, 8, "float64"}, {DType::kUInt32, 4, "uint32"},     {DType::kUInt64, 8, "uint64"},
};

const DTypeInfo* find(DType t) {
  for (const auto& info : kDTypes)
    if (info.type == t) return &info;
  return nullptr;
}

const char* kind_name(Kind kind) {
  switch (kind) {
    case Kind::kTopology:
      return "topology (.gl)";
    case Kind::kFeature:
      return "feature (.gd)";
  }
  return nullptr;
}

class Checker {
 public:
  Checker(const Header& header, const std::string& path) : h_(header), path_(path) {}

  [[noreturn]] void fail(const std::string& rule) const { throw FormatError(path_, rule); }

  void preamble(uint64_t file_bytes, Kind expected) const {
    if (std::memcmp(h_.magic, kMagic, sizeof kMagic) != 0)
      fail("not a gz file: the first 8 bytes are not gz's magic number (a GraphZero file? convert its CSV)");
    if (h_.byte_order != kByteOrder) fail("byte order mark is not 0x01020304: not written little-endian");
    if (h_.version != kVersion)
      fail("format version " + std::to_string(h_.version) + "; this gz reads version " +
           std::to_string(kVersion) + ": ingest again or update gz");
    if (h_.header_bytes != kPage) fail("header size is " + std::to_string(h_.header_bytes) + ", not 4096");
    Header copy = h_;
    copy.checksum = 0;
    if (xxh64(&copy, sizeof copy) != h_.checksum)
      fail("header checksum does not match: the header is damaged");
    if (h_.kind != expected) {
      const char* name = kind_name(h_.kind);
      fail(std::string("is a ") + (name ? name : "file of unknown kind") + ", expected a " +
           kind_name(expected));
    }
    if (h_.file_bytes != file_bytes)
      fail("is " + std::to_string(file_bytes) + " bytes long but its header says " +
           std::to_string(h_.file_bytes) + ": truncated or appended to");
    if (h_.flags & ~uint64_t{kKnownFlags}) fail("has unknown flag bits set");
    const auto nonzero = [](unsigned char c) { return c != 0; };
    if (h_.reserved[0] || h_.reserved[1] || std::any_of(std::begin(h_.zero), std::end(h_.zero), nonzero))
      fail("reserved header bytes are not zero");
  }

  // The section must hold exactly `count` items of `item_bytes`, inside the file, after the section before
  // it.
  void section(const char* name, const Section& s, uint64_t count, size_t item_bytes) {
    const std::string what = std::string("section '") + name + "' ";
    uint64_t bytes, end;
    if (__builtin_mul_overflow(count, uint64_t{item_bytes}, &bytes) || bytes != s.bytes)
      fail(what + "is " + std::to_string(s.bytes) + " bytes, but " + std::to_string(count) + " items of " +
           std::to_string(item_bytes) + " bytes are expected");
    if (s.offset % kPage != 0) fail(what + "does not start on a 4096-byte boundary");
    if (s.offset < end_of_last_) fail(what + "overlaps what lies before it");
    if (__builtin_add_overflow(s.offset, s.bytes, &end) || end > h_.file_bytes)
      fail(what + "reaches past the end of the file");
    if (s.reserved != 0) fail(what + "has a nonzero reserved field");
    end_of_last_ = end;
  }

  void absent(const char* name, const Section& s) const {
    if (s.dtype != DType::kNone || s.offset || s.bytes || s.checksum || s.reserved)
      fail(std::string("section '") + name + "' must be absent (all zero)");
  }

  void dtype(const char* name, const Section& s, std::initializer_list<DType> allowed) const {
    if (std::find(allowed.begin(), allowed.end(), s.dtype) == allowed.end())
      fail(std::string("section '") + name + "' has dtype " + dtype_name(s.dtype) +
           ", which is not allowed there");
  }

  void topology() {
    const TopologyShape& t = h_.topology;
    constexpr uint64_t kMax = uint64_t{1} << 62;
    if (t.num_nodes >= kMax || t.num_other >= kMax || t.num_edges >= kMax || t.num_edge_ids >= kMax)
      fail("a count is 2^62 or more");
    if (t.direction != Direction::kIn && t.direction != Direction::kOut) fail("direction is neither 0 nor 1");
    if (t.reserved != 0) fail("a reserved shape field is not zero");
    const auto& s = h_.sections;
    dtype("indptr", s[kIndptr], {DType::kUInt64});
    section("indptr", s[kIndptr], t.num_nodes + 1, 8);
    dtype("indices", s[kIndices], {DType::kUInt32, DType::kInt64});
    if (s[kIndices].dtype == DType::kUInt32 && !fits_32_bits(t.num_other))
      fail("ids are 32 bits wide but there are " + std::to_string(t.num_other) + " nodes");
    section("indices", s[kIndices], t.num_edges, dtype_bytes(s[kIndices].dtype));
    optional_ids("edge_ids", s[kEdgeIds], t.num_edges, t.num_edge_ids);
    optional_ids("edge_positions", s[kEdgePositions], t.num_edge_ids, t.num_edges);
    if (s[kWeights].dtype == DType::kNone) {
      absent("weights", s[kWeights]);
      absent("alias", s[kAlias]);
    } else {
      dtype("weights", s[kWeights], {DType::kFloat32});
      section("weights", s[kWeights], t.num_edges, 4);
      dtype("alias", s[kAlias], {DType::kUInt32});
      section("alias", s[kAlias], t.num_edges, 8);
    }
    edge_names();
    for (size_t i = kAlias + 1; i < kMaxSections; ++i) absent("reserved", s[i]);
    const auto* tail = reinterpret_cast<const unsigned char*>(&h_.topology + 1);
    for (size_t i = 0; i < sizeof(FeatureShape) - sizeof(TopologyShape); ++i)
      if (tail[i]) fail("reserved header bytes are not zero");
  }

  void feature() {
    const FeatureShape& f = h_.feature;
    if (h_.flags != 0) fail("has unknown flag bits set");
    if (f.ndim < 1 || f.ndim > kMaxDims)
      fail("has " + std::to_string(f.ndim) + " dimensions; 1 to 8 are allowed");
    const Section& s = h_.sections[kData];
    dtype("data", s,
          {DType::kBool, DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
           DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64});
    if (!known_encoding(s.dtype, f.shown))
      fail(std::string("rows of ") + dtype_name(s.dtype) + " that are read as dtype " +
           std::to_string(static_cast<uint32_t>(f.shown)) +
           " are of an encoding that this gz does not know: " + "update gz");
    // Dimensions of 0 aside: sizes of rows are computed, and shapes shown, where there are no rows too.
    int64_t bytes = static_cast<int64_t>(dtype_bytes(f.shown == DType::kNone ? s.dtype : f.shown));
    if (RowFormat(s.dtype, f.shown, 0).scaled()) bytes += sizeof(float);  // the scale of a row
    uint64_t values = 1;
    for (uint32_t d = 0; d < kMaxDims; ++d) {
      if (d >= f.ndim && f.shape[d] != 0) fail("a dimension past ndim is not zero");
      if (d >= f.ndim) continue;
      if (__builtin_mul_overflow(bytes, std::max<uint64_t>(1, f.shape[d]), &bytes))
        fail("its shape overflows 63 bits");
      if (d > 0) values *= f.shape[d];
    }
    section("data", s, f.shape[0], RowFormat(s.dtype, f.shown, values).stored_bytes);
    for (size_t i = 1; i < kMaxSections; ++i) absent("reserved", h_.sections[i]);
  }

 private:
  // What edges are called: by their position, by ids of their own, or by their row in the `in` topology.
  void edge_names() const {
    const TopologyShape& t = h_.topology;
    const bool ids = h_.sections[kEdgeIds].dtype != DType::kNone;
    const bool positions = h_.sections[kEdgePositions].dtype != DType::kNone;
    const bool rows = h_.flags & kIdsAreInRows;
    if (rows && t.direction != Direction::kOut)
      fail("its edge ids are flagged as rows of the 'in' topology, but it is one itself");
    if (rows && !ids) fail("its edge ids are flagged as rows of the 'in' topology, but there are none");
    if (positions != (ids && !rows))
      fail("section 'edge_positions' must be there exactly where edges have ids of their own");
    if ((rows || !ids) && t.num_edge_ids != t.num_edges)
      fail("has " + std::to_string(t.num_edge_ids) + " edge ids for " + std::to_string(t.num_edges) +
           " edges that have no ids of their own");
  }

  void optional_ids(const char* name, const Section& s, uint64_t count, uint64_t below) {
    if (s.dtype == DType::kNone) return absent(name, s);
    dtype(name, s, {DType::kUInt32, DType::kInt64});
    if (s.dtype == DType::kUInt32 && !fits_32_bits(below))
      fail(std::string("section '") + name + "' is 32 bits wide, too narrow for its values");
    section(name, s, count, dtype_bytes(s.dtype));
  }

  const Header& h_;
  const std::string& path_;
  uint64_t end_of_last_ = kPage;
};

}  // namespace

size_t dtype_bytes(DType t) {
  const DTypeInfo* info = find(t);
  return info ? info->bytes : 0;
}

const char* dtype_name(DType t) {
  const DTypeInfo* info = find(t);
  return info ? info->name : "(none)";
}

DType dtype_from_name(const std::string& name) {
  std::string known;
  for (const auto& info : kDTypes) {
    if (name == info.name) return info.type;
    known += std::string(known.empty() ? "" : ", ") + info.name;
  }
  throw std::invalid_argument("dtype '" + name + "' cannot be stored; choose one of " + known);
}

Header new_header(Kind kind) {
  Header h;
  std::memset(&h, 0, sizeof h);
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.version = kVersion;
  h.byte_order = kByteOrder;
  h.kind = kind;
  h.header_bytes = kPage;
  return h;
}

void seal_header(Header& header) {
  header.checksum = 0;
  header.checksum = xxh64(&header, sizeof header);
}

void check_header(const Header& header, uint64_t file_bytes, Kind expected, const std::string& path) {
  Checker check(header, path);
  check.preamble(file_bytes, expected);
  expected == Kind::kTopology ? check.topology() : check.feature();
}

}  // namespace gz
