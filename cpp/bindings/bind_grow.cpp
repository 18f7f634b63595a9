// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "grow/tree_grower.hpp"

namespace mtboost {
namespace {

GrowParams make_params(float learning_rate, int max_depth, int max_leaves, bool loss_guided, float min_split_loss,
                       float min_child_weight, float reg_lambda, float reg_alpha, float max_delta_step,
                       bin_t max_cat_to_onehot, bin_t max_cat_threshold, double subsample, double colsample_bytree,
                       double colsample_bylevel, double colsample_bynode, std::vector<int> monotone_constraints,
                       std::vector<std::vector<feature_t>> interaction_constraints, std::uint64_t seed,
                       const std::string& arithmetic) {
  return {learning_rate, max_depth, max_leaves, loss_guided, min_split_loss, min_child_weight, reg_lambda, reg_alpha,
          max_delta_step, max_cat_to_onehot, max_cat_threshold, subsample, colsample_bytree, colsample_bylevel,
          colsample_bynode, std::move(monotone_constraints), std::move(interaction_constraints), seed,
          arithmetic_named(arithmetic)};
}

TreeGrower make_grower(std::shared_ptr<const BinnedMatrix> matrix, std::shared_ptr<const SplitScore> score,
                       const std::optional<Contiguous<row_t>>& first_rows,
                       const std::optional<Contiguous<float>>& feature_weights) {
  std::optional<TaskRows> tasks;
  if (first_rows) tasks.emplace(as_vector(*first_rows, "first_rows"));
  return TreeGrower(std::move(matrix), std::move(score), std::move(tasks),
                    feature_weights ? as_vector(*feature_weights, "feature_weights") : std::vector<float>{});
}

void check_interrupt() {
  py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

TreeGrower::Grown grow(TreeGrower& grower, const GrowParams& params, const Contiguous<float>& gradients,
                       const std::optional<Contiguous<std::uint8_t>>& is_active, std::uint64_t tree_number,
                       int n_threads) {
  require(gradients.ndim() == 2 && gradients.shape(1) == 2, "gradients must have shape (n_rows, 2)");
  static_assert(sizeof(GradientPair) == 2 * sizeof(float));
  const std::span pairs(reinterpret_cast<const GradientPair*>(gradients.data()),
                        static_cast<std::size_t>(gradients.shape(0)));
  const auto flags = is_active ? as_span(*is_active, "is_active") : std::span<const std::uint8_t>{};
  py::gil_scoped_release release;
  return grower.grow(params, pairs, flags, tree_number, n_threads, check_interrupt);
}

// Categorical nodes as three arrays: which nodes, where their categories start, and the categories that go right.
py::dict to_dict(const Tree& tree, const Cuts& cuts) {
  std::vector<node_t> nodes;
  std::vector<std::int64_t> starts{0};
  std::vector<std::int32_t> categories;
  for (node_t node = 0; node < tree.n_nodes(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    if (tree.is_leaf(node) || !cuts.is_categorical(tree.feature[at])) continue;
    auto bins = tree.right_bins[at];
    std::sort(bins.begin(), bins.end());
    nodes.push_back(node);
    for (const bin_t bin : bins) categories.push_back(static_cast<std::int32_t>(cuts.value(tree.feature[at], bin)));
    starts.push_back(static_cast<std::int64_t>(categories.size()));
  }
  py::dict arrays;
  arrays["left"] = to_array(tree.left);
  arrays["right"] = to_array(tree.right);
  arrays["parent"] = to_array(tree.parent);
  arrays["feature"] = to_array(tree.feature);
  arrays["threshold"] = to_array(tree.threshold);
  arrays["default_left"] = to_array(tree.default_left);
  arrays["gain"] = to_array(tree.gain);
  arrays["score"] = to_array(tree.score);
  arrays["hessian"] = to_array(tree.hessian);
  arrays["base_weight"] = to_array(tree.base_weight);
  arrays["value"] = to_array(tree.value);
  arrays["categorical_nodes"] = to_array(std::move(nodes));
  arrays["category_starts"] = to_array(std::move(starts));
  arrays["categories"] = to_array(std::move(categories));
  return arrays;
}

}  // namespace

void bind_grow(py::module_& module) {
  const GrowParams defaults;
  py::class_<GrowParams>(module, "GrowParams", "Stopping rules and penalties of a tree, by XGBoost's names.")
      .def(py::init(&make_params), py::kw_only(), py::arg("learning_rate") = defaults.learning_rate,
           py::arg("max_depth") = defaults.max_depth, py::arg("max_leaves") = defaults.max_leaves,
           py::arg("loss_guided") = defaults.loss_guided, py::arg("min_split_loss") = defaults.min_split_loss,
           py::arg("min_child_weight") = defaults.min_child_weight, py::arg("reg_lambda") = defaults.reg_lambda,
           py::arg("reg_alpha") = defaults.reg_alpha, py::arg("max_delta_step") = defaults.max_delta_step,
           py::arg("max_cat_to_onehot") = defaults.max_cat_to_onehot,
           py::arg("max_cat_threshold") = defaults.max_cat_threshold, py::arg("subsample") = defaults.subsample,
           py::arg("colsample_bytree") = defaults.colsample_bytree,
           py::arg("colsample_bylevel") = defaults.colsample_bylevel,
           py::arg("colsample_bynode") = defaults.colsample_bynode,
           py::arg("monotone_constraints") = defaults.monotone_constraints,
           py::arg("interaction_constraints") = defaults.interaction_constraints, py::arg("seed") = defaults.seed,
           py::arg("arithmetic") = "xgboost-3.0")
      .def_readonly("learning_rate", &GrowParams::learning_rate);

  module.def(
      "add_leaf_values",
      [](const Contiguous<float>& values, const Contiguous<node_t>& leaves, Contiguous<float>& margins,
         std::size_t output, int n_threads) {
        require(margins.ndim() == 2, "margins must have shape (n_rows, n_outputs)");
        const auto n_outputs = static_cast<std::size_t>(margins.shape(1));
        const std::span target(margins.mutable_data(), static_cast<std::size_t>(margins.size()));
        const auto leaf_values = as_span(values, "values");
        const auto leaf_of_row = as_span(leaves, "leaves");
        py::gil_scoped_release release;
        ThreadPool pool(n_threads);
        add_leaf_values(leaf_values, leaf_of_row, n_outputs, output, target, pool);
      },
      py::arg("values").noconvert(), py::arg("leaves").noconvert(), py::arg("margins").noconvert(), py::kw_only(),
      py::arg("output"), py::arg("n_threads"));

  py::class_<TreeGrower>(module, "TreeGrower", "Grows trees on one BinnedMatrix.")
      .def(py::init(&make_grower), py::arg("matrix"), py::kw_only(), py::arg("score").none(true) = py::none(),
           py::arg("first_rows").noconvert().none(true) = py::none(),
           py::arg("feature_weights").noconvert().none(true) = py::none())
      .def(
          "grow",
          [](TreeGrower& grower, const GrowParams& params, const Contiguous<float>& gradients,
             const std::optional<Contiguous<std::uint8_t>>& is_active, std::uint64_t tree_number, int n_threads) {
            auto grown = grow(grower, params, gradients, is_active, tree_number, n_threads);
            return py::make_tuple(to_dict(grown.tree, grower.matrix().cuts()), to_array(std::move(grown.leaves)));
          },
          py::arg("params"), py::arg("gradients").noconvert(), py::kw_only(),
          py::arg("is_active").noconvert().none(true) = py::none(), py::arg("tree_number") = 0, py::arg("n_threads") = 1);
}

}  // namespace mtboost
