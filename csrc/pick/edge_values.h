// What is read of edges to pick them by weight or by time, brought in many pages at a time where it is not in
// memory.
//
// An edge's value lies in a column, at its row or at its neighbour; which these are may have to be read
// first, from the topology. Nothing of it is kept: what follows reads the same places through the mappings.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pick/pick.h"

namespace gz {

class EdgeValues {
 public:
  enum class By { kRow, kNeighbour };

  EdgeValues(const Topology& topology, Column column, By by)
      : t_(topology), column_(std::move(column)), by_(by) {}

  // Whether some of what is read for `count` edges, which are below num_edges, is likely to be missing.
  template <class Position>
  bool cold(size_t count, Position&& position) const {
    const auto in_topology = [&](size_t i) { return go_by().address(position(i)); };
    if (!direct() && t_.cold(count, in_topology)) return true;
    return column_.place.file && !column_.place.file->likely(count, [&](size_t i) {
      const uint64_t at = place(position(i));
      return column_.place.offset + (at < column_.size ? at * column_.width() : 0);
    });
  }

  void fetch(const int64_t* positions, size_t count) const;

  // Of neighbours, and of rows in another order, values lie all over the column.
  bool scattered() const { return !direct(); }

 private:
  bool direct() const { return by_ == By::kRow && !t_.ids_are_in_rows; }
  const IdArray& go_by() const { return by_ == By::kRow ? t_.edge_ids : t_.indices; }
  // Where a value lies in the column. Of a damaged file it may be anywhere.
  uint64_t place(uint64_t position) const { return direct() ? position : go_by()[position]; }

  const Topology& t_;
  Column column_;
  By by_;
};

// The values that edges of a type are picked by.
class PickedBy {
 public:
  // `temporal`: by time too, where there is one.
  PickedBy(const Topology& topology, const EdgeColumns& columns, bool temporal);

  template <class Position>
  bool cold(size_t count, Position&& position) const {
    for (const EdgeValues& v : values_)
      if (v.cold(count, position)) return true;
    return false;
  }
  void fetch(const int64_t* positions, size_t count) const;
  // Of all edges of lists, some at a time: memory may have no room for what all of them lie on.
  void fetch_lists(const Topology::Range* lists, size_t count) const;

 private:
  std::vector<EdgeValues> values_;
};

}  // namespace gz
