// SPDX-License-Identifier: Apache-2.0
// Universal Binary JSON (ubjson.org, draft 12), the subset that XGBoost writes its models in, to and from objects of
// Python: a model has a dozen arrays for each of its trees, thousands of them. Arrays of numbers are ndarrays.
// A value is a mark and its content; numbers are big-endian:
//   text          'S' and the length and the bytes; a key has no 'S'
//   object        '{', keys and values, '}'
//   array         '[#' and its length and the values
//   ndarray       '[$', mark of the numbers, '#', its length and the numbers
//   constants     'T', 'F', 'Z' (None)
// Twin: tests/ubjson_twin.py.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"

namespace mtboost {
namespace {

static_assert(std::endian::native == std::endian::little, "the bytes of numbers are reversed");

constexpr int kMostDepth = 100;  // of arrays and objects in one another; models of XGBoost have eight

template <typename T>
T reversed(T value) noexcept {
  auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  std::ranges::reverse(bytes);
  return std::bit_cast<T>(bytes);
}

// Calls a function template with a number of the type that a mark means.
template <typename Function>
auto with_type(char mark, Function&& function) {
  switch (mark) {
    case 'i': return function(std::int8_t{});
    case 'U': return function(std::uint8_t{});
    case 'I': return function(std::int16_t{});
    case 'l': return function(std::int32_t{});
    case 'L': return function(std::int64_t{});
    case 'd': return function(float{});
    case 'D': return function(double{});
    default: throw std::invalid_argument(std::string("a model document has the unknown mark '") + mark + "'");
  }
}

// ---- writing -----------------------------------------------------------------------------------------------------

class Writer {
 public:
  std::string take() { return std::move(bytes_); }

  void write(py::handle value, int depth) {
    PyObject* const object = value.ptr();
    require(depth < kMostDepth, "a model document is nested too deeply");
    if (PyDict_Check(object)) {
      bytes_ += '{';
      PyObject *key = nullptr, *item = nullptr;
      Py_ssize_t place = 0;
      while (PyDict_Next(object, &place, &key, &item) != 0) {
        text(key);
        write(item, depth + 1);
      }
      bytes_ += '}';
    } else if (py::isinstance<py::array>(value)) {
      array(py::reinterpret_borrow<py::array>(value));
    } else if (PyUnicode_Check(object)) {
      bytes_ += 'S';
      text(object);
    } else if (PyList_Check(object) || PyTuple_Check(object)) {
      const auto items = py::reinterpret_borrow<py::sequence>(value);
      bytes_ += "[#L";
      number(static_cast<std::int64_t>(items.size()));
      for (const auto item : items) write(item, depth + 1);
    } else if (PyBool_Check(object)) {
      bytes_ += object == Py_True ? 'T' : 'F';
    } else if (PyLong_Check(object)) {
      const long long found = PyLong_AsLongLong(object);
      if (found == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
      bytes_ += 'L';
      number(static_cast<std::int64_t>(found));
    } else if (PyFloat_Check(object)) {
      bytes_ += 'd';
      number(static_cast<float>(PyFloat_AS_DOUBLE(object)));
    } else if (value.is_none()) {
      bytes_ += 'Z';
    } else {
      throw py::type_error(std::string("a model document cannot hold a ") + Py_TYPE(object)->tp_name);
    }
  }

 private:
  template <typename T>
  void number(T value) {
    value = reversed(value);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }

  void text(PyObject* object) {
    Py_ssize_t length = 0;
    const char* const found = PyUnicode_AsUTF8AndSize(object, &length);
    if (found == nullptr) throw py::error_already_set();
    bytes_ += 'L';
    number(static_cast<std::int64_t>(length));
    bytes_.append(found, static_cast<std::size_t>(length));
  }

  void array(const py::array& values) {
    const char mark = mark_of(values.dtype());
    require(values.ndim() == 1, "an array of a model document must have one dimension");
    bytes_ += "[$";
    bytes_ += mark;
    bytes_ += "#L";
    number(static_cast<std::int64_t>(values.size()));
    with_type(mark, [&]<typename T>(T) {
      const std::size_t begin = bytes_.size(), n = static_cast<std::size_t>(values.size());
      bytes_.resize(begin + n * sizeof(T));
      const auto* from = static_cast<const char*>(values.data());
      char* to = bytes_.data() + begin;
      for (std::size_t i = 0; i < n; ++i, from += values.strides(0), to += sizeof(T)) {
        T value;
        std::memcpy(&value, from, sizeof(T));
        value = reversed(value);
        std::memcpy(to, &value, sizeof(T));
      }
    });
  }

  static char mark_of(const py::dtype& dtype) {
    const auto size = dtype.itemsize();
    if (dtype.byteorder() != '>') {
      if (dtype.kind() == 'i') return size == 1 ? 'i' : size == 2 ? 'I' : size == 4 ? 'l' : 'L';
      if (dtype.kind() == 'u' && size == 1) return 'U';
      if (dtype.kind() == 'f' && size == 4) return 'd';
      if (dtype.kind() == 'f' && size == 8) return 'D';
    }
    throw py::type_error("a model document cannot hold an array of " + std::string(py::str(dtype)));
  }

  std::string bytes_;
};

// ---- reading -----------------------------------------------------------------------------------------------------

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  py::object read(int depth) {
    require(depth < kMostDepth, "a model document is nested too deeply");
    const char mark = next();
    switch (mark) {
      case 'S': return text();
      case '{': return object(depth);
      case '[': return array(depth);
      case 'T': return py::bool_(true);
      case 'F': return py::bool_(false);
      case 'Z': return py::none();
      default: break;
    }
    return with_type(mark, [&]<typename T>(T) -> py::object { return py::cast(number<T>()); });
  }

