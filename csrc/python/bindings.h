// Shared by the files of this folder, which are the only ones that include nanobind. They convert arguments
// and results, release the GIL and hold no logic. What the engine takes and returns as a struct is a class
// with the same fields in Python; arrays among them lie over the engine's memory and own it.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "column/topology.h"
#include "file/page_guard.h"
#include "memory/pool.h"
#include "pick/pick.h"
#include "query/induced.h"

namespace gz {

namespace nb = nanobind;
using namespace nb::literals;

// ---- arguments ----

template <class T>
using Array1 = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = Array1<int64_t>;
using AnyColumn = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ReadOnlyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using TopologyPtr = std::shared_ptr<Topology>;

// A struct of the engine that points into arrays, together with what keeps those alive.
template <class T>
struct Bound : T {
  std::vector<nb::ndarray<>> arrays = {};

  template <class Array>
  void keep(const std::optional<Array>& array) {
    if (array) arrays.emplace_back(*array);
  }
};

// The engine's own structs, without what keeps their memory alive: `bound` must outlive them.
template <class T>
std::vector<T> plain(const std::vector<Bound<T>>& bound) {
  return {bound.begin(), bound.end()};
}

// An array as the engine reads it, in one of the dtypes allowed; empty when there is none. In column.cpp.
Column column_from(const std::optional<AnyColumn>& array, std::initializer_list<DType> allowed,
                   const char* what);

// ---- calls ----

// How Python calls the engine: without the GIL, and with a page of a file that cannot be read as an OSError
// instead of a signal (page_guard.h).
template <class Fn>
auto without_gil(Fn&& fn) {
  const nb::gil_scoped_release release;
  return guarded(std::forward<Fn>(fn));
}

// A function or method of the engine that is called so.
template <class R, class... Args>
auto released(R (*fn)(Args...)) {
  return
      [fn](Args... args) -> R { return without_gil([&]() -> R { return fn(std::forward<Args>(args)...); }); };
}
template <class R, class T, class... Args>
auto released(R (T::*fn)(Args...)) {
  return [fn](T& self, Args... args) -> R {
    return without_gil([&]() -> R { return (self.*fn)(std::forward<Args>(args)...); });
  };
}
template <class R, class T, class... Args>
auto released(R (T::*fn)(Args...) const) {
  return [fn](const T& self, Args... args) -> R {
    return without_gil([&]() -> R { return (self.*fn)(std::forward<Args>(args)...); });
  };
}

// ---- results ----

template <class... T>
using Numpy = nb::ndarray<nb::numpy, T...>;
// A numpy array made once: reading a field of this type gives the same array every time.
template <class... T>
using Field = decltype(std::declval<Numpy<T...>>().cast());

// An array over memory of `owner`, which dies with it.
template <class T, class Owner>
Field<T> array_over(T* data, std::initializer_list<size_t> shape, Owner* owner) {
  nb::capsule capsule(owner, [](void* p) noexcept { delete static_cast<Owner*>(p); });
  return Numpy<T>(data, shape.size(), shape.begin(), capsule).cast();
}

// Engine memory handed to numpy; pooled memory goes back to the pool when the array dies.
template <class T>
Field<T> to_numpy(PooledArray<T>&& array, std::initializer_list<size_t> shape) {
  auto* owner = new PooledArray<T>(std::move(array));
  return array_over(owner->data(), shape, owner);
}

template <class T>
Field<T> to_numpy(PooledArray<T>&& array) {
  const size_t n = array.size();
  return to_numpy(std::move(array), {n});
}

// Edges among chosen nodes, a result of queries and of samplers. Bound in query.cpp.
struct PyInducedEdges {
  Field<int64_t> neighbour, frontier, rows;
};

inline PyInducedEdges to_python(InducedEdges&& edges) {
  return {to_numpy(std::move(edges.neighbour)), to_numpy(std::move(edges.frontier)),
          to_numpy(std::move(edges.rows))};
}

void bind_memory(nb::module_& m);  // each in the file of its name
void bind_column(nb::module_& m);
void bind_query(nb::module_& m);
void bind_sample(nb::module_& m);
void bind_layer(nb::module_& m);
void bind_build(nb::module_& m);
void bind_csv(nb::module_& m);
void bind_assign(nb::module_& m);

}  // namespace gz
