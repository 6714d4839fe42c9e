#include "build/bucket.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "build/sorted_lists.h"

namespace gz {
namespace {

bool is_fast(const RecordLayout& layout, const EdgeRules& rules) {
  return rules.plain() && !layout.has_seq && layout.payload == 0;
}

// Ids only, nothing to drop: count, scatter, sort each list.
template <class Id>
void fast_path(const BucketJob& job, const EdgeRules& rules, BucketResult& out) {
  if (rules.sort_by_id && can_sort_lists(job)) return sort_lists<Id>(job, out);
  const Partition& p = *job.edges;
  const uint64_t base = job.by_other ? 0 : job.key_base - job.nodes_begin;
  // Records that lie in the spill file are read twice rather than kept: the page cache has them.
  std::vector<uint64_t> at(job.nodes_end - job.nodes_begin + 1, 0);
  if (job.by_other)
    at[1] = out.count;
  else
    p.read(job.bucket, job.shift, job.read_step, [&](const Segment& s) {
      for (size_t i = 0; i < s.count; ++i) ++at[s.key(i) + base + 1];
    });
  out.degrees.assign(at.begin() + 1, at.end());
  for (size_t v = 1; v < at.size(); ++v) at[v] += at[v - 1];
  Id* ids = out.indices.as<Id>();
  p.read(job.bucket, job.shift, job.read_step, [&](const Segment& s) {
    if (job.by_other)
      for (size_t i = 0; i < s.count; ++i) ids[at[0]++] = static_cast<Id>(s.key(i) + job.key_base);
    else
      for (size_t i = 0; i < s.count; ++i) ids[at[s.key(i) + base]++] = static_cast<Id>(s.other(i));
  });
  if (!rules.sort_by_id) return;
  Id* list = ids;
  for (uint64_t degree : out.degrees) {
    if (degree > 1) std::sort(list, list + degree);
    list += degree;
  }
}

// The records of a bucket, unpacked.
struct Loaded {
  const BucketJob& job;
  Buffer nodes;   // uint32, counted from the job's first node
  Buffer others;  // uint64
  Buffer tails;   // sequence numbers and payloads
  size_t tail_bytes = 0;
  size_t count = 0;
  size_t originals = 0;  // records before this one are edges, from it on reverses

  uint32_t node(size_t i) const { return nodes.as<uint32_t>()[i]; }
  uint64_t other(size_t i) const { return others.as<uint64_t>()[i]; }
  const char* tail(size_t i) const { return tails.data() + i * tail_bytes; }
};

Loaded load(const BucketJob& job) {
  Loaded l{.job = job};
  l.count = job.count();
  if (l.count > UINT32_MAX) throw std::length_error("more than 2^32 edges in one bucket");
  l.tail_bytes = job.edges->layout().tail_bytes();
  l.nodes = Buffer(l.count * 4);
  l.others = Buffer(l.count * 8);
  l.tails = Buffer(l.count * l.tail_bytes);
  size_t at = 0;
  const auto take = [&](const Segment& s) {
    uint32_t* nodes = l.nodes.as<uint32_t>() + at;
    uint64_t* others = l.others.as<uint64_t>() + at;
    for (size_t i = 0; i < s.count; ++i) {
      const uint64_t id = s.key(i) + job.key_base;
      nodes[i] = job.by_other ? 0 : static_cast<uint32_t>(id - job.nodes_begin);
      others[i] = job.by_other ? id : s.other(i);
    }
    if (l.tail_bytes)
      for (size_t i = 0; i < s.count; ++i)
        std::memcpy(l.tails.data() + (at + i) * l.tail_bytes, s.tail(i), l.tail_bytes);
    at += s.count;
  };
  job.edges->read(job.bucket, job.shift, job.read_step, take);
  l.originals = at;
  if (job.reverses) job.reverses->read(job.bucket, job.shift, job.read_step, take);
  return l;
}

// Sort keys: the other end above, the record's number below, so that equal ends stay in order of arrival.
using NarrowKey = uint64_t;
using WideKey = unsigned __int128;
template <class Key>
uint64_t other_of(Key k) {
  return static_cast<uint64_t>(k >> 32);
}
template <class Key>
uint32_t record_of(Key k) {
  return static_cast<uint32_t>(k);
}

template <class Key>
class ListBuilder {
 public:
  ListBuilder(const Loaded& l, const EdgeRules& rules, bool wide_indices, bool track, BucketResult& out)
      : l_(l),
        rules_(rules),
        layout_(l.job.edges->layout()),
        wide_indices_(wide_indices),
        track_(track),
        out_(out) {}

