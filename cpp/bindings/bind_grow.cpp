// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "grow/leaf_values.hpp"
#include "grow/lightgbm_rules.hpp"
#include "grow/row_sample.hpp"
#include "grow/tree_grower.hpp"
#include "grow/xgboost_rules.hpp"
#include "split/unseen_values.hpp"

namespace mtboost {
namespace {

// What both libraries' parameters have in common.
void set_limits(GrowParams& params, int max_depth, int max_leaves, double subsample, double colsample_bytree,
                double colsample_bynode, std::vector<int> monotone_constraints,
                std::vector<std::vector<feature_t>> interaction_constraints, std::uint64_t seed) {
  params.max_depth = max_depth;
  params.max_leaves = max_leaves;
  params.subsample = subsample;
  params.colsample_bytree = colsample_bytree;
  params.colsample_bynode = colsample_bynode;
  params.monotone_constraints = std::move(monotone_constraints);
  params.interaction_constraints = std::move(interaction_constraints);
  params.seed = seed;
}

XgboostParams xgboost_params(float learning_rate, int max_depth, int max_leaves, bool loss_guided, float min_split_loss,
                             float min_child_weight, float reg_lambda, float reg_alpha, float max_delta_step,
                             bin_t max_cat_to_onehot, bin_t max_cat_threshold, double subsample,
                             double colsample_bytree, double colsample_bylevel, double colsample_bynode,
                             std::vector<int> monotone_constraints,
                             std::vector<std::vector<feature_t>> interaction_constraints, std::uint64_t seed,
                             const std::string& arithmetic) {
  XgboostParams params;
  set_limits(params, max_depth, max_leaves, subsample, colsample_bytree, colsample_bynode,
             std::move(monotone_constraints), std::move(interaction_constraints), seed);
  params.loss_guided = loss_guided;
  params.colsample_bylevel = colsample_bylevel;
  params.learning_rate = learning_rate;
  params.min_split_loss = min_split_loss;
  params.min_child_weight = min_child_weight;
  params.reg_lambda = reg_lambda;
  params.reg_alpha = reg_alpha;
  params.max_delta_step = max_delta_step;
  params.max_cat_to_onehot = max_cat_to_onehot;
  params.max_cat_threshold = max_cat_threshold;
  params.arithmetic = arithmetic_named(arithmetic);
  return params;
}

LightgbmParams lightgbm_params(double learning_rate, int max_depth, int num_leaves, int min_data_in_leaf,
                               double min_sum_hessian_in_leaf, double min_gain_to_split, double lambda_l1,
                               double lambda_l2, double max_delta_step, double path_smooth, double monotone_penalty,
                               int max_cat_to_onehot, int max_cat_threshold, double cat_smooth, double cat_l2,
                               int min_data_per_group, double bagging_fraction, double feature_fraction,
                               double feature_fraction_bynode, std::vector<double> feature_contri,
                               std::vector<int> monotone_constraints,
                               std::vector<std::vector<feature_t>> interaction_constraints, std::uint64_t seed) {
  LightgbmParams params;
  set_limits(params, max_depth, num_leaves, bagging_fraction, feature_fraction, feature_fraction_bynode,
             std::move(monotone_constraints), std::move(interaction_constraints), seed);
  params.loss_guided = true;
  params.learning_rate = learning_rate;
  params.min_data_in_leaf = min_data_in_leaf;
  params.min_sum_hessian_in_leaf = min_sum_hessian_in_leaf;
  params.min_gain_to_split = min_gain_to_split;
  params.lambda_l1 = lambda_l1;
  params.lambda_l2 = lambda_l2;
  params.max_delta_step = max_delta_step;
  params.path_smooth = path_smooth;
  params.monotone_penalty = monotone_penalty;
  params.max_cat_to_onehot = max_cat_to_onehot;
  params.max_cat_threshold = max_cat_threshold;
  params.cat_smooth = cat_smooth;
  params.cat_l2 = cat_l2;
  params.min_data_per_group = min_data_per_group;
  params.feature_contri = std::move(feature_contri);
  return params;
}

// A Python function (values, step) that sums an array over all workers, in place. It is called with the GIL.
class PythonCommunicator final : public Communicator {
 public:
  PythonCommunicator(int rank, py::function sum) : rank_(rank), sum_(std::move(sum)) {
    require(rank >= 0, "rank must not be negative");
  }
  int rank() const noexcept override { return rank_; }
  void sum(std::span<double> values, const char* step) const override {
    py::gil_scoped_acquire acquire;
    const py::array_t<double> array(static_cast<py::ssize_t>(values.size()), values.data(), py::none());  // no copy
    sum_(array, step);
  }

