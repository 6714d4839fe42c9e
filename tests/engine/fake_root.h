// A machine and its memory groups that are played, for the engine's test programs (GZ_SYSTEM_ROOT).
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace gz_test {

// A folder that stands in for /.
struct FakeRoot {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("gz_fake_root_" + std::to_string(getpid()));
  FakeRoot() { std::filesystem::create_directories(path); }
  ~FakeRoot() { std::filesystem::remove_all(path); }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path / name).parent_path());
    // By rename: a reader sees the old text or the new one.
    std::ofstream(path / "part") << text;
    std::filesystem::rename(path / "part", path / name);
  }
  void machine(uint64_t total, uint64_t available) const {
    write("proc/meminfo", "MemTotal: " + std::to_string(total >> 10) + " kB\nMemFree: 1 kB\nMemAvailable:  " +
                              std::to_string(available >> 10) + " kB\n");
  }
  void group(const std::string& name, const std::string& max, uint64_t current, uint64_t files) const {
    const std::string at = "sys/fs/cgroup" + name;
    write(at + "/memory.max", max + "\n");
    write(at + "/memory.current", std::to_string(current) + "\n");
    write(at + "/memory.stat", "anon 5\nactive_file " + std::to_string(files / 2) + "\ninactive_file " +
                                   std::to_string(files - files / 2) + "\nworkingset_refault_file 77\n");
  }
};

}  // namespace gz_test