  // `keys` are the records of node v in order of arrival.
  void add(uint64_t v, Key* begin, Key* end) {
    const size_t first = out_.count;
    const bool owns_loop = v >= l_.job.others_begin && v < l_.job.others_end;
    bool loop_due = rules_.self_loops == SelfLoops::kAdd && owns_loop;
    if (rules_.plain() && !rules_.sort_by_id) {
      for (Key* k = begin; k != end; ++k) emit_input(*k);
    } else if (rules_.sort_by_id) {
      std::sort(begin, end);
      each_group(begin, end, [&](Key* a, Key* b) {
        if (loop_due && other_of(*a) >= v) {
          if (other_of(*a) > v) emit_loop(v);
          loop_due = false;
        }
        group(v, a, b, [&](Key k, Key) { return emit_input(k); });
      });
      if (loop_due) emit_loop(v);
    } else {
      in_order_of_arrival(v, begin, end, loop_due);
    }
    out_.degrees[v - out_.nodes_begin] = out_.count - first;
  }

 private:
  template <class Fn>
  void each_group(Key* begin, Key* end, Fn&& fn) {
    for (Key* a = begin; a != end;) {
      Key* b = a + 1;
      while (b != end && other_of(*b) == other_of(*a)) ++b;
      fn(a, b);
      a = b;
    }
  }

  // Edges with the same two ends, in order of arrival, input edges before reverses. Calls keep(edge) for
  // those that stay and notes for the others where their survivor is.
  template <class Keep>
  void group(uint64_t v, Key* a, Key* b, Keep&& keep) {
    if (rules_.self_loops == SelfLoops::kRemove && other_of(*a) == v) return;
    if (rules_.coalesce) {
      const size_t place = keep(*a, *a);
      for (Key* k = a + 1; k != b; ++k) note_input(*k, place);
      return;
    }
    const bool has_original = record_of(*a) < l_.originals;
    for (Key* k = a; k != b; ++k)
      if (!has_original || record_of(*k) < l_.originals) keep(*k, *a);
  }

  // Sorting finds the groups; the survivors then go out by record number.
  void in_order_of_arrival(uint64_t v, Key* begin, Key* end, bool loop_due) {
    std::sort(begin, end);
    std::vector<uint32_t> kept;
    std::vector<std::pair<uint32_t, uint32_t>> dropped;  // (input edge, survivor)
    each_group(begin, end, [&](Key* a, Key* b) {
      if (other_of(*a) == v) loop_due = false;
      if (rules_.self_loops == SelfLoops::kRemove && other_of(*a) == v) return;
      if (rules_.coalesce) {
        kept.push_back(record_of(*a));
        for (Key* k = a + 1; k != b; ++k) dropped.emplace_back(record_of(*k), record_of(*a));
        return;
      }
      const bool has_original = record_of(*a) < l_.originals;
      for (Key* k = a; k != b; ++k)
        if (!has_original || record_of(*k) < l_.originals) kept.push_back(record_of(*k));
    });
    std::sort(kept.begin(), kept.end());
    const size_t first = out_.count;
    for (uint32_t r : kept) emit_input(Key{r} | (Key{l_.other(r)} << 32));
    for (const auto& [r, survivor] : dropped)
      note_input(Key{r}, first + (std::lower_bound(kept.begin(), kept.end(), survivor) - kept.begin()));
    if (loop_due) emit_loop(v);
  }

  void put(uint64_t other, uint64_t id) {
    if (wide_indices_)
      out_.indices.as<uint64_t>()[out_.count] = other;
    else
      out_.indices.as<uint32_t>()[out_.count] = static_cast<uint32_t>(other);
    if (layout_.has_seq) out_.edge_ids.as<uint64_t>()[out_.count] = id;
  }

