#include "query/two_way.h"

#include <algorithm>
#include <vector>

#include "base/threads.h"
#include "read/check.h"

namespace gz {
namespace {

constexpr size_t kGrain = 1024;  // columns per task

struct Entry {
  int64_t row;
  size_t index;  // in forward, or forward.size + in backward
};

}  // namespace

TwoWayEdges two_way_edges(const EdgeList& there, const EdgeList& back, size_t num_rows, size_t num_cols) {
  const auto forward_row = checked_copy(there.row, there.size, num_rows, "row");
  const auto forward_col = checked_copy(there.col, there.size, num_cols, "column");
  const auto backward_col = checked_copy(back.col, back.size, num_rows, "row");
  const auto backward_row = checked_copy(back.row, back.size, num_cols, "column");
  const EdgeList forward{forward_row.data(), forward_col.data(), there.ids, there.size};
  const EdgeList backward{backward_row.data(), backward_col.data(), back.ids, back.size};
  // Counts are shifted twice: filling the columns then leaves their ends one place below.
  std::vector<size_t> ends(num_cols + 2, 0);
  for (size_t i = 0; i < forward.size; ++i) ++ends[forward.col[i] + 2];
  for (size_t i = 0; i < backward.size; ++i) ++ends[backward.row[i] + 2];
  for (size_t c = 0; c < num_cols; ++c) ends[c + 2] += ends[c + 1];
  PooledArray<Entry> entries(forward.size + backward.size);
  for (size_t i = 0; i < forward.size; ++i) entries[ends[forward.col[i] + 1]++] = {forward.row[i], i};
  for (size_t i = 0; i < backward.size; ++i)
    entries[ends[backward.row[i] + 1]++] = {backward.col[i], forward.size + i};
  // ends[c] is now where column c begins.
  std::vector<size_t> kept(num_cols + 1, 0);
  parallel_for(num_cols, kGrain, [&](size_t begin, size_t end) {
    for (size_t c = begin; c < end; ++c) {
      Entry *first = entries.data() + ends[c], *last = entries.data() + ends[c + 1];
      std::sort(first, last, [](const Entry& a, const Entry& b) {
        return a.row != b.row ? a.row < b.row : a.index < b.index;
      });
      last = std::unique(first, last, [](const Entry& a, const Entry& b) { return a.row == b.row; });
      kept[c + 1] = static_cast<size_t>(last - first);
    }
  });
  for (size_t c = 0; c < num_cols; ++c) kept[c + 1] += kept[c];
  const bool named = forward.ids && backward.ids;
  TwoWayEdges out{PooledArray<int64_t>(kept[num_cols]), PooledArray<int64_t>(kept[num_cols]),
                  PooledArray<int64_t>(named ? kept[num_cols] : 0)};
  parallel_for(num_cols, kGrain, [&](size_t begin, size_t end) {
    for (size_t c = begin; c < end; ++c)
      for (size_t at = kept[c], from = ends[c]; at < kept[c + 1]; ++at, ++from) {
        const Entry& e = entries[from];
        out.row[at] = e.row;
        out.col[at] = static_cast<int64_t>(c);
        if (named)
          out.ids[at] = e.index < forward.size ? forward.ids[e.index] : backward.ids[e.index - forward.size];
      }
  });
  return out;
}

}  // namespace gz
