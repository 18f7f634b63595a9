// SPDX-License-Identifier: Apache-2.0
// NumPy arrays as views and back: dtype, layout and shape rules, and their messages. The GIL is held here.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.hpp"
#include "base/view.hpp"

namespace mtboost {

namespace py = pybind11;

template <typename T>
using Contiguous = py::array_t<T, py::array::c_style>;  // with py::arg().noconvert(): never a silent copy

template <typename T>
std::span<const T> as_span(const Contiguous<T>& array, const char* name) {
  require(array.ndim() == 1, std::string(name) + " must have one dimension, found " + std::to_string(array.ndim()));
  return {array.data(), static_cast<std::size_t>(array.size())};
}

template <typename T>
std::vector<T> as_vector(const Contiguous<T>& array, const char* name) {
  const auto span = as_span(array, name);
  return {span.begin(), span.end()};
}

// Any strides, no copy.
template <typename T>
MatrixView<T> as_matrix(const py::array_t<T>& array, const char* name) {
  require(array.ndim() == 2, std::string(name) + " must have two dimensions, found " + std::to_string(array.ndim()));
  constexpr auto kSize = static_cast<py::ssize_t>(sizeof(T));
  require(array.strides(0) % kSize == 0 && array.strides(1) % kSize == 0, std::string(name) + " has unaligned strides");
  return {array.data(), static_cast<std::size_t>(array.shape(0)), static_cast<std::size_t>(array.shape(1)),
          array.strides(0) / kSize, array.strides(1) / kSize};
}

// Hands a vector's memory to NumPy without copying it.
template <typename T, typename Allocator>
py::array_t<T> to_array(std::vector<T, Allocator> values) {
  using Vector = std::vector<T, Allocator>;
  auto owner = std::make_unique<Vector>(std::move(values));
  auto* const data = owner.get();
  py::capsule capsule(data, [](void* pointer) { delete static_cast<Vector*>(pointer); });
  owner.release();
  return py::array_t<T>(static_cast<py::ssize_t>(data->size()), data->data(), capsule);
}

}  // namespace mtboost
