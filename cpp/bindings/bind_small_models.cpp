// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "arrays.hpp"
#include "bindings.hpp"
#include "grow/small_models.hpp"

namespace mtboost {
namespace {

// The models, and the tables that they read.
struct BoundModels {
  Contiguous<float> cells, valid_cells;
  SmallModels models;
};

SmallModels::Rows as_rows(const Contiguous<float>& cells, const Contiguous<row_t>& first_rows, const char* name) {
  require(cells.ndim() == 2, std::string(name) + " must have two dimensions");
  const auto n_columns = static_cast<std::size_t>(cells.shape(1));
  return {{cells.data(), static_cast<std::size_t>(cells.shape(0)), n_columns, cells.shape(1), 1},
          as_vector(first_rows, "first_rows")};
}

std::vector<std::uint8_t> flags_of(const std::optional<Contiguous<std::uint8_t>>& is_categorical) {
  if (!is_categorical) return {};
  return as_vector(*is_categorical, "is_categorical");
}

std::unique_ptr<BoundModels> make_models(const Contiguous<float>& cells, const Contiguous<row_t>& first_rows,
                                         const Contiguous<float>& valid_cells,
                                         const Contiguous<row_t>& first_valid_rows, const XgboostParams& params,
                                         bool is_symmetric, double random_strength, std::size_t n_outputs,
                                         const std::optional<Contiguous<std::uint8_t>>& is_categorical,
                                         bool unseen_at_random,
                                         const std::optional<Contiguous<std::uint32_t>>& n_categories, int n_threads) {
  auto rows = as_rows(cells, first_rows, "cells");
  auto valid = as_rows(valid_cells, first_valid_rows, "valid_cells");
  SmallModels::Options options{is_symmetric, random_strength, n_outputs, flags_of(is_categorical), unseen_at_random};
  if (n_categories) options.n_categories = as_vector(*n_categories, "n_categories");
  std::optional<SmallModels> models;
  {
    py::gil_scoped_release release;
    models.emplace(std::move(rows), std::move(valid), params, std::move(options), n_threads);
  }
  return std::make_unique<BoundModels>(BoundModels{cells, valid_cells, std::move(*models)});
}

void grow(BoundModels& bound, const Contiguous<std::uint32_t>& models, const Contiguous<float>& gradients,
          Contiguous<float>& margins, Contiguous<float>& valid_margins, int n_threads) {
  const auto own = as_span(models, "models");
  require(gradients.size() % 2 == 0, "gradients must hold pairs");
  static_assert(sizeof(GradientPair) == 2 * sizeof(float));
  const std::span pairs(reinterpret_cast<const GradientPair*>(gradients.data()),
                        static_cast<std::size_t>(gradients.size()) / 2);
  const std::span of_rows(margins.mutable_data(), static_cast<std::size_t>(margins.size()));
  const std::span of_valid(valid_margins.mutable_data(), static_cast<std::size_t>(valid_margins.size()));
  py::gil_scoped_release release;
  bound.models.grow(own, pairs, of_rows, of_valid, n_threads);
}

py::dict trees(const BoundModels& bound) {
  SmallTrees found;
  {
    py::gil_scoped_release release;
    found = bound.models.trees();
  }
  py::dict arrays;
  arrays["first_trees"] = to_array(std::move(found.first_trees));
  arrays["first_nodes"] = to_array(std::move(found.first_nodes));
  arrays["left"] = to_array(std::move(found.left));
  arrays["parent"] = to_array(std::move(found.parent));
  arrays["feature"] = to_array(std::move(found.feature));
  arrays["condition"] = to_array(std::move(found.condition));
  arrays["default_left"] = to_array(std::move(found.default_left));
  arrays["gain"] = to_array(std::move(found.gain));
  arrays["hessian"] = to_array(std::move(found.hessian));
  arrays["base_weight"] = to_array(std::move(found.base_weight));
  arrays["categorical_nodes"] = to_array(std::move(found.categorical_nodes));
  arrays["category_starts"] = to_array(std::move(found.category_starts));
  arrays["categories"] = to_array(std::move(found.categories));
  return arrays;
}

py::array_t<std::uint8_t> few_values(const Contiguous<float>& cells, const Contiguous<row_t>& first_rows,
                                     const std::optional<Contiguous<std::uint8_t>>& is_categorical, std::size_t most,
                                     int n_threads) {
  const auto rows = as_rows(cells, first_rows, "cells");
  const auto flags = flags_of(is_categorical);
  std::vector<std::uint8_t> found;
  {
    py::gil_scoped_release release;
    found = have_few_values(rows, flags, most, n_threads);
  }
  return to_array(std::move(found));
}

}  // namespace

void bind_small_models(py::module_& module) {
  py::class_<BoundModels>(module, "SmallModels", "Models of few rows each, grown side by side.")
      .def(py::init(&make_models), py::kw_only(), py::arg("cells").noconvert(), py::arg("first_rows").noconvert(),
           py::arg("valid_cells").noconvert(), py::arg("first_valid_rows").noconvert(), py::arg("params"),
           py::arg("symmetric") = false, py::arg("random_strength") = 0.0, py::arg("n_outputs") = 1,
           py::arg("is_categorical") = py::none(), py::arg("unseen_at_random") = false,
           py::arg("n_categories").noconvert().none(true) = py::none(), py::arg("n_threads") = 1)
      .def("grow", &grow, py::arg("models").noconvert(), py::arg("gradients").noconvert(),
           py::arg("margins").noconvert(), py::arg("valid_margins").noconvert(), py::kw_only(),
           py::arg("n_threads") = 1)
      .def(
          "keep", [](BoundModels& bound, std::size_t model, std::size_t n_trees) { bound.models.keep(model, n_trees); },
          py::arg("model"), py::arg("n_trees"))
      .def("trees", &trees);
  module.def("have_few_values", &few_values, py::arg("cells").noconvert(), py::arg("first_rows").noconvert(),
             py::kw_only(), py::arg("is_categorical") = py::none(), py::arg("most"), py::arg("n_threads") = 1);
}

}  // namespace mtboost