 private:
  char next() { return take(1)[0]; }

  std::string_view take(std::size_t n) {
    require(n <= bytes_.size() - place_, "a model document ends too early");
    place_ += n;
    return bytes_.substr(place_ - n, n);
  }

  template <typename T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return reversed(value);
  }

  void expect(char mark) { require(next() == mark, std::string("a model document lacks the mark '") + mark + "'"); }

  // Of text, or of values that take at least `size` bytes each.
  std::size_t length(std::size_t size) {
    expect('L');
    const auto found = number<std::int64_t>();
    require(found >= 0 && static_cast<std::uint64_t>(found) <= (bytes_.size() - place_) / size,
            "a model document ends too early");
    return static_cast<std::size_t>(found);
  }

  py::str text() {
    const auto found = take(length(1));
    return py::str(found.data(), found.size());
  }

  py::dict object(int depth) {
    py::dict found;
    while (place_ < bytes_.size() && bytes_[place_] != '}') {
      const py::str key = text();
      found[key] = read(depth + 1);
    }
    expect('}');
    return found;
  }

  py::object array(int depth) {
    char mark = next();
    if (mark == '$') {
      mark = next();
      expect('#');
      return with_type(mark, [&]<typename T>(T) -> py::object {
        py::array_t<T> found(static_cast<py::ssize_t>(length(sizeof(T))));
        T* to = found.mutable_data();
        for (py::ssize_t i = 0; i < found.size(); ++i) to[i] = number<T>();
        return found;
      });
    }
    require(mark == '#', "a model document lacks the mark '#'");
    const std::size_t n = length(1);
    py::list found;
    for (std::size_t i = 0; i < n; ++i) found.append(read(depth + 1));
    return found;
  }

  std::string_view bytes_;
  std::size_t place_ = 0;
};

py::bytearray encode(const py::dict& document) {
  Writer writer;
  writer.write(document, 0);
  const std::string bytes = writer.take();
  return {bytes.data(), bytes.size()};
}

py::object decode(const py::buffer& content) {
  const py::buffer_info bytes = content.request();
  require(bytes.ndim == 1 && bytes.itemsize == 1 && (bytes.size == 0 || bytes.strides[0] == 1),
          "a model document must be bytes");
  return Reader({static_cast<const char*>(bytes.ptr), static_cast<std::size_t>(bytes.size)}).read(0);
}

}  // namespace

void bind_ubjson(py::module_& module) {
  module.def("encode_ubjson", &encode, py::arg("document"));
  module.def("decode_ubjson", &decode, py::arg("content"));
}

}  // namespace mtboost
