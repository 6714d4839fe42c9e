// What the engine's test programs share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/rng.h"

#define CHECK(condition)                                                   \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

namespace gz_test {

template <class Error, class Fn>
void check_throws(Fn&& fn) {
  try {
    fn();
  } catch (const Error&) {
    return;
  }
  std::fprintf(stderr, "expected an exception\n");
  std::exit(1);
}

// Of arrays of the engine: whether they hold the same.
template <class Array>
bool same(const Array& a, const Array& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

// A row's bytes follow from its number. Made eight at a time: under the sanitizers every step counts.
inline std::vector<char> row_of(uint64_t row, size_t bytes) {
  std::vector<uint64_t> words((bytes + 7) / 8);
  for (size_t i = 0; i < words.size(); ++i) words[i] = gz::mix64(row * 1000003 + i);
  std::vector<char> out(bytes);
  std::memcpy(out.data(), words.data(), bytes);
  return out;
}

}  // namespace gz_test
