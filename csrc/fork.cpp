#include "fork.h"

#include <pthread.h>

namespace gz {

std::mutex& fork_mutex() {
  static std::mutex* mutex = [] {
    // Never destroyed: threads may still be running when static destructors do.
    pthread_atfork([] { fork_mutex().lock(); }, [] { fork_mutex().unlock(); }, [] { fork_mutex().unlock(); });
    return new std::mutex;
  }();
  return *mutex;
}

}  // namespace gz
