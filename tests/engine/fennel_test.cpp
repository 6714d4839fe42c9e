// Nodes assigned to parts as they stream by, for the sanitizers: every node has a part, no part has too much,
// and bad input is an exception. Behaviour is tested in Python (tests/engine/test_fennel.py).
#include "assign/fennel.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "checks.h"

namespace {

using namespace gz;
using gz_test::check_throws;

struct Stream {
  std::vector<uint8_t> classes;
  std::vector<int64_t> edges, indptr{0}, neighbours;

  explicit Stream(size_t nodes) {
    for (size_t v = 0; v < nodes; ++v) {
      classes.push_back(v % 10 == 0);
      for (uint64_t i = 0; i < mix64(v) % 7; ++i)
        neighbours.push_back(static_cast<int64_t>(mix64(v * 31 + i) % nodes));
      edges.push_back(static_cast<int64_t>(neighbours.size()) - indptr.back());
      indptr.push_back(static_cast<int64_t>(neighbours.size()));
    }
  }

  StreamNodes all() const {
    return {0, classes.size(), classes.data(), edges.data(), indptr.data(), neighbours.data()};
  }
};

void test_every_node_has_a_part_and_no_part_too_much() {
  const size_t nodes = 1000, parts = 4;
  const Stream s(nodes);
  Fennel fennel(parts, {900, 100}, static_cast<int64_t>(s.neighbours.size()), 3.0, 1.1);
  std::vector<uint16_t> table(nodes, kNoPart);
  for (int sweep = 0; sweep < 3; ++sweep) fennel.add(s.all(), table.data(), nodes);
  CHECK(*std::max_element(table.begin(), table.end()) < parts);
  for (uint16_t p = 0; p < parts; ++p) {
    size_t chosen = 0;
    for (size_t v = 0; v < nodes; ++v) chosen += table[v] == p && s.classes[v] == 1;
    CHECK(chosen <= 28);
  }
}

void test_bad_input_is_an_exception() {
  check_throws<std::invalid_argument>([] { Fennel(0, {1}, 0, 1, 1); });
  check_throws<std::invalid_argument>([] { Fennel(kNoPart, {1}, 0, 1, 1); });
  Stream s(10);
  std::vector<uint16_t> table(10, kNoPart);
  Fennel fennel(2, {9, 1}, 0, 1, 1);
  s.neighbours.push_back(10);
  ++s.indptr.back();
  check_throws<std::out_of_range>([&] { fennel.add(s.all(), table.data(), 10); });
  check_throws<std::out_of_range>([&] { fennel.add(s.all(), table.data(), 9); });
  Stream other(10);
  other.classes[3] = 2;
  check_throws<std::out_of_range>([&] { fennel.add(other.all(), table.data(), 10); });
}

}  // namespace

int main() {
  test_every_node_has_a_part_and_no_part_too_much();
  test_bad_input_is_an_exception();
}
