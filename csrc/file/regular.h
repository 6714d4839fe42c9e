// Opening files that can be read at any place: not a directory, and nothing that one waits for.
#pragma once

#include <string>

namespace gz {

// A descriptor, closed on exec. `flags`: O_RDONLY or O_RDWR. Throws IoError for what is not there, may not be
// opened, or is no regular file (a FIFO, a socket, a device).
int open_regular(const std::string& path, int flags);

// Throws IoError: what could not be done, and errno's reason.
[[noreturn]] void cannot(int code, const std::string& path, const char* action);

}  // namespace gz
