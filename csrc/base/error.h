// The few kinds of failure the engine has. python/module.cpp maps each to one Python exception:
//   FormatError            -> gz.FormatError   a file breaks a rule of docs/format.md
//   IoError                -> OSError          the operating system said no (errno kept)
//   InputError             -> gz.InputError    text or arrays given to ingest are wrong
//   MemoryShortage         -> MemoryError      more memory asked for than there is (a std::bad_alloc)
//   std::out_of_range      -> IndexError       an id outside the graph
//   std::invalid_argument  -> ValueError       an argument that cannot be meant
// Messages say what, where, and what to do.
#pragma once

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

namespace gz {

class FormatError : public std::runtime_error {
 public:
  FormatError(const std::string& path, const std::string& rule) : std::runtime_error(path + ": " + rule) {}
};

class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class MemoryShortage : public std::bad_alloc {
 public:
  explicit MemoryShortage(const std::string& what) : what_(what) {}
  const char* what() const noexcept override { return what_.what(); }

 private:
  std::runtime_error what_;  // copies without throwing, as an exception must
};

class IoError : public std::runtime_error {
 public:
  IoError(int code, std::string path, const std::string& what)
      : std::runtime_error(what), code_(code), path_(std::move(path)) {}
  int code() const { return code_; }
  const std::string& path() const { return path_; }

 private:
  int code_;
  std::string path_;
};

}  // namespace gz
