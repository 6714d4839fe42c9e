// The engine's own worker threads.
//
// Why not OpenMP: a libgomp parallel region in a forked child hangs for ever if the parent ever ran one, and
// PyTorch's DataLoader forks its workers. These threads are started on first use, and a forked child starts
// its own. They also let ThreadSanitizer see every hand-over, which libgomp hides.
//
// parallel_for() may be called from any number of threads at once, and from inside a parallel_for (then it
// runs serially). Results must not depend on which thread runs which chunk.
#pragma once

#include <cstddef>
#include <type_traits>

namespace gz {

// Threads a call may use, its caller included. Starts as the number of CPUs this process may run on.
int num_threads();
void set_num_threads(int n);  // throws std::invalid_argument unless 1 <= n <= 1024

namespace detail {
using ChunkFn = void (*)(void* context, size_t begin, size_t end);
void run_chunks(size_t items, size_t grain, ChunkFn fn, void* context);
}  // namespace detail

// Calls fn(begin, end) over [0, items) in chunks of at most `grain` items. The first exception is rethrown
// here once every running chunk has ended; chunks not yet begun are dropped.
template <class Fn>
void parallel_for(size_t items, size_t grain, Fn&& fn) {
  using Body = std::remove_reference_t<Fn>;
  detail::run_chunks(
      items, grain,
      [](void* context, size_t begin, size_t end) { (*static_cast<Body*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}

}  // namespace gz
