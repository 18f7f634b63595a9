// SPDX-License-Identifier: Apache-2.0
// Wherever memory runs out, std::bad_alloc reaches the caller, and what was being trained is as before: every step is
// repeated with one allocation more each time, until it succeeds. A kernel that is noexcept and allocates would end the
// process here.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "boosting/projected_boosting.hpp"
#include "check.hpp"
#include "failing_memory.hpp"
#include "forest/compression.hpp"
#include "forest/forest.hpp"
#include "forest/mt_tree_builder.hpp"
#include "forest/zero_paths.hpp"
#include "grow/lightgbm_rules.hpp"
#include "grow/xgboost_rules.hpp"
#include "loss/make_lightgbm_loss.hpp"
#include "loss/make_loss.hpp"
#include "tables.hpp"
#include "trees.hpp"

namespace mtboost::test::test_allocation {
namespace {

constexpr row_t kRows = 600;
const std::vector<row_t> kFirstRows{0, 250, 253, 450, kRows};

std::shared_ptr<const BinnedMatrix> xgboost_matrix(bool is_sparse) {
  std::vector<Feature> features(9, Feature{12, 0.1});
  features[2] = {3, 0.0, true};
  features[5] = {7, 0.2, true};
  if (is_sparse)
    for (Feature& feature : features) feature.missing_share = 0.8;
  return make_matrix(random_table(kRows, features, 5), shuffled(kRows), 1, is_sparse);
}

std::shared_ptr<const BinnedMatrix> lightgbm_matrix() {
  using Missing = LightgbmBins::Missing;
  std::vector<LightgbmBins> features(5, LightgbmBins{12, 12, 0, Missing::none, false});
  features[1] = {12, 11, 0, Missing::nan, false};
  features[2] = {9, 0, 1, Missing::nan, true};
  return make_matrix(random_table(kRows, features, 0.5, 5), shuffled(kRows));
}

template <typename Rules, typename Params>
void check_grower(const std::function<TreeGrower()>& make_grower, const Params& params) {
  const auto pairs = random_gradients(kRows);
  TreeGrower other = make_grower();
  const auto expected = grow<Rules>(other, params, pairs, {}, 1);
  check(expected.tree.n_nodes() > 5);
  TreeGrower grower = make_grower();
  std::optional<TreeGrower::Grown> found;
  run_out_of_memory([&] { found = grow<Rules>(grower, params, pairs, {}, 3); });
  check(are_equal({*found}, {expected}));
}

XgboostParams small_trees() {
  XgboostParams params;
  params.max_depth = 3;
  params.interaction_constraints = {{0, 1, 2, 5}, {3, 4, 8}};
  params.colsample_bynode = 0.8;
  return params;
}

const Table kTable = random_table(200, std::vector<Feature>(6, Feature{9, 0.1}), 3);

std::vector<double> labels_of(std::size_t n_outputs) {
  auto stream = test_stream(8);
  std::vector<double> labels(kTable.n_rows * n_outputs);
  for (double& label : labels) label = stream.uniform();
  return labels;
}

MatrixView<double> as_view(const std::vector<double>& labels, std::size_t n_outputs) {
  return {labels.data(), kTable.n_rows, n_outputs, static_cast<std::ptrdiff_t>(n_outputs), 1};
}

ForestParams few_trees() {
  ForestParams params;
  params.n_trees = 3;
  params.splitter = Splitter::best;
  params.max_features = 3;
  params.n_bootstrap = kTable.n_rows;
  params.task_split_prob = 0.5;
  params.min_samples_leaf = 5;
  return params;
}

std::vector<task_t> tasks_of_rows() {
  std::vector<task_t> tasks(kTable.n_rows);
  for (row_t row = 0; row < kTable.n_rows; ++row) tasks[row] = row % 3;
  return tasks;
}

void check_forest(const ForestLabels& labels, const ForestProjection& projection = {}) {
  const auto tasks = tasks_of_rows();
  const RowsView rows{kTable.view(), tasks};
  const std::size_t n = n_outputs(labels) * kTable.n_rows;
  std::vector<double> expected(n), found(n), out_of_bag(n);
  const auto predict_into = [&](std::vector<double>& outputs, int n_threads) {
    ThreadPool pool(n_threads);
    const FeatureColumns columns(kTable.view(), pool);
    const ForestData data{columns, labels, tasks, 3, {}, projection};
    const auto trees = grow_trees(data, few_trees(), 0, pool, [] {});
    predict(trees, rows, pool, outputs);
    predict_out_of_bag(trees, few_trees(), rows, {}, pool, out_of_bag);
    importances(trees, columns.n_features());
  };
  predict_into(expected, 1);
  run_out_of_memory([&] { predict_into(found, 3); });
  check(found == expected);
}

}  // namespace

TEST(a_tree_can_be_grown_after_memory_ran_out) {
  for (const auto& score : every_kind_of_score())
    for (const bool is_sparse : {false, true}) {
      const auto make_grower = [&] {
        std::optional<TaskRows> tasks;
        if (score != nullptr) tasks.emplace(kFirstRows);
        return TreeGrower(xgboost_matrix(is_sparse), score, tasks, {});
      };
      check_grower<XgboostRules>(make_grower, small_trees());
    }
}

TEST(a_tree_of_quantized_gradients_can_be_grown_after_memory_ran_out) {
  const auto make_grower = [] {
    return TreeGrower(xgboost_matrix(false), std::make_shared<EntropyScore>(), TaskRows(kFirstRows), {}, {}, false, 0.0,
                      {}, false, true);
  };
  check_grower<XgboostRules>(make_grower, small_trees());
}

TEST(a_symmetric_tree_can_be_grown_after_memory_ran_out) {
  const auto make_grower = [] { return TreeGrower(xgboost_matrix(false), nullptr, {}, {}, {}, true, 1.0); };
  check_grower<XgboostRules>(make_grower, small_trees());
}

TEST(a_tree_of_lightgbm_can_be_grown_after_memory_ran_out) {
  LightgbmParams params;
  params.loss_guided = true;
  params.max_depth = 0;
  params.max_leaves = 9;
  for (const auto& score : every_kind_of_score()) {
    const auto make_grower = [&] {
      std::optional<TaskRows> tasks;
      if (score != nullptr) tasks.emplace(kFirstRows);
      return TreeGrower(lightgbm_matrix(), score, tasks, {});
    };
    check_grower<LightgbmRules>(make_grower, params);
  }
}

TEST(losses_report_that_memory_ran_out) {
  const std::vector<float> labels(kRows, 1.0f), margins(kRows, 0.5f), weights(kRows, 2.0f);
  const std::vector<double> wide_margins(kRows, 0.5);
  std::vector<node_t> leaves(kRows);
  for (row_t row = 0; row < kRows; ++row) leaves[row] = static_cast<node_t>(row % 3);
  std::vector<GradientPair> pairs(kRows);
  run_out_of_memory([&] {
    ThreadPool pool(3);
    for (const char* name : {"reg:absoluteerror", "reg:quantileerror", "binary:logistic"}) {
      const auto loss = make_loss(name, 1, {});
      loss->gradients({margins, labels, weights}, pool, pairs);
      std::vector<float> values(3);
      loss->refit_leaf_values(leaves, {margins, labels, weights}, 0, 0.3f, pool, values);
    }
    for (const char* name : {"regression_l1", "quantile", "binary"}) {
      const auto loss = lightgbm::make_loss(name, 1, {});
      loss->gradients({wide_margins, labels, weights}, pool, pairs);
      std::vector<double> values(3);
      loss->refit_leaf_values(leaves, {wide_margins, labels, weights}, 0, 0.3, pool, values);
    }
  });
}

TEST(forests_of_any_labels_report_that_memory_ran_out) {
  const auto one = labels_of(1), three = labels_of(3);
  check_forest(as_view(one, 1));
  check_forest(as_view(three, 3));
  check_forest(as_view(three, 3), {ProjectionKind::sparse, 2});
  std::vector<std::uint32_t> classes;
  std::vector<std::uint64_t> starts{0};
  for (row_t row = 0; row < kTable.n_rows; ++row) {
    classes.push_back(row % 5);
    starts.push_back(classes.size());
  }
  check_forest(LabelsView{{}, classes, 5});
  check_forest(LabelsView{starts, classes, 5});
}

TEST(a_multi_task_tree_reports_that_memory_ran_out) {
  const std::vector<std::uint32_t> class_starts{0, 2, 5, 7};
  std::vector<std::uint32_t> labels;
  const auto tasks = tasks_of_rows();
  auto stream = test_stream(4);
  for (const task_t task : tasks)
    labels.push_back(class_starts[task] +
                     static_cast<std::uint32_t>(stream.below(class_starts[task + 1] - class_starts[task])));
  for (const TaskCriterion criterion : {TaskCriterion::joint, TaskCriterion::max, TaskCriterion::concat}) {
    MTTreeParams params;
    params.criterion = criterion;
    const auto grow_with = [&](int n_threads) {
      ThreadPool pool(n_threads);
      const SortedColumns columns(kTable.view(), pool);
      return grow_mt_tree(columns, {class_starts, labels, {}}, params, 0, pool, [] {});
    };
    const MTDecisionTree expected = grow_with(1);
    std::optional<MTDecisionTree> found;
    run_out_of_memory([&] { found = grow_with(3); });
    check(found->decided_classes == expected.decided_classes && found->gains == expected.gains);
  }
}

TEST(paths_of_compression_report_that_memory_ran_out) {
  const auto labels = labels_of(2);
  const auto tasks = tasks_of_rows();
  ThreadPool serial(1);
  const FeatureColumns columns(kTable.view(), serial);
  const auto trees = grow_trees({columns, as_view(labels, 2), tasks, 3, {}, {}}, few_trees(), 0, serial, [] {});
  const RowsView rows{kTable.view(), tasks};
  const StagewiseData data{trees, rows, as_view(labels, 2), rows, as_view(labels, 2)};
  const StagewiseParams params{0.05, 20};
  const auto expected = walk_stagewise(std::vector{data, data}, params, serial, [] {});
  std::vector<StagewisePath> found;
  run_out_of_memory([&] {
    ThreadPool pool(2);
    found = walk_stagewise(std::vector{data, data}, params, pool, [] {});
  });
  check(found.back().nodes == expected.back().nodes);
}

TEST(a_round_of_boosting_that_runs_out_of_memory_changes_nothing) {
  const auto matrix = make_matrix(kTable);
  std::vector<float> labels;
  for (const double label : labels_of(3)) labels.push_back(static_cast<float>(label));
  for (const OutputLossKind kind : {OutputLossKind::squared, OutputLossKind::absolute, OutputLossKind::logistic})
    for (const bool relabels : {true, false}) {
      BoostingParams params;
      params.relabels = relabels;
      params.tree.max_depth = 3;
      params.tree.max_features = 3;
      params.projection = ForestProjection{ProjectionKind::gaussian, 1};
      const OutputLoss loss(kind, 3, 1.0f);
      const LabelledRows rows{labels, {}, kTable.n_rows, 3};
      ThreadPool serial(1);
      ProjectedBoosting expected(*matrix, loss, rows, params, {}, {}, serial), found(expected);
      for (int round = 0; round < 2; ++round) {
        expected.update(serial, [] {});
        run_out_of_memory([&] {
          ThreadPool pool(3);
          found.update(pool, [] {});
        });
        check(std::ranges::equal(found.margins(), expected.margins()));
        check(found.model().trees.size() == expected.model().trees.size());
        check(found.model().output_weights == expected.model().output_weights);
        check(found.mean_loss() == expected.mean_loss());
      }
    }
}

}  // namespace mtboost::test::test_allocation