 private:
  int rank_;
  py::function sum_;
};

TreeGrower make_grower(std::shared_ptr<const BinnedMatrix> matrix, std::shared_ptr<const SplitScore> score,
                       const std::optional<Contiguous<row_t>>& first_rows,
                       const std::optional<Contiguous<float>>& feature_weights, std::optional<feature_t> task_column,
                       double task_penalty, bool is_symmetric, double random_strength,
                       std::shared_ptr<PythonCommunicator> workers, bool has_whole_tasks, bool quantized_gradients,
                       bool unseen_at_random) {
  std::optional<TaskRows> tasks;
  if (first_rows) tasks.emplace(as_vector(*first_rows, "first_rows"));
  return TreeGrower(std::move(matrix), std::move(score), std::move(tasks),
                    feature_weights ? as_vector(*feature_weights, "feature_weights") : std::vector<float>{},
                    task_column ? std::optional(TaskColumn{*task_column, task_penalty}) : std::nullopt, is_symmetric,
                    random_strength, std::move(workers), has_whole_tasks, quantized_gradients, unseen_at_random);
}

// A tree and the matrix whose bins it speaks of.
struct GrownTree {
  Tree tree;
  std::shared_ptr<const BinnedMatrix> matrix;
};

std::span<const GradientPair> as_pairs(const Contiguous<float>& array, const char* name) {
  require(array.ndim() == 2 && array.shape(1) == 2, std::string(name) + " must have shape (n_rows, 2)");
  static_assert(sizeof(GradientPair) == 2 * sizeof(float));
  return {reinterpret_cast<const GradientPair*>(array.data()), static_cast<std::size_t>(array.shape(0))};
}

TreeGrower::Grown grow(TreeGrower& grower, const GrowRules& rules, const Contiguous<float>& gradients,
                       const std::optional<Contiguous<std::uint8_t>>& tasks,
                       const std::optional<Contiguous<std::uint8_t>>& rows,
                       const std::optional<Contiguous<feature_t>>& features, std::uint64_t tree_number, int n_threads) {
  const auto pairs = as_pairs(gradients, "gradients");
  TreeGrower::Sample sample{tree_number};
  if (tasks) sample.tasks = as_span(*tasks, "tasks");
  if (rows) sample.rows = as_span(*rows, "rows");
  if (features) sample.features = as_span(*features, "features");
  py::gil_scoped_release release;
  return grower.grow(rules, pairs, sample, n_threads, check_interrupt);
}

py::array_t<node_t> leaves(const GrownTree& grown, const BinnedMatrix& matrix, int n_threads) {
  require(matrix.edges().has_bins_of(grown.matrix->edges()), "the matrix has other features or bins than the tree");
  std::vector<node_t> found;
  {
    py::gil_scoped_release release;
    constexpr std::size_t kStepsPerRow = 16;
    ThreadPool pool(threads_for(kStepsPerRow * matrix.n_rows(), n_threads));
    found = find_leaves(grown.tree, matrix, pool);
  }
  return to_array(std::move(found));
}

// Categorical nodes as three arrays: which nodes, where their categories start, and those that are listed. n_categories: see
// for_each_unused_category.
py::dict to_dict(const Tree& tree, const BinEdges& edges, std::span<const std::uint32_t> n_categories) {
  std::vector<node_t> nodes;
  std::vector<std::int64_t> starts{0};
  std::vector<std::int32_t> categories;
  for (node_t node = 0; node < tree.n_nodes(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    if (tree.is_leaf(node) || !edges.is_categorical(tree.feature[at])) continue;
    auto bins = tree.listed_bins[at];
    std::sort(bins.begin(), bins.end());
    nodes.push_back(node);
    for (const bin_t bin : bins) categories.push_back(static_cast<std::int32_t>(edges.value(tree.feature[at], bin)));
    for_each_unused_category(tree.feature[at], edges.n_bins(tree.feature[at]), tree.default_left[at] != 0, n_categories,
                             [&](bin_t code) { categories.push_back(static_cast<std::int32_t>(code)); });
    starts.push_back(static_cast<std::int64_t>(categories.size()));
  }
  std::vector<float> thresholds;
  for (node_t node = 0; node < tree.n_nodes(); ++node) thresholds.push_back(threshold(tree, node, edges));
  py::dict arrays;
  arrays["left"] = to_array(tree.left);
  arrays["right"] = to_array(tree.right);
  arrays["parent"] = to_array(tree.parent);
  arrays["feature"] = to_array(tree.feature);
  arrays["position"] = to_array(tree.position);
  arrays["threshold"] = to_array(std::move(thresholds));
  arrays["default_left"] = to_array(tree.default_left);
  arrays["gain"] = to_array(tree.gain);
  arrays["score"] = to_array(tree.score);
  arrays["hessian"] = to_array(tree.hessian);
  arrays["n_rows"] = to_array(tree.n_rows);
  arrays["base_weight"] = to_array(tree.base_weight);
  arrays["value"] = to_array(tree.value);
  arrays["categorical_nodes"] = to_array(std::move(nodes));
  arrays["category_starts"] = to_array(std::move(starts));
  arrays["categories"] = to_array(std::move(categories));
  return arrays;
}

template <typename Params, typename Rules>
py::tuple grow_with(TreeGrower& grower, const Params& params, const Contiguous<float>& gradients,
                    const std::optional<Contiguous<std::uint8_t>>& tasks,
                    const std::optional<Contiguous<std::uint8_t>>& rows,
                    const std::optional<Contiguous<feature_t>>& features, std::uint64_t tree_number, int n_threads) {
  const Rules rules(*grower.matrix(), params);
  auto grown = grow(grower, rules, gradients, tasks, rows, features, tree_number, n_threads);
  return py::make_tuple(GrownTree{std::move(grown.tree), grower.matrix()}, to_array(std::move(grown.leaves)));
}

template <typename Params, typename Rules>
void bind_grow_with(py::class_<TreeGrower>& grower) {
  grower.def("grow", &grow_with<Params, Rules>, py::arg("params"), py::arg("gradients").noconvert(), py::kw_only(),
             py::arg("tasks").noconvert().none(true) = py::none(), py::arg("rows").noconvert().none(true) = py::none(),
             py::arg("features").noconvert().none(true) = py::none(), py::arg("tree_number") = 0,
             py::arg("n_threads") = 1);
}

// n_nodes rows, of one column where there is one dimension.
std::size_t n_columns_of(const Contiguous<double>& values) {
  require(values.ndim() == 1 || values.ndim() == 2, "values must have shape (n_nodes,) or (n_nodes, n_columns)");
  return values.ndim() == 1 ? 1 : static_cast<std::size_t>(values.shape(1));
}

template <typename Margin>
void bind_add_leaf_values(py::module_& module) {
  module.def(
      "add_leaf_values",
      [](const Contiguous<double>& values, const Contiguous<node_t>& leaves, Contiguous<Margin>& margins,
         const std::optional<Contiguous<std::int32_t>>& codes, std::size_t output, int n_threads) {
        require(margins.ndim() == 2, "margins must have shape (n_rows, n_outputs)");
        const auto n_outputs = static_cast<std::size_t>(margins.shape(1));
        const std::span target(margins.mutable_data(), static_cast<std::size_t>(margins.size()));
        const std::span table(values.data(), static_cast<std::size_t>(values.size()));
        const std::size_t n_columns = n_columns_of(values);
        const auto leaf_of_row = as_span(leaves, "leaves");
        const auto code_of_row = codes ? as_span(*codes, "codes") : std::span<const std::int32_t>{};
        require(!codes || code_of_row.size() == leaf_of_row.size(), "codes must have shape (n_rows,)");
        py::gil_scoped_release release;
        ThreadPool pool(threads_for(leaf_of_row.size(), n_threads));
        add_leaf_values(table, n_columns, leaf_of_row, code_of_row, n_outputs, output, target, pool);
      },
      py::arg("values").noconvert(), py::arg("leaves").noconvert(), py::arg("margins").noconvert(), py::kw_only(),
      py::arg("codes").noconvert().none(true) = py::none(), py::arg("output"), py::arg("n_threads"));
}

py::tuple sum_leaves_by_task(const Contiguous<node_t>& leaves, const Contiguous<std::int32_t>& codes,
                             const Contiguous<float>& pairs, std::size_t n_nodes, std::size_t n_tasks) {
  const auto leaf_of_row = as_span(leaves, "leaves");
  const auto code_of_row = as_span(codes, "codes");
  const auto pair_of_row = as_pairs(pairs, "pairs");
  LeafTaskSums sums;
  {
    py::gil_scoped_release release;
    sums = sum_by_leaf_and_task(leaf_of_row, code_of_row, pair_of_row, n_nodes, n_tasks);
  }
  return py::make_tuple(to_array(std::move(sums.leaf)), to_array(std::move(sums.task)),
                        to_array(std::move(sums.gradient)), to_array(std::move(sums.hessian)));
}

py::array_t<std::uint8_t> draw_rows(row_t n_rows, double subsample, std::uint64_t seed, std::uint64_t tree_number,
                                    int worker) {
  std::vector<std::uint8_t> is_drawn(n_rows);
  {
    py::gil_scoped_release release;
    const RowSample sample(subsample, seed, tree_number, worker);
    for (row_t row = 0; row < n_rows; ++row) is_drawn[row] = sample.contains(row) ? 1 : 0;
  }
  return to_array(std::move(is_drawn));
}

}  // namespace

void bind_grow(py::module_& module) {
  const XgboostParams xgboost;
  py::class_<XgboostParams>(module, "XgboostParams", "Stopping rules and penalties of a tree, by XGBoost's names.")
      .def(py::init(&xgboost_params), py::kw_only(), py::arg("learning_rate") = xgboost.learning_rate,
           py::arg("max_depth") = xgboost.max_depth, py::arg("max_leaves") = xgboost.max_leaves,
           py::arg("loss_guided") = xgboost.loss_guided, py::arg("min_split_loss") = xgboost.min_split_loss,
           py::arg("min_child_weight") = xgboost.min_child_weight, py::arg("reg_lambda") = xgboost.reg_lambda,
           py::arg("reg_alpha") = xgboost.reg_alpha, py::arg("max_delta_step") = xgboost.max_delta_step,
           py::arg("max_cat_to_onehot") = xgboost.max_cat_to_onehot,
           py::arg("max_cat_threshold") = xgboost.max_cat_threshold, py::arg("subsample") = xgboost.subsample,
           py::arg("colsample_bytree") = xgboost.colsample_bytree,
           py::arg("colsample_bylevel") = xgboost.colsample_bylevel,
           py::arg("colsample_bynode") = xgboost.colsample_bynode,
           py::arg("monotone_constraints") = xgboost.monotone_constraints,
           py::arg("interaction_constraints") = xgboost.interaction_constraints, py::arg("seed") = xgboost.seed,
           py::arg("arithmetic") = "xgboost-3.0")
      .def_readonly("learning_rate", &XgboostParams::learning_rate)
      .def_readonly("subsample", &XgboostParams::subsample)
      .def_readonly("seed", &XgboostParams::seed)
      .def_readonly("max_depth", &XgboostParams::max_depth)
      .def_readonly("monotone_constraints", &XgboostParams::monotone_constraints);

  const LightgbmParams lightgbm;
  py::class_<LightgbmParams>(module, "LightgbmParams", "Stopping rules and penalties of a tree, by LightGBM's names.")
      .def(py::init(&lightgbm_params), py::kw_only(), py::arg("learning_rate") = lightgbm.learning_rate,
           py::arg("max_depth") = -1, py::arg("num_leaves") = 31,
           py::arg("min_data_in_leaf") = lightgbm.min_data_in_leaf,
           py::arg("min_sum_hessian_in_leaf") = lightgbm.min_sum_hessian_in_leaf,
           py::arg("min_gain_to_split") = lightgbm.min_gain_to_split, py::arg("lambda_l1") = lightgbm.lambda_l1,
           py::arg("lambda_l2") = lightgbm.lambda_l2, py::arg("max_delta_step") = lightgbm.max_delta_step,
           py::arg("path_smooth") = lightgbm.path_smooth, py::arg("monotone_penalty") = lightgbm.monotone_penalty,
           py::arg("max_cat_to_onehot") = lightgbm.max_cat_to_onehot,
           py::arg("max_cat_threshold") = lightgbm.max_cat_threshold, py::arg("cat_smooth") = lightgbm.cat_smooth,
           py::arg("cat_l2") = lightgbm.cat_l2, py::arg("min_data_per_group") = lightgbm.min_data_per_group,
           py::arg("bagging_fraction") = lightgbm.subsample, py::arg("feature_fraction") = lightgbm.colsample_bytree,
           py::arg("feature_fraction_bynode") = lightgbm.colsample_bynode,
           py::arg("feature_contri") = lightgbm.feature_contri,
           py::arg("monotone_constraints") = lightgbm.monotone_constraints,
           py::arg("interaction_constraints") = lightgbm.interaction_constraints, py::arg("seed") = lightgbm.seed)
      .def_readonly("learning_rate", &LightgbmParams::learning_rate)
      .def_readonly("max_depth", &LightgbmParams::max_depth)
      .def_readonly("monotone_constraints", &LightgbmParams::monotone_constraints);

  module.def("sum_by_leaf_and_task", &sum_leaves_by_task, py::arg("leaves").noconvert(), py::arg("codes").noconvert(),
             py::arg("pairs").noconvert(), py::kw_only(), py::arg("n_nodes"), py::arg("n_tasks"));
  module.def("draw_rows", &draw_rows, py::arg("n_rows"), py::kw_only(), py::arg("subsample"), py::arg("seed"),
             py::arg("tree_number"), py::arg("worker"));
  bind_add_leaf_values<float>(module);
  bind_add_leaf_values<double>(module);

  py::class_<PythonCommunicator, std::shared_ptr<PythonCommunicator>>(module, "Communicator",
                                                                      "Several machines that grow the same trees.")
      .def(py::init<int, py::function>(), py::kw_only(), py::arg("rank"), py::arg("sum"));

  py::class_<TreeGrower> grower(module, "TreeGrower", "Grows trees on one BinnedMatrix.");
  grower.def(py::init(&make_grower), py::arg("matrix").none(false), py::kw_only(),
             py::arg("score").none(true) = py::none(), py::arg("first_rows").noconvert().none(true) = py::none(),
             py::arg("feature_weights").noconvert().none(true) = py::none(), py::arg("task_column") = py::none(),
             py::arg("task_penalty") = TaskColumn{}.penalty, py::arg("symmetric") = false,
             py::arg("random_strength") = 0.0, py::arg("workers").none(true) = py::none(),
             py::arg("has_whole_tasks") = false, py::arg("quantized_gradients") = false,
             py::arg("unseen_at_random") = false);
  bind_grow_with<XgboostParams, XgboostRules>(grower);
  bind_grow_with<LightgbmParams, LightgbmRules>(grower);

  py::class_<GrownTree>(module, "Tree", "A grown tree.")
      .def(
          "arrays",
          [](const GrownTree& grown, const std::optional<Contiguous<std::uint32_t>>& n_categories) {
            const auto counts = n_categories ? as_vector(*n_categories, "n_categories") : std::vector<std::uint32_t>{};
            return to_dict(grown.tree, grown.matrix->edges(), counts);
          },
          py::kw_only(), py::arg("n_categories").noconvert().none(true) = py::none())
      .def("leaves", &leaves, py::arg("matrix"), py::kw_only(), py::arg("n_threads") = 1);
}

}  // namespace mtboost
