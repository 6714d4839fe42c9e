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
#include <mutex>
#include <type_traits>

namespace gz {

// Threads a call may use, its caller included. Starts as usable_cpus().
int num_threads();
void set_num_threads(int n);  // throws std::invalid_argument unless 1 <= n <= 1024

namespace detail {
// A number of each thread that the workers who help it have too, for as long as they do. page_guard.h counts
// with it, and reads it in a signal handler, where memory for it could not be made: hence the static block.
extern constinit thread_local int inherited __attribute__((tls_model("initial-exec")));

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

// ---- fork ----

// One lock that a fork never leaves held in the child: it is taken around fork itself. For short critical
// sections that any thread may be in while another forks, as DataLoader does.
std::mutex& fork_mutex();

// ---- Ctrl-C ----
//
// How a call that lasts is ended from outside. Loops that may run for more than a moment call poll().
// parallel_for() does so between its chunks, so that only what is long inside of one chunk needs to.

// Called by poll() on the main thread, where signals are handled, every now and then (200 ms). It ends the
// call by throwing.
using InterruptCheck = void (*)();
void set_interrupt_check(InterruptCheck check);

// Takes some 25 ns: call it every few thousand steps of a tight loop. Never with a lock held: the check may
// wait for other threads.
void poll();

}  // namespace gz
