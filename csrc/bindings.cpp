#include "bindings.h"

#include "error.h"
#include "threads.h"

namespace gz {
namespace {

void bind_errors(nb::module_& m) {
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
  nb::exception<FormatError>(m, "FormatError", PyExc_ValueError);
  nb::exception<InputError>(m, "InputError", PyExc_ValueError);
}

}  // namespace
}  // namespace gz

NB_MODULE(_engine, m) {
  using namespace gz;
  m.doc() = "gz's C++ engine. Use the package `gz`, not this module.";
  bind_errors(m);
  m.def("num_threads", &num_threads);
  m.def("set_num_threads", &set_num_threads, nb::arg("n"));
  bind_ingest(m);
}
