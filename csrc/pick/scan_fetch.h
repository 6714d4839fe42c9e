// Before a scan (scan.h): what it reads and is not in memory is brought in for many nodes at once.
#pragma once

#include <cstdint>
#include <vector>

#include "pick/edge_values.h"
#include "pick/scan.h"
#include "pick/times.h"

namespace gz {

class ScanFetch {
 public:
  // Brings in where the lists of the frontier begin, and looks whether what follows is there.
  explicit ScanFetch(const ScanRequest& request);

  // Brings in what is read for nodes [from, ...) of the frontier, and returns where those end: a multiple of
  // `unit` further, or at the frontier's end.
  size_t bring_in(size_t from, size_t unit);

 private:
  void fetch_searched();

  const ScanRequest& r_;
  const EdgeTimes times_;
  const PickedBy by_;
  bool cold_;
  std::vector<Topology::Range> lists_;
  std::vector<int64_t> nows_;
};

}  // namespace gz
