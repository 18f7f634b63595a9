// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <variant>

#include "arrays.hpp"
#include "bindings.hpp"
#include "tree/margin_trees.hpp"

namespace mtboost {
namespace {

using Cells = std::variant<py::array_t<float>, py::array_t<double>>;

template <typename Value>
using TreesOfGroup = std::shared_ptr<const MarginTrees<Value>>;

template <typename Value>
std::shared_ptr<MarginTrees<Value>> make_trees(const Contiguous<node_t>& roots, const Contiguous<node_t>& left,
                                               const Contiguous<node_t>& right, const Contiguous<feature_t>& feature,
                                               const Contiguous<Value>& threshold,
                                               const Contiguous<std::uint8_t>& default_left,
                                               const Contiguous<Value>& value, feature_t n_features,
                                               std::size_t n_outputs, const Contiguous<std::int64_t>& category_nodes,
                                               const Contiguous<std::int64_t>& category_starts,
                                               const Contiguous<std::int32_t>& categories) {
  const NodeArrays<Value> arrays{as_span(roots, "roots"),
                                 as_span(left, "left"),
                                 as_span(right, "right"),
                                 as_span(feature, "feature"),
                                 as_span(threshold, "threshold"),
                                 as_span(default_left, "default_left"),
                                 as_span(value, "value"),
                                 as_span(category_nodes, "category_nodes"),
                                 as_span(category_starts, "category_starts"),
                                 as_span(categories, "categories")};
  py::gil_scoped_release release;
  return std::make_shared<MarginTrees<Value>>(arrays, n_features, n_outputs);
}

template <typename Value>
bool add_to(py::array_t<Value, py::array::c_style>& margins, const Cells& X,
            const std::optional<Contiguous<std::int64_t>>& rows, const std::vector<TreesOfGroup<Value>>& trees,
            const std::vector<std::int64_t>& n_trees, const std::vector<std::int64_t>& begins,
            const std::vector<std::int64_t>& ends, bool sum_first, int n_threads) {
  require(margins.ndim() == 2, "margins must have two dimensions");
  const auto n_rows = static_cast<std::size_t>(margins.shape(0)),
             n_outputs = static_cast<std::size_t>(margins.shape(1));
  const auto n_columns = std::visit([](const auto& cells) { return cells.ndim() == 2 ? cells.shape(1) : 0; }, X);
  const auto n_cells = std::visit([](const auto& cells) { return cells.ndim() == 2 ? cells.shape(0) : 0; }, X);
  require(static_cast<std::size_t>(n_cells) == n_rows, "X and margins must have as many rows");
  std::span<const std::int64_t> places;
  if (rows) places = as_span(*rows, "rows");
  for (const std::int64_t row : places)
    require(row >= 0 && static_cast<std::size_t>(row) < n_rows, "a row does not exist");
  const auto n_places = static_cast<std::int64_t>(rows ? places.size() : n_rows);
  require(n_trees.size() == trees.size() && begins.size() == trees.size() && ends.size() == trees.size(),
          "trees, n_trees, begins and ends must have one length");
  std::vector<RowsOfTrees<Value>> groups;
  for (std::size_t i = 0; i < trees.size(); ++i) {
    require(trees[i] != nullptr && trees[i]->n_outputs() == n_outputs && trees[i]->n_features() == n_columns,
            "trees have other outputs or features than margins and X");
    require(n_trees[i] >= 0 && static_cast<std::size_t>(n_trees[i]) <= trees[i]->n_trees(), "there are fewer trees");
    require(begins[i] >= 0 && begins[i] <= ends[i] && ends[i] <= n_places, "a group has other rows");
    groups.push_back({trees[i].get(), static_cast<std::size_t>(n_trees[i]), static_cast<std::size_t>(begins[i]),
                      static_cast<std::size_t>(ends[i])});
  }
  const std::span<Value> own(margins.mutable_data(), n_rows * n_outputs);
  return std::visit(
      [&](const auto& cells) {
        const auto table = as_matrix(cells, "X");
        py::gil_scoped_release release;
        ThreadPool pool(n_threads);
        return add_margins<Value>(table, places, std::span<const RowsOfTrees<Value>>(groups), sum_first, pool, own);
      },
      X);
}

template <typename Value>
void bind(py::module_& module, const char* name, const char* text) {
  using Trees = MarginTrees<Value>;
  py::class_<Trees, std::shared_ptr<Trees>>(module, name, text)
      .def(py::init(&make_trees<Value>), py::kw_only(), py::arg("roots").noconvert(), py::arg("left").noconvert(),
           py::arg("right").noconvert(), py::arg("feature").noconvert(), py::arg("threshold").noconvert(),
           py::arg("default_left").noconvert(), py::arg("value").noconvert(), py::arg("n_features"),
           py::arg("n_outputs"), py::arg("category_nodes").noconvert(), py::arg("category_starts").noconvert(),
           py::arg("categories").noconvert())
      .def_property_readonly("n_trees", &Trees::n_trees)
      .def_property_readonly("n_bytes", &Trees::n_bytes)
      .def_static("add_to", &add_to<Value>, py::arg("margins").noconvert(), py::arg("X").noconvert(), py::kw_only(),
                  py::arg("rows").noconvert().none(true), py::arg("trees"), py::arg("n_trees"), py::arg("begins"),
                  py::arg("ends"), py::arg("sum_first"), py::arg("n_threads"));
}

}  // namespace

void bind_margin_trees(py::module_& module) {
  bind<float>(module, "XgboostTrees", "Trees of a finished booster of XGBoost, to predict margins.");
  bind<double>(module, "LightgbmTrees", "Trees of a finished booster of LightGBM, to predict margins.");
}

}  // namespace mtboost
