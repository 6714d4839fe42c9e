#include "pick/expand.h"

#include <stdexcept>
#include <string>

namespace gz {
namespace {

void check_column(const Column& column, uint64_t least, const char* what, const Topology& t) {
  if (column && column.size < least)
    throw std::invalid_argument(t.name + ": " + what + " has " + std::to_string(column.size) +
                                " entries, but " + std::to_string(least) + " are needed");
}

void check_edge_type(const std::vector<uint64_t>& num_nodes, const EdgeType& e, size_t hops) {
  if (e.frontier_type >= num_nodes.size() || e.neighbour_type >= num_nodes.size())
    throw std::invalid_argument("an edge type names a node type that is not there");
  const Topology& t = *e.topology;
  if (e.fanouts.size() != hops)
    throw std::invalid_argument("every edge type needs the same number of hops: one has " +
                                std::to_string(hops) + ", another " + std::to_string(e.fanouts.size()));
  for (int64_t fanout : e.fanouts)
    if (fanout < -1)
      throw std::invalid_argument("a fanout is " + std::to_string(fanout) +
                                  "; give a number of neighbours, or -1 for all");
  // Of any node of the type a list is read: a topology of fewer nodes has none for the last of them.
  if (t.num_nodes != num_nodes[e.frontier_type] || t.num_other > num_nodes[e.neighbour_type])
    throw std::invalid_argument(t.name + ": joins " + std::to_string(t.num_other) + " nodes to " +
                                std::to_string(t.num_nodes) + ", but its node types have " +
                                std::to_string(num_nodes[e.neighbour_type]) + " and " +
                                std::to_string(num_nodes[e.frontier_type]));
  if (e.ids && (!e.ids->edge_ids || e.ids->num_edges < t.num_rows()))
    throw std::invalid_argument(e.ids->name + ": cannot name the " + std::to_string(t.num_rows()) +
                                " edges of " + t.name);
  check_columns(e);
}

}  // namespace

void check_columns(const EdgeType& e) {
  const Topology& t = *e.topology;
  check_column(e.columns.weights, t.num_rows(), "the column of weights", t);
  check_column(e.columns.edge_time, t.num_rows(), "the column of edge times", t);
  check_column(e.columns.node_time, t.num_other, "the column of node times", t);
}

void check_edge_types(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& types,
                      size_t hops) {
  for (const EdgeType& e : types) check_edge_type(num_nodes, e, hops);
}

void name_edges(const EdgeType& type, size_t from, bool want_ids, Edges& edges) {
  int64_t* const rows = edges.rows.data() + from;
  const size_t count = edges.rows.size() - from;
  if (type.topology->ids_are_in_rows) type.topology->ids_at(rows, count, rows);
  if (!want_ids || !type.ids) return;
  edges.ids.resize(edges.rows.size());
  type.ids->ids_at(rows, count, edges.ids.data() + from);
}

void expand(const EdgeType& type, const Frontier& frontier, int64_t first_frontier,
            const PickOptions& options, bool want_ids, Edges& out) {
  const size_t from = out.rows.size();
  pick(*type.topology, type.columns, frontier, first_frontier, options, out.rows, out.neighbour,
       out.frontier);
  name_edges(type, from, want_ids, out);
}

}  // namespace gz
