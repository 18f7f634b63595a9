// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "grow/lightgbm_rules.hpp"
#include "grow/xgboost_rules.hpp"
#include "tables.hpp"
#include "trees.hpp"

namespace mtboost::test::test_lightgbm_grower {
namespace {

using Missing = LightgbmBins::Missing;

constexpr row_t kRows = 20000;
// Five tasks, one of them tiny.
const std::vector<row_t> kFirstRows{0, 9000, 9003, 15000, 18000, kRows};

// Bins of every kind, one and two bytes each.
LightgbmTable mixed_table() {
  std::vector<LightgbmBins> features(12, LightgbmBins{20, 20, 0, Missing::none, false});
  features[1] = {20, 19, 0, Missing::nan, false};
  features[2] = {3, 0, 1, Missing::nan, true};  // one against the rest
  features[4] = {20, 7, 3, Missing::zero, false};
  features[5] = {40, 0, 0, Missing::none, true};
  features[7] = {2, 1, 1, Missing::nan, false};
  features[8] = {20, 7, 0, Missing::zero, false};  // a scan forgets the frequent bin
  features[9] = {300, 299, 299, Missing::nan, false};
  return random_table(kRows, features, 0.5, 5);
}

TreeGrower make_grower(const std::shared_ptr<const SplitScore>& score, bool is_sparse = false) {
  std::optional<TaskRows> tasks;
  if (score != nullptr) tasks.emplace(kFirstRows);
  return {make_matrix(mixed_table(), shuffled(kRows), 1, is_sparse), score, tasks, {}};
}

LightgbmParams params_of(int max_leaves) {
  LightgbmParams params;
  params.loss_guided = true;
  params.max_depth = 0;
  params.max_leaves = max_leaves;
  return params;
}

LightgbmParams sampling() {
  LightgbmParams params = params_of(31);
  params.subsample = 0.7;
  params.colsample_bytree = 0.9;
  params.colsample_bynode = 0.5;
  params.seed = 11;
  return params;
}

LightgbmParams constrained() {
  LightgbmParams params = params_of(40);
  params.monotone_constraints = {1, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  params.monotone_penalty = 0.5;
  params.interaction_constraints = {{0, 1, 2, 5}, {3, 4, 9}};
  params.feature_contri = {1.0, 0.5, 1.0, 1.0, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0};
  params.path_smooth = 2.0;
  params.lambda_l1 = 0.1;
  return params;
}

std::vector<TreeGrower::Grown> grow_trees(TreeGrower& grower, const LightgbmParams& params, int n_threads,
                                          const std::vector<std::uint8_t>& is_active = {}) {
  std::vector<TreeGrower::Grown> trees;
  for (std::uint64_t number = 0; number < 2; ++number)
    trees.push_back(grow<LightgbmRules>(grower, params, random_gradients(kRows), {number, is_active}, n_threads));
  return trees;
}

}  // namespace

TEST(lightgbm_trees_have_the_same_bytes_for_any_number_of_threads) {
  for (const auto& score : every_kind_of_score())
    for (const LightgbmParams& params : {params_of(31), sampling(), constrained()})
      for (const bool is_sparse : {false, true}) {
        TreeGrower serial = make_grower(score, is_sparse);
        const auto expected = grow_trees(serial, params, 1);
        check(expected.front().tree.n_nodes() > 20);
        check(!are_equal(expected.front().tree, expected.back().tree) || params.subsample == 1.0);
        TreeGrower parallel = make_grower(score, is_sparse);
        check(are_equal(grow_trees(parallel, params, is_sparse ? 2 : 7), expected));
      }
}

TEST(lightgbm_trees_do_not_depend_on_the_layout_of_the_table) {
  const auto pairs = whole_gradients(kRows, 3);  // what the others leave of a task's sums is exact
  for (const auto& score : every_kind_of_score())
    for (const LightgbmParams& params : {params_of(31), constrained()}) {
      TreeGrower dense = make_grower(score), sparse = make_grower(score, true);
      check(sparse.matrix()->is_sparse());
      check(are_equal({grow<LightgbmRules>(sparse, params, pairs, {}, 2)},
                      {grow<LightgbmRules>(dense, params, pairs, {}, 2)}));
    }
}

TEST(rows_of_a_task_that_has_quit_take_no_part_in_lightgbms_trees) {
  for (const bool is_sparse : {false, true}) {
    TreeGrower grower = make_grower(std::make_shared<EntropyScore>(), is_sparse);
    const auto serial = grow_trees(grower, params_of(31), 1, {1, 1, 0, 1, 1});
    check(are_equal(grow_trees(grower, params_of(31), 7, {1, 1, 0, 1, 1}), serial));
    const auto caller_rows = grower.matrix()->caller_rows();
    const auto& leaves = serial.front().leaves;
    ThreadPool pool(1);
    const auto found = find_leaves(serial.front().tree, *grower.matrix(), pool);
    for (row_t row = 0; row < kRows; ++row) {
      const node_t leaf = leaves[caller_rows[row]];
      const bool has_quit = row >= kFirstRows[2] && row < kFirstRows[3];
      check((leaf < 0) == has_quit);
      check(found[caller_rows[row]] == (leaf < 0 ? ~leaf : leaf));
    }
  }
}

TEST(a_grower_that_was_interrupted_grows_lightgbms_tree_afterwards) {
  TreeGrower grower = make_grower(std::make_shared<EntropyScore>());
  const LightgbmParams params = params_of(31);
  const auto expected = grow_trees(grower, params, 2);
  for (int n_steps = 0; n_steps < 3; ++n_steps)
    check_throws<std::runtime_error>("interrupt", [&] {
      int step = 0;
      grower.grow(LightgbmRules(*grower.matrix(), params), random_gradients(kRows), {}, 2, [&] {
        if (step++ == n_steps) throw std::runtime_error("interrupt");
      });
    });
  check(are_equal(grow_trees(grower, params, 2), expected));
}

// ---- weird input: a root that stays a leaf --------------------------------------------------------------------------

namespace {

constexpr LightgbmBins kNumbers{3, 3, 0, Missing::none, false};
constexpr LightgbmBins kOneBin{1, 1, 0, Missing::none, false};
const std::vector<GradientPair> kThreeRows{{2.0f, 1.0f}, {-4.0f, 1.0f}, {3.0f, 1.0f}};

LightgbmParams small_leaves() {
  LightgbmParams params = params_of(31);
  params.min_data_in_leaf = 1;
  params.lambda_l2 = 1.0;
  return params;
}

// The root's leaf value, learning rate included, of a table that cannot be split.
double only_leaf(const LightgbmTable& table, const std::vector<GradientPair>& pairs) {
  double value = 0.0;
  for (const bool is_sparse : {false, true}) {
    TreeGrower grower(make_matrix(table, {}, 1, is_sparse), std::make_shared<EntropyScore>(),
                      TaskRows({0, 1, table.n_rows}), {});
    const auto grown = grow<LightgbmRules>(grower, small_leaves(), pairs, {}, 2);
    check(grown.tree.n_nodes() == 1);
    check(grown.leaves == UnsetArray<node_t>(table.n_rows, 0));
    check(!is_sparse || grown.tree.value.front() == value);
    value = grown.tree.value.front();
  }
  return value;
}

}  // namespace

TEST(one_row_makes_one_leaf_of_lightgbm) {
  check(only_leaf({{kNumbers, kOneBin}, 1, {1, 0}}, {{2.0f, 1.0f}}) == -2.0 / (1.0 + 1.0) * 0.1);
}

TEST(features_of_one_bin_make_one_leaf_of_lightgbm) {
  check(only_leaf({{kOneBin, kOneBin}, 3, {0, 0, 0, 0, 0, 0}}, kThreeRows) == -1.0 / (3.0 + 1.0) * 0.1);
}

TEST(rows_that_share_all_bins_make_one_leaf_of_lightgbm) {
  const LightgbmBins nan{3, 2, 0, Missing::nan, false}, zero{3, 1, 0, Missing::zero, false};
  const LightgbmBins categories{5, 0, 0, Missing::nan, true}, few_categories{3, 0, 1, Missing::nan, true};
  for (LightgbmBins bins : {kNumbers, nan, zero, categories, few_categories})
    for (bin_t shared = 0; shared < bins.n_bins; ++shared)
      for (bins.frequent = 0; bins.frequent < bins.n_bins; ++bins.frequent)
        check(only_leaf({{bins}, 3, {shared, shared, shared}}, kThreeRows) == -1.0 / (3.0 + 1.0) * 0.1);
}

TEST(zero_hessians_make_one_leaf_of_lightgbm) {
  check(only_leaf({{kNumbers}, 3, {0, 1, 2}}, {{2.0f, 0.0f}, {-4.0f, 0.0f}, {3.0f, 0.0f}}) == -1.0 / 1.0 * 0.1);
}

TEST(wrong_calls_of_lightgbms_rules_are_refused) {
  using Error = std::invalid_argument;
  const auto matrix = make_matrix(random_table(3, {kNumbers, kNumbers}, 0.0, 1));
  TreeGrower grower(matrix, nullptr, std::nullopt, {});
  LightgbmParams params = small_leaves();
  check_throws<Error>("gradients have 2 rows, the data 3",
                      [&] { grow<LightgbmRules>(grower, params, std::span(kThreeRows).first(2), {}, 1); });
  const std::vector<feature_t> features{2};
  check_throws<Error>("features must ascend",
                      [&] { grow<LightgbmRules>(grower, params, kThreeRows, {0, {}, {}, features}, 1); });
  params.feature_contri = {1.0};
  check_throws<Error>("one factor per feature", [&] { LightgbmRules(*matrix, params); });
  params = small_leaves();
  params.monotone_constraints = {1, 1, 1};
  check_throws<Error>("more entries than features", [&] { grow<LightgbmRules>(grower, params, kThreeRows, {}, 1); });
  const auto xgboosts = make_matrix(random_table(3, std::vector<Feature>{{3}}, 1));
  check_throws<Error>("grow on LightGBM's bins", [&] { LightgbmRules(*xgboosts, small_leaves()); });
  check_throws<Error>("grow on XGBoost's bins", [&] { XgboostRules(*matrix, {}); });
}

}  // namespace mtboost::test::test_lightgbm_grower
