// Shared by the bindings*.cpp files, which are the only ones that include nanobind. They convert arguments
// and results, release the GIL and hold no logic.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <memory>
#include <utility>

#include "pool.h"

namespace gz {

namespace nb = nanobind;

template <class T>
using Array1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using NumpyArray = nb::ndarray<nb::numpy, T>;

// A capsule that keeps `owner` alive as long as an array over its memory lives.
template <class T>
nb::capsule keep_alive(std::shared_ptr<T> owner) {
  return nb::capsule(new std::shared_ptr<T>(std::move(owner)),
                     [](void* p) noexcept { delete static_cast<std::shared_ptr<T>*>(p); });
}

// Engine memory handed to numpy, which gives it back to the pool.
template <class T>
NumpyArray<T> to_numpy(PooledArray<T>&& array, std::initializer_list<size_t> shape) {
  auto* owner = new PooledArray<T>(std::move(array));
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<PooledArray<T>*>(p); });
  return NumpyArray<T>(owner->data(), shape.size(), shape.begin(), capsule);
}

template <class T>
NumpyArray<T> to_numpy(PooledArray<T>&& array) {
  const size_t n = array.size();
  return to_numpy(std::move(array), {n});
}

void bind_ingest(nb::module_& m);  // bindings_ingest.cpp
void bind_pyg(nb::module_& m);     // bindings_pyg.cpp
void bind_dgl(nb::module_& m);     // bindings_dgl.cpp

}  // namespace gz
