// The `out` topology from a finished `in` topology, read from front to back.
#include <algorithm>
#include <vector>

#include "base/error.h"
#include "build/builder.h"

namespace gz {

uint64_t add_transposed(Builder& out, const std::string& in_path, uint64_t begin, uint64_t memory) {
  const OutFile file(in_path, OutFile::Mode::kRead);
  Header h;
  file.read_at(0, &h, sizeof h);
  const uint64_t num_nodes = h.topology.num_nodes;
  if (begin >= num_nodes) return num_nodes;
  const bool wide = h.sections[kIndices].dtype == DType::kInt64;
  const bool weighted = h.sections[kWeights].dtype != DType::kNone;
  const size_t id = wide ? 8 : 4;

  constexpr uint64_t kNodes = uint64_t{1} << 18;
  const uint64_t most_edges = std::clamp<uint64_t>(memory / 8 / 24, 1024, uint64_t{1} << 23);
  std::vector<uint64_t> indptr(std::min(kNodes, num_nodes - begin) + 1);
  file.read_at(h.sections[kIndptr].offset + begin * 8, indptr.data(), indptr.size() * 8);
  size_t nodes = 1;
  while (nodes + 1 < indptr.size() && indptr[nodes + 1] - indptr[0] <= most_edges) ++nodes;

  // Destinations may need 64 bits where sources do not: then the sources are widened.
  const bool wide_batch = wide || begin + nodes - 1 > UINT32_MAX;
  // One list may be longer than a piece; its edges then go in several pieces.
  size_t v = 0;
  for (uint64_t at = indptr[0]; at < indptr[nodes];) {
    const size_t count = std::min<uint64_t>(most_edges, indptr[nodes] - at);
    Buffer src(count * id), dst(count * 8), weights(weighted ? count * 4 : 0);
    file.read_at(h.sections[kIndices].offset + at * id, src.data(), count * id);
    if (weighted) file.read_at(h.sections[kWeights].offset + at * 4, weights.data(), count * 4);
    for (size_t i = 0; i < count; ++i) {
      while (at + i >= indptr[v + 1]) ++v;
      if (wide_batch)
        dst.as<uint64_t>()[i] = begin + v;
      else
        dst.as<uint32_t>()[i] = static_cast<uint32_t>(begin + v);
    }
    if (wide_batch && !wide) {
      Buffer wider(count * 8);
      for (size_t i = 0; i < count; ++i) wider.as<uint64_t>()[i] = src.as<uint32_t>()[i];
      src = std::move(wider);
    }
    out.add({.count = count,
             .wide = wide_batch,
             .src = src.data(),
             .dst = dst.data(),
             .payload = weighted ? weights.data() : nullptr});
    at += count;
  }
  return begin + nodes;
}

}  // namespace gz
