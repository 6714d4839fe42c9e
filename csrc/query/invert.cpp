// The same edges grouped by the other end: a counting sort into memory.
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "base/threads.h"
#include "memory/memory.h"
#include "query/edges.h"

namespace gz {
namespace {

constexpr uint64_t kPollEvery = 1 << 16;

template <class Id>
constexpr bool kWide = sizeof(Id) == 8;

// The arrays of the result: ids of nodes and rows of edges in the widths that hold them.
template <class Id, class Row>
struct Inverted {
  std::vector<uint64_t> indptr;
  std::vector<Id> indices;
  std::vector<Row> rows;

  explicit Inverted(const Topology& in)
      // One more: counts are shifted twice, so that filling sets the ends.
      : indptr(in.num_other + 2, 0), indices(in.num_edges), rows(in.num_edges) {
    for (uint64_t p = 0; p < in.num_edges; ++p) {
      if (p % kPollEvery == 0) poll();
      if (in.indices[p] >= in.num_other) in.damaged_index(p);
      ++indptr[in.indices[p] + 2];
    }
    for (uint64_t v = 0; v < in.num_other; ++v) indptr[v + 2] += indptr[v + 1];
    for (uint64_t v = 0; v < in.num_nodes; ++v) {
      if (v % kPollEvery == 0) poll();
      const auto range = in.edges_of(v);
      for (uint64_t p = range.begin; p < range.end; ++p) {
        const uint64_t at = indptr[in.indices[p] + 1]++;
        indices[at] = static_cast<Id>(v);
        rows[at] = static_cast<Row>(p);
      }
    }
  }
};

template <class Id, class Row>
void fill(const Topology& in, Topology& t) {
  constexpr const char* kWhat = "grouping the edges by their other end in memory";
  require_memory(in.num_other + 2, sizeof(uint64_t), kWhat);  // which a file may name without holding any
  require_memory(in.num_edges, sizeof(Id) + sizeof(Row), kWhat);
  const auto arrays = std::make_shared<Inverted<Id, Row>>(in);
  t.indptr = arrays->indptr.data();
  t.indices = {arrays->indices.data(), kWide<Id>};
  t.edge_ids = {arrays->rows.data(), kWide<Row>};
  t.owner = arrays;
}

}  // namespace

std::shared_ptr<Topology> invert(const Topology& in) {
  auto t = std::make_shared<Topology>();
  t->num_nodes = in.num_other;
  t->num_other = in.num_nodes;
  t->num_edges = t->num_edge_ids = in.num_edges;
  t->direction = in.direction == Direction::kIn ? Direction::kOut : Direction::kIn;
  t->sorted = true;
  t->ids_are_in_rows = true;
  t->name = in.name + " (inverted)";
  const auto with_rows = [&](auto id) {
    using Id = decltype(id);
    if (fits_32_bits(in.num_edges))
      fill<Id, uint32_t>(in, *t);
    else
      fill<Id, uint64_t>(in, *t);
  };
  if (fits_32_bits(in.num_nodes))
    with_rows(uint32_t{});
  else
    with_rows(uint64_t{});
  return t;
}

}  // namespace gz
