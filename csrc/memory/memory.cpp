#include "memory/memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <sstream>

#include "base/error.h"

namespace gz {
namespace {

constexpr uint64_t kUnknown = uint64_t{1} << 62;  // more than any machine has

// The sum of the named fields of a file of "name value" lines; nothing where none is there.
std::optional<uint64_t> fields(const std::string& path, std::initializer_list<const char*> names) {
  std::ifstream in(path);
  std::optional<uint64_t> sum;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (!(words >> name >> value)) continue;
    for (const char* wanted : names)
      if (name == wanted) sum = sum.value_or(0) + value;
  }
  return sum;
}

// A file of one number; nothing where it is missing or says "max".
std::optional<uint64_t> number(const std::string& path) {
  std::ifstream in(path);
  uint64_t value = 0;
  if (!(in >> value)) return {};
  return value;
}

uint64_t less(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

// What the group in `folder` leaves; version 2 and version 1 name their files differently.
uint64_t left_by(const std::string& folder, bool v2, uint64_t swap) {
  const auto limit = number(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  const auto used = number(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  if (!limit || !used) return kUnknown;
  const auto cached = v2 ? fields(folder + "/memory.stat", {"active_file", "inactive_file"})
                         : fields(folder + "/memory.stat", {"total_active_file", "total_inactive_file"});
  const auto swap_limit = number(folder + "/memory.swap.max");
  if (v2 && swap_limit)
    swap = std::min(swap, less(*swap_limit, number(folder + "/memory.swap.current").value_or(0)));
  return less(std::min(*limit, kUnknown) + cached.value_or(0) + (v2 ? swap : 0), *used);
}

std::string in_words(double bytes) {
  static constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", bytes, kUnits[unit]);
  return text;
}

[[noreturn]] void refuse(const char* what, double needed, uint64_t room) {
  throw MemoryShortage(std::string(what) + " would take " + in_words(needed) + " of memory, and " +
                       in_words(static_cast<double>(room)) + " are free");
}

double product(uint64_t count, uint64_t each) {
  return static_cast<double>(count) * static_cast<double>(each);
}

}  // namespace

uint64_t available_memory(const std::string& proc, const std::string& cgroups) {
  const std::string meminfo = proc + "/meminfo";
  const uint64_t swap = fields(meminfo, {"SwapFree:"}).value_or(0) * 1024;
  const auto free = fields(meminfo, {"MemAvailable:"});
  uint64_t least = free ? *free * 1024 + swap : kUnknown;
  std::ifstream in(proc + "/self/cgroup");
  for (std::string line; std::getline(in, line);) {  // number:controllers:path
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",memory,") == std::string::npos) continue;
    const std::string root = v2 ? cgroups : cgroups + "/memory";
    // The group and those it lies in, outermost last.
    for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
      while (!path.empty() && path.back() == '/') path.pop_back();
      least = std::min(least, left_by(root + path, v2, swap));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

void detail::require_large(uint64_t count, uint64_t bytes_each, const char* what) {
  uint64_t bytes;
  const bool overflow = __builtin_mul_overflow(count, bytes_each, &bytes);
  const uint64_t room = available_memory();
  if (overflow || bytes > room) refuse(what, product(count, bytes_each), room);
}

void MemoryClaim::add(uint64_t count, uint64_t bytes_each) {
  uint64_t bytes;
  const bool overflow = __builtin_mul_overflow(count, bytes_each, &bytes) || bytes > kUnknown;
  const uint64_t taken = overflow ? kUnknown : taken_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (taken < kNotAsked) return;
  uint64_t room = room_.load(std::memory_order_relaxed);
  if (room == 0) room_.store(room = std::max<uint64_t>(1, available_memory()), std::memory_order_relaxed);
  if (taken > room || overflow)
    refuse(what_, overflow ? product(count, bytes_each) : static_cast<double>(taken), room);
}

}  // namespace gz
