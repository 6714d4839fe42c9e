// How many CPUs this process may use: those it may run on, and no more than its cgroups give it time for.
#pragma once

#include <string>

namespace gz {

int usable_cpus();

// The least of the CPU quotas of the cgroups a process is in (v1 and v2), as a number of CPUs; 0 where there
// is none. `proc`: the process's folder in /proc.
double cpu_quota(const std::string& proc = "/proc/self");

}  // namespace gz
