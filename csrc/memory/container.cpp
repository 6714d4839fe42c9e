#include "memory/container.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <optional>
#include <string_view>

namespace gz {
namespace {

// A process may be moved to another group, and a limit may be set late.
constexpr int64_t kLookAgainAfter = 2;
// A limit of v1 that is none is a huge number.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

// A small file as a whole; empty where there is none.
std::string text_of(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text(16 << 10, '\0');
  size_t size = 0;
  for (;;) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
    if (size == text.size()) text.resize(size * 2);
  }
  ::close(fd);
  text.resize(size);
  return text;
}

std::optional<uint64_t> leading_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return value;
}

std::optional<uint64_t> number_in(const std::string& path) {
  return leading_number(text_of(path));
}

// The number behind `key` at the start of a line.
std::optional<uint64_t> value_of(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (line.empty() || (line[0] != ' ' && line[0] != ':')) continue;
    line.remove_prefix(std::min(line.find_first_of("0123456789"), line.size()));
    return leading_number(line);
  }
  return std::nullopt;
}

// A line of /proc/meminfo in bytes; more than any machine has where it is not told.
uint64_t kib(std::string_view meminfo, std::string_view field) {
  const auto value = value_of(meminfo, field);
  return value ? *value * 1024 : kNoLimit;
}

// "full avg10=0.00 avg60=0.00 avg300=0.00 total=1234": the total, in microseconds.
uint64_t stalled(std::string_view pressure) {
  size_t at = pressure.find("full ");
  if (at == pressure.npos) return 0;
  at = pressure.find("total=", at);
  return at == pressure.npos ? 0 : leading_number(pressure.substr(at + 6)).value_or(0);
}

bool lists(std::string_view names, std::string_view name) {  // "cpu,memory"
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    if (names.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

int64_t seconds() {
  using namespace std::chrono;
  return duration_cast<std::chrono::seconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

struct Container::Names {
  const char *limit, *usage, *active, *inactive, *refaults, *pressure;
};
const Container::Names Container::kV1 = {
    "/memory.limit_in_bytes", "/memory.usage_in_bytes",        "total_active_file",
    "total_inactive_file",    "total_workingset_refault_file", "/memory.pressure"};
const Container::Names Container::kV2 = {"/memory.max",   "/memory.current",         "active_file",
                                         "inactive_file", "workingset_refault_file", "/memory.pressure"};

Container::Container(std::string root) : root_(std::move(root)) {}

MemoryReading Container::read() {
  if (seconds() - found_at_ >= kLookAgainAfter) find_levels();
  const std::string machine = text_of(root_ + "/proc/meminfo");
  MemoryReading least{.limit = kib(machine, "MemTotal"), .free = kib(machine, "MemAvailable")};
  for (const Level& level : levels_) {
    MemoryReading r;
    if (read_level(level, r) && r.free <= least.free) least = r;
  }
  if (least.scope == 0) {
    least.stalled_us = stalled(text_of(root_ + "/proc/pressure/memory"));
    least.refaults = value_of(text_of(root_ + "/proc/vmstat"), "workingset_refault_file").value_or(0);
  }
  return least;
}

uint64_t Container::limit() {
  find_levels();
  uint64_t least = kib(text_of(root_ + "/proc/meminfo"), "MemTotal");
  for (const Level& level : levels_)
    least = std::min(least, number_in(level.folder + level.names->limit).value_or(kNoLimit));
  return least;
}

// The groups of this process, innermost first. Inside a container the path that /proc tells may be that of
// the host, which is not there; then only what is mounted is found, which is the container's own group.
void Container::find_levels() {
  levels_.clear();
  found_at_ = seconds();
  const std::string groups = text_of(root_ + "/proc/self/cgroup");
  for (size_t at = 0; at < groups.size();) {
    const size_t end = std::min(groups.find('\n', at), groups.size());
    const std::string_view line(groups.data() + at, end - at);  // "4:cpu,memory:/a/b"
    at = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !lists(controllers, "memory")) continue;
    const std::string top = root_ + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::string name(line.substr(second + 1));
    for (;;) {
      while (!name.empty() && name.back() == '/') name.pop_back();
      const Level level{.folder = top + name, .names = v2 ? &kV2 : &kV1, .scope = 0};
      struct stat st;
      const auto limit = number_in(level.folder + level.names->limit);
      if (limit && *limit < kNoLimit && ::stat(level.folder.c_str(), &st) == 0)
        levels_.push_back({level.folder, level.names, static_cast<uint64_t>(st.st_ino)});
      if (name.empty()) break;
      name.resize(name.rfind('/') == name.npos ? 0 : name.rfind('/'));
    }
  }
}

bool Container::read_level(const Level& level, MemoryReading& out) const {
  const auto limit = number_in(level.folder + level.names->limit);
  const auto usage = number_in(level.folder + level.names->usage);
  if (!limit || !usage) return false;
  const std::string stat = text_of(level.folder + "/memory.stat");
  const uint64_t files =
      value_of(stat, level.names->active).value_or(0) + value_of(stat, level.names->inactive).value_or(0);
  out.limit = *limit;
  // Counters of one group are read one after the other and need not agree.
  const uint64_t taken = *usage - std::min(*usage, files);
  out.free = *limit - std::min(*limit, taken);
  out.scope = level.scope;
  out.refaults = value_of(stat, level.names->refaults).value_or(0);
  out.stalled_us = stalled(text_of(level.folder + level.names->pressure));
  return true;
}

}  // namespace gz
