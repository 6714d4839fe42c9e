#include "base/cpus.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/system.h"

namespace gz {
namespace {

struct Group {
  std::string hierarchy;  // "" for v2, else the v1 controllers it is for: "cpu,cpuacct"
  std::string path;
};

struct Mount {
  std::string root, at, type, options;
};

bool has(const std::string& list, const std::string& name) {
  return ("," + list + ",").find("," + name + ",") != std::string::npos;
}

// Lines "4:cpu,cpuacct:/path"; v2 is "0::/path".
std::vector<Group> groups_of(const std::string& proc) {
  std::vector<Group> out;
  std::ifstream file(proc + "/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    Group g{line.substr(first + 1, second - first - 1), line.substr(second + 1)};
    if (g.hierarchy.empty() || has(g.hierarchy, "cpu")) out.push_back(std::move(g));
  }
  return out;
}

// Lines "36 35 98:0 /root /mount/point opts shared:1 - cgroup2 source options".
std::vector<Mount> cgroup_mounts(const std::string& proc) {
  std::vector<Mount> out;
  std::ifstream file(proc + "/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    Mount m;
    std::string ignored;
    std::istringstream(line) >> ignored >> ignored >> ignored >> m.root >> m.at;
    std::istringstream(line.substr(dash + 3)) >> m.type >> ignored >> m.options;
    if (m.type == "cgroup2" || (m.type == "cgroup" && has(m.options, "cpu"))) out.push_back(std::move(m));
  }
  return out;
}

// The quota written in one group's folder, as CPUs; infinite where none is.
double quota_in(const std::string& folder, bool v2) {
  double quota = -1, period = 0;
  if (v2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;  // "max 100000" sets neither
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : HUGE_VAL;
}

}  // namespace

double cpu_quota(const std::string& proc) {
  double least = HUGE_VAL;
  const auto mounts = cgroup_mounts(proc);
  for (const Group& group : groups_of(proc)) {
    const bool v2 = group.hierarchy.empty();
    for (const Mount& mount : mounts) {
      if ((mount.type == "cgroup2") != v2) continue;
      // A container may see its own group as the root of the mount, and itself by the path of the host.
      std::string below = group.path;
      if (mount.root != "/")
        below = (below + "/").starts_with(mount.root + "/") ? below.substr(mount.root.size()) : "";
      for (;; below.resize(below.rfind('/'))) {
        if (!below.empty() && below.back() == '/') below.pop_back();
        least = std::min(least, quota_in(mount.at + below, v2));
        if (below.find('/') == std::string::npos) break;
      }
    }
  }
  return std::isinf(least) ? 0 : least;
}

int usable_cpus() {
  int cpus = system::allowed_cpus();
  // Rounded up: a thread more than there is time for costs less than time that no thread uses.
  if (const double quota = cpu_quota(); quota > 0 && quota < cpus) cpus = static_cast<int>(std::ceil(quota));
  return std::max(1, cpus);
}

}  // namespace gz
