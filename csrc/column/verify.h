// Every structural rule of docs/format.md that needs the data, not only the header; what `gz verify` runs.
#pragma once

#include <string>

namespace gz {

// Throw FormatError naming the rule that failed and where. They read whole files, on all threads, and hold a
// few bits for each edge id, or a quarter of the free memory and more passes.
// `opened`: as in Mapping::open.
void verify_topology(const std::string& path, int opened = -1);
void verify_feature(const std::string& path, int opened = -1);

// That an `out` topology holds the edges of the `in` topology beside it, under the rows they have there.
void verify_pair(const std::string& in_path, const std::string& out_path, int in_opened = -1,
                 int out_opened = -1);

}  // namespace gz
