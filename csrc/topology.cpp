#include "topology.h"

#include "error.h"

namespace gz {
namespace {

IdArray ids_of(const Mapping& m, const Section& s) {
  if (s.dtype == DType::kNone) return {};
  return {m.data() + s.offset, s.dtype == DType::kInt64};
}

}  // namespace

std::shared_ptr<Topology> Topology::open(const std::string& path) {
  auto mapping = open_checked(path, Kind::kTopology);
  const Header& h = header_of(*mapping);
  auto t = std::make_shared<Topology>();
  t->num_nodes = h.topology.num_nodes;
  t->num_other = h.topology.num_other;
  t->num_edges = h.topology.num_edges;
  t->num_edge_ids = h.topology.num_edge_ids;
  t->direction = h.topology.direction;
  t->sorted = h.flags & kSortedLists;
  t->ids_are_in_rows = h.flags & kIdsAreInRows;
  t->indptr = reinterpret_cast<const uint64_t*>(mapping->data() + h.sections[kIndptr].offset);
  t->indices = ids_of(*mapping, h.sections[kIndices]);
  t->edge_ids = ids_of(*mapping, h.sections[kEdgeIds]);
  t->edge_positions = ids_of(*mapping, h.sections[kEdgePositions]);
  if (h.sections[kWeights].dtype != DType::kNone) {
    t->weights = reinterpret_cast<const float*>(mapping->data() + h.sections[kWeights].offset);
    t->alias = reinterpret_cast<const AliasEntry*>(mapping->data() + h.sections[kAlias].offset);
  }
  t->name = path;
  t->owner = mapping;
  t->mapping = mapping;
  if (t->indptr[0] != 0 || t->indptr[t->num_nodes] != t->num_edges)
    throw FormatError(path, "indptr does not run from 0 to the number of edges");
  // Lists are short and far apart: read-ahead around them would only evict what is useful.
  for (size_t s : {kIndices, kEdgeIds, kEdgePositions, kWeights, kAlias})
    if (h.sections[s].bytes) mapping->advise(h.sections[s].offset, h.sections[s].bytes, Advice::kRandom);
  return t;
}

void Topology::damaged_indptr(uint64_t v) const {
  throw FormatError(name, "indptr of node " + std::to_string(v) + " is damaged (" + std::to_string(indptr[v]) +
                              " to " + std::to_string(indptr[v + 1]) + " of " + std::to_string(num_edges) +
                              " edges); run `gz verify`");
}

void Topology::damaged_index(uint64_t position) const {
  throw FormatError(name, "the neighbour at position " + std::to_string(position) + " is node " +
                              std::to_string(indices[position]) + ", but there are " + std::to_string(num_other) +
                              "; run `gz verify`");
}

}  // namespace gz
