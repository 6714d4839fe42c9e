// Every structural rule of docs/format.md that needs the data, not only the header; what `gz verify` runs.
#pragma once

#include <string>

namespace gz {

// Throws FormatError naming the rule that failed and where. Reads the whole file, on all threads.
void verify_topology(const std::string& path);
void verify_feature(const std::string& path);

}  // namespace gz
