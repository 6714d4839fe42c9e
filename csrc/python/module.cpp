// The module: errors, threads, memory and reading; the other files bind the rest.
#include "base/error.h"
#include "base/hash.h"
#include "base/threads.h"
#include "python/bindings.h"
#include "read/device.h"
#include "read/extents.h"

namespace gz {
namespace {

struct PyReadChoice {
  const char* path;
  std::string why;
};

// Ctrl-C while the engine works: raises what the signal's handler raises.
void check_signals() {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// `with PageGuard():` around reads of mapped arrays in Python.
struct PyPageGuard {
  std::unique_ptr<PageGuard> guard;

  void enter() { guard = std::make_unique<PageGuard>(); }
  void exit(const nb::args&) {
    const std::unique_ptr<PageGuard> ended = std::move(guard);
    if (ended) ended->check();
  }
};

void bind_errors(nb::module_& m) {
  set_interrupt_check(check_signals);
  nb::exception<FormatError>(m, "FormatError", PyExc_ValueError).attr("__doc__") =
      "A file of a store is not what its format says: which file, which rule. `gz verify` looks at all.";
  nb::exception<InputError>(m, "InputError", PyExc_ValueError).attr("__doc__") =
      "What an ingest is given is wrong: the file, the line or row, and the value.";
  // OSError built from (errno, text, path) becomes FileNotFoundError, PermissionError, ... by itself.
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const IoError& e) {
      PyObject* args = Py_BuildValue("(iss)", e.code(), e.what(), e.path().c_str());
      if (args) {
        PyErr_SetObject(PyExc_OSError, args);
        Py_DECREF(args);
      }
    }
  });
}

void bind_base(nb::module_& m) {
  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads, "n"_a);
  m.def("pool_limit", &pool_limit, "What the pool of output buffers may keep, in bytes.");
  m.def("pool_bytes", &pool_bytes, "What it keeps now.");
  m.def(
      "empty", [](size_t bytes) { return to_numpy(PooledArray<uint8_t>(bytes)); }, "bytes"_a,
      "Uninitialised bytes from the pool of output buffers.");
  m.def(
      "tree_hash",
      [](const ReadOnlyArray& data) {
        return without_gil([&] { return tree_hash(data.data(), data.nbytes()); });
      },
      "data"_a);
}

void bind_read(nb::module_& m) {
  nb::class_<PyReadChoice>(m, "ReadChoice", "How rows that are not in memory are read, and why.")
      .def_ro("path", &PyReadChoice::path)
      .def_ro("why", &PyReadChoice::why);
  m.def("read_path", [] {
    if (only_mapping()) return PyReadChoice{"map", "GZ_IO=map"};
    const ReadChoice c = read_choice();
    return PyReadChoice{c.path == ReadPath::kRing ? "ring" : "threads", c.why};
  });
  nb::class_<PyPageGuard>(
      m, "PageGuard",
      "While entered: a page of a mapped file that this thread cannot read is an OSError when "
      "it is left, and no signal. What was read by then is worthless.")
      .def(nb::init<>())
      .def("__enter__", &PyPageGuard::enter)
      .def("__exit__", &PyPageGuard::exit);
  m.def("random_reads_per_second", released(&random_reads_per_second), "path"_a, "bytes"_a, "depth"_a,
        "threads"_a, "count"_a, "rng_seed"_a = 0, "What the disk under a file gives; for benchmarks.");
}

}  // namespace
}  // namespace gz

NB_MODULE(_engine, m) {
  using namespace gz;
  m.doc() = "gz's C++ engine. Use the package `gz`, not this module.";
  m.attr("bindings_hash") = GZ_BINDINGS_HASH;
  // Python itself leaves objects alive at exit: what a daemon thread holds, and the arguments of a spawned
  // process that has one (multiprocessing's resource sharer, in every DataLoader worker). A user would take
  // the lines for a memory leak; the tests turn them on to see that there is none.
  nb::set_leak_warnings(false);
  m.def("set_leak_warnings", &nb::set_leak_warnings, "value"_a,
        "Whether objects alive at exit are reported.");
  bind_errors(m);
  bind_base(m);
  bind_memory(m);
  bind_read(m);
  bind_column(m);
  bind_query(m);
  bind_sample(m);
  bind_layer(m);
  bind_build(m);
  bind_csv(m);
  bind_assign(m);
}
