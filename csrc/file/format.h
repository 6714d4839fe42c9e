// The bytes of .gl and .gd files: the one place that readers and writers share. docs/format.md says the same
// in words; the static_asserts below pin it.
//
// A file is a 4096-byte header, then sections, each starting on a 4096-byte boundary. Everything is
// little-endian.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace gz {

inline constexpr size_t kPage = 4096;
inline constexpr unsigned char kMagic[8] = {0x89, 'G', 'Z', 'F', '\r', '\n', 0x1a, '\n'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint32_t kByteOrder = 0x01020304;
inline constexpr uint32_t kMaxDims = 8;

enum class Kind : uint32_t { kTopology = 1, kFeature = 2 };
enum class Direction : uint32_t { kIn = 0, kOut = 1 };

enum class DType : uint32_t {
  kNone = 0,  // the section is absent
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBFloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
  kUInt32 = 11,  // topology only
  kUInt64 = 12,  // topology only
};

size_t dtype_bytes(DType t);                     // 0 for kNone and for values that are no dtype
const char* dtype_name(DType t);                 // numpy's name; "bfloat16" for the one numpy lacks
DType dtype_from_name(const std::string& name);  // throws std::invalid_argument listing the names

// Sections of a topology, by index. A feature has one section, kData.
enum TopologySection : size_t {
  kIndptr = 0,         // uint64 [num_nodes + 1]
  kIndices = 1,        // uint32 | int64 [num_edges]
  kEdgeIds = 2,        // uint32 | int64 [num_edges], optional
  kEdgePositions = 3,  // uint32 | int64 [num_edge_ids]: inverse of kEdgeIds, optional
  kWeights = 4,        // float32 [num_edges], optional
  kAlias = 5,          // uint32 [num_edges, 2]: (threshold, partner), with kWeights
};
inline constexpr size_t kData = 0;
inline constexpr size_t kMaxSections = 8;

enum Flags : uint64_t {
  kSortedLists = 1,   // every neighbour list ascends by id
  kIdsAreInRows = 2,  // kEdgeIds holds positions in the store's `in` topology (an `out` file of a store)
  kKnownFlags = 3,
};

struct Section {
  uint64_t offset;
  uint64_t bytes;
  uint64_t checksum;  // TreeHash of the bytes
  DType dtype;
  uint32_t reserved;
};

struct TopologyShape {
  uint64_t num_nodes;  // the grouped end: destinations when direction is `in`
  uint64_t num_other;  // the other end
  uint64_t num_edges;
  uint64_t num_edge_ids;  // edge ids are below this
  Direction direction;
  uint32_t reserved;
};

struct FeatureShape {
  uint32_t ndim;
  DType shown;  // what rows are read as, where that is not what they are stored as (file/encoding.h)
  uint64_t shape[kMaxDims];
};

struct Header {
  unsigned char magic[8];
  uint32_t version;
  uint32_t byte_order;
  Kind kind;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint64_t checksum;  // xxh64 of the header with this field zero
  uint64_t flags;
  uint64_t reserved[2];
  Section sections[kMaxSections];
  union {
    TopologyShape topology;
    FeatureShape feature;
  };
  unsigned char zero[3704];
};

static_assert(sizeof(Section) == 32);
static_assert(offsetof(Header, file_bytes) == 24);
static_assert(offsetof(Header, checksum) == 32);
static_assert(offsetof(Header, sections) == 64);
static_assert(offsetof(Header, topology) == 320);
static_assert(sizeof(TopologyShape) == 40);
static_assert(sizeof(FeatureShape) == 72);
static_assert(offsetof(FeatureShape, shown) == 4);
static_assert(sizeof(Header) == kPage);

// A header with the fixed fields set and all else zero.
Header new_header(Kind kind);
// Fills in the checksum. Call last, just before the header is written.
void seal_header(Header& header);
// Checks every rule that needs no data beyond the header, with overflow-safe arithmetic. `file_bytes` is the
// real length of the file. Throws FormatError naming `path` and the rule.
void check_header(const Header& header, uint64_t file_bytes, Kind expected, const std::string& path);

inline uint64_t align_to_page(uint64_t offset) {
  return (offset + kPage - 1) / kPage * kPage;
}
inline bool fits_32_bits(uint64_t count) {
  return count <= uint64_t{1} << 32;
}

}  // namespace gz
