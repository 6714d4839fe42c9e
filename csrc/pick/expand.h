// What every sampler does to a frontier: along one edge type, pick edges and say what they are called.
//
// A sampler (sampler.h) does it hop by hop, a layer (layer.h) once; they share the description of an edge
// type, the checks of it, and the translation of positions into rows and ids.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "column/topology.h"
#include "memory/pool.h"
#include "pick/pick.h"

namespace gz {

struct EdgeType {
  std::shared_ptr<const Topology> topology;
  size_t frontier_type = 0;             // node type of the grouped end
  size_t neighbour_type = 0;            // node type of the other end
  std::vector<int64_t> fanouts;         // per hop; -1: all. A layer has one hop
  std::shared_ptr<const Topology> ids;  // whose edge_ids name the rows; null: an edge's id is its row
  EdgeColumns columns;
};

// Edges as they were picked. One entry each in every array that is not empty.
struct Edges {
  PooledArray<int64_t> neighbour;
  PooledArray<int64_t> frontier;
  PooledArray<int64_t> rows;  // of the edge columns
  PooledArray<int64_t> ids;   // original ids; empty where they equal the rows, or are not wanted
};

// Throws std::invalid_argument for types that contradict each other, their columns or the numbers of nodes.
// `hops`: fanouts that each must have.
void check_edge_types(const std::vector<uint64_t>& num_nodes, const std::vector<EdgeType>& types,
                      size_t hops);

// The part of it that concerns a type's columns.
void check_columns(const EdgeType& type);

// Appends the edges picked for a frontier: neighbours by global id, owners as first_frontier + place.
void expand(const EdgeType& type, const Frontier& frontier, int64_t first_frontier,
            const PickOptions& options, bool want_ids, Edges& out);

// Turns the positions in rows[from...] into rows of the edge columns, and fills in the ids if wanted.
void name_edges(const EdgeType& type, size_t from, bool want_ids, Edges& edges);

}  // namespace gz
