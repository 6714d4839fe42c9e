// How much memory there is, and the refusal of what is more than that.
//
// Sizes come from callers (a fanout, the length of a walk), and the kernel grants any of them: memory is only
// found to be missing when it is touched, and then the process is killed. So what may be large is asked for
// here first.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gz {

// Bytes that can be taken now: of the machine, or what the cgroups of this process leave. Page cache, which
// the kernel gives up, counts as free, and so does swap. The folders are parameters for the tests.
uint64_t available_memory(const std::string& proc = "/proc", const std::string& cgroups = "/sys/fs/cgroup");

inline constexpr uint64_t kNotAsked = uint64_t{64} << 20;  // looking costs as much as filling so much

namespace detail {
void require_large(uint64_t count, uint64_t bytes_each, const char* what);
}

// Throws MemoryShortage where count x bytes_each is more than there is. Below kNotAsked it does not look.
inline void require_memory(uint64_t count, uint64_t bytes_each, const char* what) {
  if (count > kNotAsked / bytes_each) [[unlikely]]
    detail::require_large(count, bytes_each, what);
}

// The same for what a call takes piece by piece, from any of its threads.
class MemoryClaim {
 public:
  explicit MemoryClaim(const char* what) : what_(what) {}
  void add(uint64_t count, uint64_t bytes_each);

 private:
  const char* what_;
  std::atomic<uint64_t> taken_{0};
  std::atomic<uint64_t> room_{0};  // found out when it is first needed
};

}  // namespace gz
