// Which part of k each node goes to, decided as the nodes stream by: Fennel with several balances.
//
// A node goes where most of its neighbours are, less a penalty that grows with the load of that part: with
// one load this is Fennel's rule with gamma = 3/2 (Tsourakakis et al., WSDM 2014). Here a part's load is the
// larger of two, each as a multiple of its fair share: nodes of the same class (a node type; training nodes
// and others) and edges that end in it. No part takes more than `slack` times its share of either as long as
// another has room. A second pass over the same stream sees all neighbours in place and moves nodes
// (Nishimura and Ugander, KDD 2013).
//
// Memory: the caller's table of parts, 2 bytes a node, and k numbers a class. The result depends on the order
// of the stream alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gz {

inline constexpr uint16_t kNoPart = 0xffff;

// Consecutive nodes of the stream. The neighbours of node i of them are neighbours[indptr[i]] to
// neighbours[indptr[i + 1] - 1], numbers of nodes of the whole graph, as is `first`.
struct StreamNodes {
  size_t first = 0;
  size_t count = 0;
  const uint8_t* classes = nullptr;  // [count]
  const int64_t* edges = nullptr;    // [count]: edges that go with the node
  const int64_t* indptr = nullptr;   // [count + 1], from 0
  const int64_t* neighbours = nullptr;
};

class Fennel {
 public:
  // class_sizes: nodes of each class in the whole graph; num_edges: edges to be balanced, 0 for none; degree:
  // neighbours of a node on average. Throws std::invalid_argument.
  Fennel(size_t num_parts, const std::vector<int64_t>& class_sizes, int64_t num_edges, double degree,
         double slack);

  // Puts the nodes into parts[first...]; those that are in a part already are taken out of it first. Throws
  // std::out_of_range for a neighbour, a class or a part that is not there.
  void add(const StreamNodes& nodes, uint16_t* parts, size_t num_nodes);

 private:
  size_t best(size_t cls, double edges) const;
  double load(size_t part, size_t cls) const;
  void move(size_t part, size_t cls, double edges, double sign);

  size_t num_parts_;
  double penalty_, edge_share_, edge_most_;
  std::vector<double> class_share_, class_most_;
  std::vector<double> nodes_;  // [class][part]
  std::vector<double> edges_;  // [part]
  std::vector<int64_t> near_;  // [part]: neighbours of the node at hand
};

}  // namespace gz
