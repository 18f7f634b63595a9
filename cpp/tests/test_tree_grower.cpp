// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "grow/xgboost_rules.hpp"
#include "tables.hpp"
#include "trees.hpp"

namespace mtboost::test::test_tree_grower {
namespace {

constexpr row_t kRows = 20000;

// Numeric and categorical features, one and two bytes a bin, missing values.
Table mixed_table() {
  std::vector<Feature> features(12, Feature{20, 0.1});
  features[2] = {3, 0.0, true};
  features[5] = {12, 0.2, true};
  features[9] = {300, 0.1};
  return random_table(kRows, features, 5);
}

// Five tasks, one of them tiny.
const std::vector<row_t> kFirstRows{0, 9000, 9003, 15000, 18000, kRows};

TreeGrower make_grower(const std::shared_ptr<const SplitScore>& score) {
  std::optional<TaskRows> tasks;
  if (score != nullptr) tasks.emplace(kFirstRows);
  return {make_matrix(mixed_table(), shuffled(kRows)), score, tasks, {}};
}

TreeGrower::Grown grow(TreeGrower& grower, const XgboostParams& params, std::span<const GradientPair> pairs,
                       const TreeGrower::Sample& sample, int n_threads) {
  return test::grow<XgboostRules>(grower, params, pairs, sample, n_threads);
}

std::vector<TreeGrower::Grown> grow_trees(TreeGrower& grower, const XgboostParams& params, int n_threads,
                                          const std::vector<std::uint8_t>& is_active = {}) {
  std::vector<TreeGrower::Grown> trees;
  for (std::uint64_t number = 0; number < 2; ++number)
    trees.push_back(grow(grower, params, random_gradients(kRows), {number, is_active}, n_threads));
  return trees;
}

XgboostParams sampling() {
  XgboostParams params;
  params.subsample = 0.7;
  params.colsample_bytree = 0.9;
  params.colsample_bynode = 0.5;
  params.seed = 11;
  return params;
}

XgboostParams loss_guided() {
  XgboostParams params;
  params.loss_guided = true;
  params.max_depth = 0;
  params.max_leaves = 40;
  params.monotone_constraints = {1, -1};
  params.interaction_constraints = {{0, 1, 2, 5}, {3, 4, 9}};
  return params;
}

}  // namespace

TEST(trees_have_the_same_bytes_for_any_number_of_threads) {
  for (const auto& score : every_kind_of_score())
    for (const XgboostParams& params : {XgboostParams{}, sampling(), loss_guided()}) {
      TreeGrower serial = make_grower(score);
      const auto expected = grow_trees(serial, params, 1);
      check(expected.front().tree.n_nodes() > 20);
      check(!are_equal(expected.front().tree, expected.back().tree) || params.subsample == 1.0);
      for (const int n_threads : {2, 7}) {
        TreeGrower parallel = make_grower(score);
        check(are_equal(grow_trees(parallel, params, n_threads), expected));
      }
    }
}

TEST(trees_of_quantized_gradients_have_the_same_bytes_for_any_number_of_threads) {
  const auto matrix = make_matrix(mixed_table(), shuffled(kRows));
  for (const auto& score : every_kind_of_score())
    for (const XgboostParams& params : {XgboostParams{}, sampling(), loss_guided()}) {
      const auto grow_with = [&](int n_threads) {
        TreeGrower grower(matrix, score, TaskRows(kFirstRows), {}, {}, false, 0.0, {}, false, true);
        return grow_trees(grower, params, n_threads);
      };
      const auto expected = grow_with(1);
      check(expected.front().tree.n_nodes() > 20);
      check(!are_equal(expected.front().tree, expected.back().tree));  // rounded anew
      for (const int n_threads : {2, 7}) check(are_equal(grow_with(n_threads), expected));
    }
}

TEST(task_splits_have_the_same_bytes_for_any_number_of_threads) {
  const auto matrix = make_matrix(mixed_table(), shuffled(kRows));
  const auto grow_with = [&](int n_threads) {
    TreeGrower grower(matrix, nullptr, std::nullopt, {}, TaskColumn{2, 0.5});
    return grow_trees(grower, {}, n_threads);
  };
  const auto expected = grow_with(1);
  const Tree& tree = expected.front().tree;
  bool has_task_split = false;
  for (node_t node = 0; node < tree.n_nodes(); ++node)
    has_task_split |= !tree.is_leaf(node) && tree.feature[static_cast<std::size_t>(node)] == 2;
  check(has_task_split);
  for (const int n_threads : {2, 7}) check(are_equal(grow_with(n_threads), expected));
}

TEST(symmetric_trees_have_the_same_bytes_for_any_number_of_threads) {
  const auto matrix = make_matrix(mixed_table(), shuffled(kRows));
  XgboostParams constrained = loss_guided();
  constrained.max_depth = 5;
  for (const XgboostParams& params : {XgboostParams{}, sampling(), constrained}) {
    const auto grow_with = [&](int n_threads) {
      TreeGrower grower(matrix, nullptr, std::nullopt, {}, {}, /* is_symmetric: */ true);
      return grow_trees(grower, params, n_threads);
    };
    const auto expected = grow_with(1);
    check(expected.front().tree.n_nodes() > 20);
    check(params.max_leaves == 0 || expected.front().tree.n_nodes() < 2 * params.max_leaves);
    for (const int n_threads : {2, 7}) check(are_equal(grow_with(n_threads), expected));
  }
}

TEST(trees_of_wide_tables_have_the_same_bytes_for_any_number_of_threads) {
  const auto matrix = make_matrix(random_table(2000, std::vector<Feature>(300, Feature{200, 0.1}), 8));
  XgboostParams params;
  params.max_depth = 4;
  for (const bool is_symmetric : {false, true}) {
    const auto grow_with = [&](int n_threads) {
      TreeGrower grower(matrix, nullptr, std::nullopt, {}, {}, is_symmetric);
      return grow(grower, params, random_gradients(2000), {}, n_threads);
    };
    const auto expected = grow_with(1);
    check(expected.tree.n_nodes() > 20);
    for (const int n_threads : {2, 7}) check(are_equal({grow_with(n_threads)}, {expected}));
  }
}

TEST(rows_of_a_task_that_has_quit_take_no_part) {
  TreeGrower grower = make_grower(std::make_shared<EntropyScore>());
  const auto serial = grow_trees(grower, {}, 1, {1, 1, 0, 1, 1});
  check(are_equal(grow_trees(grower, {}, 7, {1, 1, 0, 1, 1}), serial));
  const auto caller_rows = grower.matrix()->caller_rows();
  for (row_t row = 0; row < kRows; ++row) {
    const bool has_quit = row >= kFirstRows[2] && row < kFirstRows[3];
    check((serial.front().leaves[caller_rows[row]] < 0) == has_quit);
  }
}

TEST(a_grower_that_was_interrupted_grows_the_same_tree_afterwards) {
  TreeGrower grower = make_grower(std::make_shared<EntropyScore>());
  const auto expected = grow_trees(grower, {}, 2);
  for (int n_steps = 0; n_steps < 3; ++n_steps)
    check_throws<std::runtime_error>("interrupt", [&] {
      int step = 0;
      const XgboostParams params;
      grower.grow(XgboostRules(*grower.matrix(), params), random_gradients(kRows), {}, 2, [&] {
        if (step++ == n_steps) throw std::runtime_error("interrupt");
      });
    });
  check(are_equal(grow_trees(grower, {}, 2), expected));
}

TEST(an_error_in_a_score_comes_home_from_its_thread) {
  TreeGrower grower = make_grower(std::make_shared<CallableScore>(
      [](std::span<const float>, const MatrixView<float>&, std::span<double> scores) { scores[0] = std::nan(""); }));
  check_throws<std::invalid_argument>("not finite", [&] { grow(grower, {}, random_gradients(kRows), {}, 7); });
}

// ---- weird input: a root that stays a leaf --------------------------------------------------------------------------

namespace {

// The root's leaf value, learning rate included, of a table that cannot be split.
double only_leaf(const Table& table, const std::vector<GradientPair>& pairs, const XgboostParams& params) {
  TreeGrower grower(make_matrix(table), std::make_shared<EntropyScore>(), TaskRows({0, 1, table.n_rows}), {});
  const auto grown = grow(grower, params, pairs, {}, 2);
  check(grown.tree.n_nodes() == 1);
  check(grown.leaves == UnsetArray<node_t>(table.n_rows, 0));
  return grown.tree.value.front();
}

}  // namespace

TEST(one_row_makes_one_leaf) {
  check(only_leaf({{{3}, {3}}, 1, {0.0f, 1.0f}}, {{2.0f, 1.0f}}, {}) == -2.0f / (1.0f + 1.0f) * 0.3f);
}

TEST(one_bin_makes_one_leaf) {
  check(only_leaf({{{1}}, 3, {0.0f, 0.0f, 0.0f}}, {{2.0f, 1.0f}, {-4.0f, 1.0f}, {3.0f, 1.0f}}, {}) ==
        -1.0f / (3.0f + 1.0f) * 0.3f);
}

TEST(missing_values_alone_make_one_leaf) {
  for (const bin_t n_bins : {0, 1, 3})
    check(only_leaf({{{n_bins, 1.0}}, 3, {kMissing, kMissing, kMissing}}, {{2.0f, 1.0f}, {-4.0f, 1.0f}, {3.0f, 1.0f}},
                    {}) == -1.0f / (3.0f + 1.0f) * 0.3f);
}

TEST(zero_hessians_make_one_leaf_of_value_zero) {
  const Table table{{{3}}, 3, {0.0f, 1.0f, 2.0f}};
  XgboostParams unregularised;
  unregularised.min_child_weight = unregularised.reg_lambda = 0.0f;
  for (const XgboostParams& params : {XgboostParams{}, unregularised})
    check(only_leaf(table, {{2.0f, 0.0f}, {-4.0f, 0.0f}, {3.0f, 0.0f}}, params) == 0.0f);
}

TEST(a_child_without_hessian_is_not_cut_off) {
  XgboostParams params;
  params.min_child_weight = params.reg_lambda = 0.0f;
  const Table table{{{3}}, 3, {0.0f, 1.0f, 2.0f}};
  TreeGrower grower(make_matrix(table), nullptr, std::nullopt, {});
  const std::vector<GradientPair> pairs{{-1.0f, 0.0f}, {-4.0f, 1.0f}, {3.0f, 1.0f}};
  const Tree tree = grow(grower, params, pairs, {}, 1).tree;
  check(tree.n_nodes() == 3);
  check(tree.position.front() == 2);
  check(tree.value[1] == 5.0f / 1.0f * 0.3f);
  check(tree.value[2] == -3.0f / 1.0f * 0.3f);
}

TEST(wrong_calls_are_refused) {
  using Error = std::invalid_argument;
  const auto matrix = make_matrix(random_table(3, {{3}}, 1));
  TreeGrower grower(matrix, nullptr, std::nullopt, {});
  const std::vector<GradientPair> pairs(3, GradientPair{1.0f, 1.0f});
  XgboostParams endless;
  endless.max_depth = 0;
  check_throws<Error>("a tree never ends", [&] { grow(grower, endless, pairs, {}, 1); });
  check_throws<Error>("gradients have 2 rows, the data 3", [&] { grow(grower, {}, std::span(pairs).first(2), {}, 1); });
  const std::vector<std::uint8_t> flags{1, 1};
  check_throws<Error>("one flag per task", [&] { grow(grower, {}, pairs, {0, flags}, 1); });
  check_throws<Error>("needs tasks", [&] { TreeGrower(matrix, std::make_shared<EntropyScore>(), std::nullopt, {}); });
  check_throws<Error>("cover all rows", [&] { TreeGrower(matrix, nullptr, TaskRows({0, 2}), {}); });
  check_throws<Error>("one weight per feature", [&] { TreeGrower(matrix, nullptr, std::nullopt, {1.0f, 1.0f}); });

  const Table table{{{3}, {2, 0.0, true}, {2, 0.1, true}}, 2, {0.0f, 0.0f, 1.0f, 1.0f, 1.0f, kMissing}};
  const auto with_tasks = make_matrix(table);
  const auto score = std::make_shared<EntropyScore>();
  const auto make = [&](const TaskColumn& column) { TreeGrower(with_tasks, nullptr, std::nullopt, {}, column); };
  make({1, 0.0});
  check_throws<Error>("must be a category", [&] { make({0, 1.0}); });
  check_throws<Error>("every row needs a task", [&] { make({2, 1.0}); });
  check_throws<Error>("not one of the features", [&] { make({3, 1.0}); });
  check_throws<Error>("task_penalty must be a finite number >= 0, found -1", [&] { make({1, -1.0}); });
  check_throws<Error>("plain score", [&] { TreeGrower(with_tasks, score, TaskRows({0, 2}), {}, TaskColumn{1, 1.0}); });
}

}  // namespace mtboost::test::test_tree_grower