  size_t emit_input(Key k) {
    const char* tail = l_.tail(record_of(k));
    put(other_of(k), layout_.has_seq ? load_u64(tail) : 0);
    if (layout_.payload)
      std::memcpy(out_.payload.data() + out_.count * layout_.payload, tail + layout_.payload_offset(),
                  layout_.payload);
    note_input(k, out_.count);
    return out_.count++;
  }

  void emit_loop(uint64_t v) {
    put(v, kAddedLoop);
    if (layout_.payload)
      std::memcpy(out_.payload.data() + out_.count * layout_.payload, rules_.loop_payload.data(),
                  layout_.payload);
    ++out_.added_loops;
    ++out_.count;
  }

  void note_input(Key k, size_t place) {
    if (!track_ || record_of(k) >= l_.originals) return;
    out_.input_ids.as<uint64_t>()[out_.num_inputs] = load_u64(l_.tail(record_of(k)));
    out_.input_places.as<uint64_t>()[out_.num_inputs++] = place;
  }

  const Loaded& l_;
  const EdgeRules& rules_;
  const RecordLayout& layout_;
  const bool wide_indices_, track_;
  BucketResult& out_;
};

template <class Key>
void general_path(const Loaded& l, const EdgeRules& rules, bool wide_indices, bool track, BucketResult& out) {
  const size_t nodes = l.job.nodes_end - l.job.nodes_begin;
  std::vector<uint64_t> at(nodes + 1, 0);
  for (size_t i = 0; i < l.count; ++i) ++at[size_t{l.node(i)} + 1];
  for (size_t v = 1; v <= nodes; ++v) at[v] += at[v - 1];
  Buffer buffer(l.count * sizeof(Key));
  Key* keys = buffer.as<Key>();
  {
    std::vector<uint64_t> next(at.begin(), at.end() - 1);
    for (size_t i = 0; i < l.count; ++i) keys[next[l.node(i)]++] = (Key{l.other(i)} << 32) | Key{i};
  }
  ListBuilder<Key> lists(l, rules, wide_indices, track, out);
  for (size_t v = 0; v < nodes; ++v) lists.add(l.job.nodes_begin + v, keys + at[v], keys + at[v + 1]);
}

}  // namespace

uint64_t bucket_memory(uint64_t count, uint64_t nodes, const RecordLayout& layout, bool wide,
                       const EdgeRules& rules) {
  const uint64_t node_bytes = nodes * 24;
  if (is_fast(layout, rules)) return node_bytes + count * (wide ? 8 : 4) + sort_lists_memory(count);
  if (rules.self_loops == SelfLoops::kAdd) count += nodes;
  const uint64_t per_record = 12 + layout.tail_bytes() + (wide ? 16 : 8) + 8 + 2 * layout.payload +
                              (layout.has_seq ? 24 : 0) + (rules.sort_by_id || rules.plain() ? 0 : 12);
  return node_bytes + count * per_record;
}

BucketResult sort_bucket(const BucketJob& job, const EdgeRules& rules, bool wide_indices, bool track_inputs) {
  BucketResult out;
  out.nodes_begin = job.nodes_begin;
  const RecordLayout& layout = job.edges->layout();
  const size_t id_bytes = wide_indices ? 8 : 4;
  if (is_fast(layout, rules)) {
    out.count = job.count();
    out.indices = Buffer(out.count * id_bytes);
    wide_indices ? fast_path<uint64_t>(job, rules, out) : fast_path<uint32_t>(job, rules, out);
    return out;
  }
  const Loaded l = load(job);
  const size_t nodes = job.nodes_end - job.nodes_begin;
  const size_t most = l.count + (rules.self_loops == SelfLoops::kAdd ? nodes : 0);
  out.degrees.assign(nodes, 0);
  out.indices = Buffer(most * id_bytes);
  if (layout.has_seq) out.edge_ids = Buffer(most * 8);
  out.payload = Buffer(most * layout.payload);
  if (track_inputs) {
    out.input_ids = Buffer(l.originals * 8);
    out.input_places = Buffer(l.originals * 8);
  }
  const bool wide_keys = wide_indices || job.others_end - 1 > UINT32_MAX;
  wide_keys ? general_path<WideKey>(l, rules, wide_indices, track_inputs, out)
            : general_path<NarrowKey>(l, rules, wide_indices, track_inputs, out);
  return out;
}

}  // namespace gz
