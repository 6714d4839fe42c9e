#include "hot/lists.h"

#include <string>

#include "column/topology.h"

namespace gz {

HotLists::HotLists(const Topology& topology, std::shared_ptr<Feature> ids, std::shared_ptr<Feature> starts,
                   std::shared_ptr<Feature> lists)
    : ids_(std::move(ids)),
      starts_(std::move(starts)),
      lists_(std::move(lists)),
      num_nodes_(topology.num_nodes),
      num_edges_(topology.num_edges),
      count_(ids_->num_rows()),
      entries_(lists_->num_rows()) {
  check_hot_ids(*ids_, "the nodes whose lists");
  if (starts_->dtype != DType::kInt64 || starts_->shape.size() != 2 || starts_->shape[1] != 2)
    refuse(*starts_, "where lists begin must be int64, two numbers for each");
  const DType width = topology.indices.wide ? DType::kInt64 : DType::kInt32;
  if (lists_->dtype != width || lists_->shape.size() != 1)
    refuse(*lists_, std::string("lists of ") + topology.name + " must be " + dtype_name(width));
  if (starts_->num_rows() != count_ || count_ >= HotIndex::kNone)
    refuse(*starts_, "says where " + std::to_string(starts_->num_rows()) + " lists begin, but " +
                         std::to_string(count_) + " nodes have theirs here");
}

void HotLists::find(const int64_t* nodes, size_t count, uint32_t* places) {
  index_.get(*ids_, count_, num_nodes_, "node", "the topology").find(nodes, count, places);
}

HotLists::List HotLists::list(uint32_t place) const {
  const int64_t* const start = start_of(place);
  const auto begin = static_cast<uint64_t>(start[0]), copy = static_cast<uint64_t>(start[1]);
  const uint64_t end = place + uint64_t{1} < count_ ? static_cast<uint64_t>(start[3]) : entries_;
  if (copy > end || end > entries_ || begin > num_edges_ || end - copy > num_edges_ - begin) [[unlikely]]
    refuse(*starts_, "list " + std::to_string(place) + " cannot be at " + std::to_string(copy) + " to " +
                         std::to_string(end) + " of " + std::to_string(entries_) +
                         " entries, nor at position " + std::to_string(begin) + " of " +
                         std::to_string(num_edges_) + "; run `gz verify`");
  return {begin, end - copy, copy};
}

void HotLists::damaged_entry(uint64_t entry, uint64_t limit) const {
  refuse(*lists_, "entry " + std::to_string(entry) + " names a node that is not there: there are " +
                      std::to_string(limit) + "; run `gz verify`");
}

HotLists::Stats HotLists::stats() const {
  Stats sum{.found = found_.load(std::memory_order_relaxed), .reads = 0, .bytes = 0, .seconds = 0};
  for (const Feature* file : {starts_.get(), lists_.get()}) {
    const ReadCounts& counts = file->source->residency()->counts();
    sum.reads += counts.reads;
    sum.bytes += counts.bytes;
    sum.seconds += counts.seconds();
  }
  return sum;
}

}  // namespace gz
