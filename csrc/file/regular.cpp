#include "file/regular.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gz {

int open_regular(const std::string& path, int flags) {
  // Without O_NONBLOCK, opening a FIFO waits for someone to open its other end.
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK);
  // A FIFO or a socket opened for writing is refused at once.
  if (fd < 0 && errno != ENXIO) cannot(errno, path, "open");
  struct stat st{};
  int code = EINVAL;
  if (fd >= 0) {
    if (::fstat(fd, &st) != 0) code = errno;
    // Reads that would wait are to wait.
    if (S_ISREG(st.st_mode) && ::fcntl(fd, F_SETFL, flags) == 0) return fd;
    if (S_ISDIR(st.st_mode)) code = EISDIR;
    ::close(fd);
  }
  throw IoError(code, path,
                code == EISDIR
                    ? "is a directory, not a file"
                    : "is not a regular file: a FIFO, a socket or a device cannot be read at any place");
}

void cannot(int code, const std::string& path, const char* action) {
  throw IoError(code, path, std::string("cannot ") + action + ": " + std::strerror(code));
}

}  // namespace gz
