#include "assign/fennel.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "base/threads.h"

namespace gz {
namespace {

constexpr size_t kPollEvery = 4096;

}  // namespace

Fennel::Fennel(size_t num_parts, const std::vector<int64_t>& class_sizes, int64_t num_edges, double degree,
               double slack)
    : num_parts_(num_parts), penalty_(1.5 * degree) {
  if (num_parts == 0 || num_parts >= kNoPart)
    throw std::invalid_argument("there are " + std::to_string(num_parts) + " parts; give 1 to 65534");
  if (!(slack >= 1) || !(degree >= 0) || num_edges < 0)
    throw std::invalid_argument("slack must be 1 or more, degree and edges not negative");
  const double parts = static_cast<double>(num_parts);
  edge_share_ = static_cast<double>(num_edges) / parts;
  edge_most_ = edge_share_ * slack;
  for (const int64_t size : class_sizes) {
    const double share = static_cast<double>(size) / parts;
    class_share_.push_back(share);
    class_most_.push_back(std::max(std::ceil(share), share * slack));
  }
  nodes_.assign(class_sizes.size() * num_parts, 0);
  edges_.assign(num_parts, 0);
  near_.assign(num_parts, 0);
}

double Fennel::load(size_t part, size_t cls) const {
  const double nodes = class_share_[cls] > 0 ? nodes_[cls * num_parts_ + part] / class_share_[cls] : 0;
  const double edges = edge_share_ > 0 ? edges_[part] / edge_share_ : 0;
  return std::max(nodes, edges);
}

void Fennel::move(size_t part, size_t cls, double edges, double sign) {
  nodes_[cls * num_parts_ + part] += sign;
  edges_[part] += sign * edges;
}

size_t Fennel::best(size_t cls, double edges) const {
  size_t found = num_parts_, idlest = 0;
  double most = 0, least = load(0, cls);
  for (size_t p = 0; p < num_parts_; ++p) {
    const double loaded = load(p, cls);
    if (loaded < least) {
      least = loaded;
      idlest = p;
    }
    const bool nodes_fit = nodes_[cls * num_parts_ + p] + 1 <= class_most_[cls];
    const bool edges_fit = edge_share_ <= 0 || edges == 0 || edges_[p] + edges <= edge_most_;
    if (!nodes_fit || !edges_fit) continue;
    const double score = static_cast<double>(near_[p]) - penalty_ * std::sqrt(loaded);
    if (found == num_parts_ || score > most) {
      most = score;
      found = p;
    }
  }
  return found == num_parts_ ? idlest : found;
}

void Fennel::add(const StreamNodes& nodes, uint16_t* parts, size_t num_nodes) {
  if (nodes.first > num_nodes || nodes.count > num_nodes - nodes.first)
    throw std::out_of_range("nodes " + std::to_string(nodes.first) + " and " + std::to_string(nodes.count) +
                            " more are not among " + std::to_string(num_nodes));
  for (size_t i = 0; i < nodes.count; ++i) {
    if (i % kPollEvery == 0) poll();
    const size_t cls = nodes.classes[i];
    const double edges = static_cast<double>(nodes.edges[i]);
    uint16_t& part = parts[nodes.first + i];
    if (cls >= class_share_.size())
      throw std::out_of_range("node " + std::to_string(nodes.first + i) + " is of class " +
                              std::to_string(cls) + "; there are " + std::to_string(class_share_.size()));
    std::fill(near_.begin(), near_.end(), 0);
    for (int64_t e = nodes.indptr[i]; e < nodes.indptr[i + 1]; ++e) {
      const auto neighbour = static_cast<uint64_t>(nodes.neighbours[e]);
      if (neighbour >= num_nodes)
        throw std::out_of_range("node " + std::to_string(nodes.first + i) + " has the neighbour " +
                                std::to_string(nodes.neighbours[e]) + "; there are " +
                                std::to_string(num_nodes) + " nodes");
      const uint16_t at = parts[neighbour];
      // A node is no reason to stay with itself.
      if (at < num_parts_ && neighbour != nodes.first + i) ++near_[at];
    }
    if (part != kNoPart) {
      if (part >= num_parts_)
        throw std::out_of_range("node " + std::to_string(nodes.first + i) + " is in part " +
                                std::to_string(part) + " of " + std::to_string(num_parts_));
      move(part, cls, edges, -1);
    }
    const size_t to = best(cls, edges);
    move(to, cls, edges, 1);
    part = static_cast<uint16_t>(to);
  }
}

}  // namespace gz
