// What is picked where every edge of a node has to be looked at: by weight, by time.
//
// By time, the edges of a node are numbered from the earliest to the latest, those of the same time as they
// are stored: a list gives the same picks, in the same order, in whatever order it is stored. One that is
// known to ascend by time is searched, not looked through.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/memory.h"
#include "pick/pick.h"

namespace gz {

struct ScanRequest {
  const Topology& topology;
  const EdgeColumns& columns;
  const Frontier& frontier;
  const PickOptions& options;
  MemoryClaim& claim;  // asked before results are made
  uint64_t* counts;    // of each frontier node: how many were picked

  bool temporal() const { return frontier.seed_time && (columns.edge_time || columns.node_time); }
  // Whether what may be picked is found by searches.
  bool searches() const { return columns.ascending && !columns.weights && temporal(); }
};

// Appends the positions of the edges picked for nodes [from, to) of the frontier.
void pick_by_scan(const ScanRequest& request, size_t from, size_t to, std::vector<int64_t>& positions);

}  // namespace gz
