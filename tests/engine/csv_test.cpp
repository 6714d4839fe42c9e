// The text parser without Python, for the sanitizers: tables whose lines are shorter than one would guess,
// text that is not UTF-8, and the memory that parsing threads take.
#include "csv/csv.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "base/threads.h"
#include "build/builder.h"
#include "checks.h"
#include "csv/csv_fields.h"
#include "csv/csv_source.h"

namespace {

using namespace gz;

CsvFormat edges(size_t num_fields) {
  CsvFormat f;
  f.num_fields = num_fields;
  f.keys = {0, 1};
  return f;
}

std::vector<CsvRows> parse(const CsvFormat& format, const std::string& text, size_t piece = 1 << 20) {
  CsvSource source("t.csv", format, 0, piece);
  std::vector<CsvRows> rows;
  source.text_to(rows, text.data(), text.size());
  return rows;
}

uint64_t key(const CsvRows& r, size_t k, size_t i) {
  return r.wide ? r.keys[k].as<uint64_t>()[i] : r.keys[k].as<uint32_t>()[i];
}

void test_empty_fields_take_no_characters() {
  for (size_t extra : {0u, 1u, 3u, 8u, 40u})
    for (size_t count : {1u, 1000u, 20000u}) {
      Rng rng(extra);
      std::vector<uint64_t> expected;
      std::string text;
      for (size_t i = 0; i < count; ++i) {
        // One id in the middle of the table makes all of them wide.
        expected.push_back(i == count / 2 ? uint64_t{1} << 40 : rng.below(10));
        expected.push_back(rng.below(10));
        text += std::to_string(expected[2 * i]) + "," + std::to_string(expected[2 * i + 1]) +
                std::string(extra, ',') + "\n";
      }
      size_t at = 0;
      for (const CsvRows& r : parse(edges(2 + extra), text))
        for (size_t i = 0; i < r.count; ++i) {
          CHECK(key(r, 0, i) == expected[at++]);
          CHECK(key(r, 1, i) == expected[at++]);
        }
      CHECK(at == expected.size());
    }
}

void test_a_table_of_empty_cells_is_nan() {
  for (size_t columns : {2u, 4u, 33u}) {
    CsvFormat f;
    f.num_fields = columns;
    for (size_t c = 0; c < columns; ++c)
      f.values.push_back({.field = c, .dtype = DType::kFloat32, .offset = 4 * c, .empty_is_nan = true});
    f.payload = 4 * columns;
    std::string text;
    for (int i = 0; i < 5000; ++i) text += std::string(columns - 1, ',') + "\n";
    size_t seen = 0;
    for (const CsvRows& r : parse(f, text)) {
      for (size_t i = 0; i < r.count * columns; ++i) CHECK(std::isnan(r.payload.as<float>()[i]));
      seen += r.count;
    }
    CHECK(seen == 5000);
  }
}

std::string problem_of(const CsvFormat& f, const std::string& text) {
  try {
    parse(f, text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

void test_what_cannot_be_meant_names_its_line() {
  const auto line_2 = [](const std::string& message) { return message.starts_with("t.csv, line 2: "); };
  for (bool text_keys : {false, true}) {
    CsvFormat f = edges(2);
    f.text_keys = text_keys;
    for (const char* bad : {"\"1\"2,3\n", "1,\"2\" 3\n", "1,\"2\n", "\"1,2\n"})
      CHECK(line_2(problem_of(f, std::string("1,2\n") + bad)));
    for (const char* good : {"\"1\" ,3\n", "\"1\",\"3\"\n", " \"1\",3\n"}) CHECK(problem_of(f, good).empty());
  }
  CsvFormat names = edges(2);
  names.text_keys = true;
  for (const char* bad :
       {"a,\xff\n", "a,b\xc3\n", "a,\xed\xa0\x80\n", "a,\xc0\xaf\n", "a,\xf5\x80\x80\x80\n"}) {
    const std::string message = problem_of(names, std::string("a,b\n") + bad);
    CHECK(line_2(message) && is_utf8(message) && message.find("UTF-8") != std::string::npos);
  }
  CHECK(problem_of(names, "caf\xc3\xa9,\xe2\x82\xac\xf0\x9f\x98\x80\n").empty());
  // Messages are text whatever they quote, and wherever they cut it.
  for (size_t n = 50; n < 64; ++n) {
    const std::string message = problem_of(edges(2), "1,2\n" + std::string(n, 'a') + "\xe2\x82\xac\xff,2\n");
    CHECK(line_2(message) && is_utf8(message));
  }
}

void test_a_field_that_is_not_there_is_refused() {
  for (size_t field : {size_t{2}, SIZE_MAX}) {
    CsvFormat key_there = edges(2), value_there = edges(2);
    key_there.keys[1] = field;
    value_there.values.push_back({.field = field, .dtype = DType::kInt8, .offset = 0});
    for (const CsvFormat& f : {key_there, value_there}) {
      bool refused = false;
      try {
        CsvSource("t.csv", f, 0, 100);
      } catch (const std::invalid_argument&) {
        refused = true;
      }
      CHECK(refused);
    }
  }
}

void test_lines_longer_than_a_piece_are_counted_once() {
  const std::string path = "/tmp/gz_csv_test_" + std::to_string(getpid());
  const std::string blanks(300 << 10, ' ');
  {
    std::ofstream f(path, std::ios::binary);
    f << "1,2\n# " << blanks << "\n3," << blanks << "4\n5,6\n";
  }
  const int fd = open(path.c_str(), O_RDONLY);
  CHECK(fd >= 0);
  for (size_t piece : {1u << 10, 100u << 10, 256u << 10, 1u << 20}) {
    CsvSource source(path, edges(2), 0, piece);
    source.open_file(fd, 0);
    std::vector<uint64_t> seen;
    std::vector<CsvRows> rows;
    for (bool more = true; more;) {
      more = source.file_to(rows);
      for (const CsvRows& r : rows)
        for (size_t i = 0; i < r.count; ++i) seen.insert(seen.end(), {key(r, 0, i), key(r, 1, i)});
    }
    CHECK(seen == (std::vector<uint64_t>{1, 2, 3, 4, 5, 6}));
    CHECK(source.lines() == 4);
  }
  close(fd);
  unlink(path.c_str());
}

// A file is read a little at a time, so a line may lie across any two reads and any two pieces.
void test_a_file_gives_the_rows_of_its_text() {
  const std::string path = "/tmp/gz_csv_test_" + std::to_string(getpid());
  Rng rng(7);
  std::string text;
  std::vector<uint64_t> expected;
  size_t lines = 0;
  for (; text.size() < (900u << 10); ++lines) {
    if (rng.below(50) == 0) {
      text += "# " + std::string(rng.below(3000), 'x') + "\n";
      continue;
    }
    const uint64_t a = rng.below(uint64_t{1} << (1 + rng.below(31))), b = rng.below(100);
    text += std::to_string(a) + "," + std::to_string(b) + (rng.below(9) ? "\n" : "\r\n");
    expected.insert(expected.end(), {a, b});
  }
  text += "8,9";  // and no newline
  expected.insert(expected.end(), {8, 9});
  std::ofstream(path, std::ios::binary) << text;
  const int fd = open(path.c_str(), O_RDONLY);
  CHECK(fd >= 0);
  for (size_t piece : {5000u, 1u << 14, 128u << 10, (128u << 10) - 255, 300'001u, 4u << 20}) {
    CsvSource source(path, edges(2), 0, piece);
    source.open_file(fd, 0);
    std::vector<uint64_t> seen;
    std::vector<CsvRows> rows;
    for (bool more = true; more;) {
      more = source.file_to(rows);
      for (const CsvRows& r : rows)
        for (size_t i = 0; i < r.count; ++i) seen.insert(seen.end(), {key(r, 0, i), key(r, 1, i)});
    }
    CHECK(seen == expected);
    CHECK(source.lines() == lines + 1);
  }
  std::ofstream(path, std::ios::binary) << text << ",10\n";
  CsvSource source(path, edges(2), 0, 300'001);
  source.open_file(fd, 0);
  std::string message;
  std::vector<CsvRows> rows;
  try {
    while (source.file_to(rows)) {
    }
  } catch (const InputError& e) {
    message = e.what();
  }
  CHECK(message.find("line " + std::to_string(lines + 1) + ": has 3 fields") != std::string::npos);
  close(fd);
  unlink(path.c_str());
}

size_t resident_bytes() {
  size_t pages = 0, ignored = 0;
  std::ifstream("/proc/self/statm") >> ignored >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void test_parsing_threads_give_their_memory_back() {
  std::string text;
  while (text.size() < (32u << 20)) text += "1,2\n";
  const auto run = [&] {
    CsvSource source("t.csv", edges(2), 0, 8 << 20);
    Builder builder({.directory = "/tmp", .memory = 64 << 20});
    source.text_to(builder, text.data(), text.size());
    CHECK(builder.num_input_edges() == text.size() / 4);
  };
  parallel_for(64, 1, [](size_t, size_t) { std::vector<char>(4096).at(0) = 1; });  // threads, their arenas
  const size_t before = resident_bytes();
  for (int i = 0; i < 2; ++i) run();
  // Four threads with 8 MiB of text and 16 MiB of ids each would be 96 MiB.
  CHECK(resident_bytes() < before + (32 << 20));
}

}  // namespace

int main() {
  set_num_threads(4);
  test_empty_fields_take_no_characters();
  test_a_table_of_empty_cells_is_nan();
  test_what_cannot_be_meant_names_its_line();
  test_a_field_that_is_not_there_is_refused();
  test_lines_longer_than_a_piece_are_counted_once();
  test_a_file_gives_the_rows_of_its_text();
  test_parsing_threads_give_their_memory_back();
  std::puts("csv_test: all passed");
}
