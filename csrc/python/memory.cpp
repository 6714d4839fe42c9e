// Bindings of the governor: what gz holds in memory, and what may be made ahead.
#include "memory/governor.h"
#include "memory/pool.h"
#include "python/bindings.h"

namespace gz {
namespace {

nb::dict memory_stats() {
  const MemoryStats s = without_gil([] { return governor::stats(); });
  nb::dict d;
  d["limit"] = s.limit;
  d["free"] = s.free;
  d["script_peak"] = s.script_peak;
  d["reserve"] = s.reserve;
  d["pages"] = s.pages;
  d["caches"] = s.caches;
  d["pool"] = s.pool;
  d["ahead"] = s.ahead;
  d["in_use"] = s.in_use;
  d["processes"] = s.processes;
  d["change"] = s.change;
  d["changed_ago"] = s.changed_ago;
  return d;
}

}  // namespace

void bind_memory(nb::module_& m) {
  governor::begin();
  m.def("memory_stats", &memory_stats, "What the governor sees and holds.");
  m.def("look_at_memory", released(&governor::look),
        "Has the governor look and decide now instead of in a moment.");
  m.def("free_memory", released(&governor::free_memory));
  m.def("memory_limit", released(&governor::memory_limit));
  // With the GIL held: they take a tenth of a microsecond, and a training thread that let the GIL go would
  // wait for the threads that it has just given work.
  m.def("room_ahead", &governor::room_ahead, nb::arg("bytes"), nb::arg("known"));
  m.def("change_ahead", &governor::change_ahead, nb::arg("wanted"), nb::arg("begun"), nb::arg("there"));
}

}  // namespace gz
