// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "check.hpp"
#include "grow/small_models.hpp"
#include "grow/tree_grower.hpp"
#include "grow/xgboost_rules.hpp"

namespace mtboost::test::test_small_models {
namespace {

constexpr std::size_t kFeatures = 4;
const std::vector<row_t> kFirstRows{0, 1, 3, 3, 40, 300, 420};
const std::vector<row_t> kFirstValidRows{0, 5, 5, 9, 20, 20, 30};

// Ties (which may be codes of categories), missing values and a constant column.
std::vector<float> random_cells(std::size_t n_rows, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> cells(n_rows * kFeatures);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const float value = normal(engine);
    switch (i % kFeatures) {
      case 0: cells[i] = value; break;
      case 1: cells[i] = std::round(std::fabs(4.0f * value)); break;
      case 2: cells[i] = value > 0.5f ? std::numeric_limits<float>::quiet_NaN() : value; break;
      default: cells[i] = 1.0f;
    }
  }
  return cells;
}

std::vector<GradientPair> random_pairs(std::size_t n_rows, bool are_wide) {
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  std::vector<GradientPair> pairs(n_rows);
  for (GradientPair& pair : pairs)
    pair = {normal(engine) * (are_wide ? std::pow(10.0f, 10.0f * normal(engine)) : 1.0f), 1.0f};
  return pairs;
}

struct Setting {
  XgboostParams params{};
  bool are_wide = false;
  std::vector<std::uint8_t> is_categorical = std::vector<std::uint8_t>(kFeatures);
};

std::vector<Setting> settings() {
  std::vector<Setting> all(7);
  all[1].are_wide = true;
  all[2].params.loss_guided = true;
  all[2].params.max_leaves = 5;
  all[3].params.monotone_constraints = {1, -1, 0, 0};
  all[3].params.min_split_loss = 0.5f;
  all[4].params = all[3].params;
  all[4].params.arithmetic = Arithmetic::xgboost_3_4;
  all[5].is_categorical[1] = all[6].is_categorical[1] = 1;
  all[6].params.max_cat_to_onehot = 100;
  return all;
}

struct Grown {
  SmallTrees trees;
  std::vector<float> margins, valid_margins;
};

Grown grow(const Setting& setting, int n_threads) {
  const auto cells = random_cells(kFirstRows.back(), 1), valid = random_cells(kFirstValidRows.back(), 2);
  const auto view = [](const std::vector<float>& of, std::size_t n_rows) {
    return MatrixView<float>{of.data(), n_rows, kFeatures, kFeatures, 1};
  };
  SmallModels models({view(cells, kFirstRows.back()), kFirstRows},
                     {view(valid, kFirstValidRows.back()), kFirstValidRows}, setting.params,
                     {.is_categorical = setting.is_categorical}, n_threads);
  Grown grown{{}, std::vector<float>(kFirstRows.back()), std::vector<float>(kFirstValidRows.back())};
  std::vector<std::uint32_t> all(models.n_models());
  std::iota(all.begin(), all.end(), 0u);
  const auto pairs = random_pairs(kFirstRows.back(), setting.are_wide);
  for (int round = 0; round < 2; ++round) models.grow(all, pairs, grown.margins, grown.valid_margins, n_threads);
  models.keep(4, 1);
  grown.trees = models.trees();
  return grown;
}

std::span<const std::int32_t> categories_of(const SmallTrees& trees, std::size_t node) {
  const auto at = std::ranges::find(trees.categorical_nodes, static_cast<std::int64_t>(node));
  check(at != trees.categorical_nodes.end());
  const auto place = static_cast<std::size_t>(at - trees.categorical_nodes.begin());
  const auto begin = static_cast<std::size_t>(trees.category_starts[place]);
  return std::span(trees.categories).subspan(begin, static_cast<std::size_t>(trees.category_starts[place + 1]) - begin);
}

}  // namespace

TEST(sums_are_exact_where_no_addition_can_round) {
  check(are_sums_exact(std::vector<GradientPair>{{1.5f, 1.0f}, {-3.25f, 1.0f}}));
  check(are_sums_exact(std::vector<GradientPair>{{0.0f, 0.0f}}));
  check(!are_sums_exact(std::vector<GradientPair>{{1e20f, 1.0f}, {1e-20f, 1.0f}}));
  check(!are_sums_exact(std::vector<GradientPair>{{1.0f, 1.0f}, {1.0f, 1e-30f}}));
  const float least = std::numeric_limits<float>::denorm_min();
  check(are_sums_exact(std::vector<GradientPair>{{least, least}, {3 * least, least}}));
}

TEST(trees_are_those_of_the_grower) {
  std::size_t n_categorical = 0;
  for (const Setting& setting : settings()) {
    const Grown grown = grow(setting, 1);
    const auto cells = random_cells(kFirstRows.back(), 1);
    const auto pairs = random_pairs(kFirstRows.back(), setting.are_wide);
    for (std::size_t model = 0; model + 1 < kFirstRows.size(); ++model) {
      const row_t first = kFirstRows[model], n_rows = kFirstRows[model + 1] - first;
      if (n_rows == 0) continue;
      const MatrixView<float> own{cells.data() + first * kFeatures, n_rows, kFeatures, kFeatures, 1};
      const SortedFeatures sorted(own, setting.params.arithmetic);
      std::vector<std::uint32_t> offsets{0};
      std::vector<float> values, least;
      for (feature_t feature = 0; feature < kFeatures; ++feature) {
        auto edges = sorted.edges(feature, own);
        if (setting.is_categorical[feature] != 0) {
          float largest = 0.0f;
          for (std::size_t row = 0; row < n_rows; ++row) largest = std::max(largest, own(row, feature));
          edges.resize(static_cast<std::size_t>(largest) + 1);
          std::iota(edges.begin(), edges.end(), 0.0f);
        }
        values.insert(values.end(), edges.begin(), edges.end());
        offsets.push_back(static_cast<std::uint32_t>(values.size()));
        least.push_back(edges.empty() ? 0.0f : sorted.min_value(feature, own));
      }
      BinnedMatrixBuilder builder({offsets, values, least, setting.is_categorical}, n_rows,
                                  std::vector<std::uint8_t>{0, 0, 1, 0}, {}, false);
      builder.add(own, 1);
      TreeGrower grower(std::make_shared<const BinnedMatrix>(std::move(builder).build()), nullptr, std::nullopt, {});
      const XgboostRules rules(*grower.matrix(), setting.params);
      const auto expected = grower.grow(rules, std::span(pairs).subspan(first, n_rows), {}, 1, {}).tree;
      const auto tree = static_cast<std::size_t>(grown.trees.first_trees[model]);
      const auto begin = static_cast<std::size_t>(grown.trees.first_nodes[tree]);
      check(grown.trees.first_nodes[tree + 1] - grown.trees.first_nodes[tree] == expected.n_nodes());
      for (std::size_t node = 0; node < expected.left.size(); ++node) {
        const bool is_leaf = expected.is_leaf(static_cast<node_t>(node));
        check(grown.trees.left[begin + node] == expected.left[node]);
        check(grown.trees.parent[begin + node] == expected.parent[node]);
        check(grown.trees.hessian[begin + node] == static_cast<float>(expected.hessian[node]));
        check(grown.trees.base_weight[begin + node] == static_cast<float>(expected.base_weight[node]));
        check(grown.trees.gain[begin + node] == static_cast<float>(expected.gain[node]));
        if (is_leaf) {
          check(grown.trees.condition[begin + node] == static_cast<float>(expected.value[node]));
        } else {
          check(grown.trees.feature[begin + node] == expected.feature[node]);
          check(grown.trees.condition[begin + node] ==
                threshold(expected, static_cast<node_t>(node), grower.matrix()->edges()));
          if (setting.is_categorical[expected.feature[node]] != 0) {
            auto listed = expected.listed_bins[node];
            std::ranges::sort(listed);
            check(std::ranges::equal(categories_of(grown.trees, begin + node), listed));
            ++n_categorical;
          }
        }
      }
    }
  }
  check(n_categorical > 10);
}

TEST(trees_do_not_depend_on_the_threads) {
  for (const Setting& setting : settings()) {
    const Grown one = grow(setting, 1), three = grow(setting, 3);
    check(one.trees.condition == three.trees.condition && one.trees.first_nodes == three.trees.first_nodes);
    check(one.margins == three.margins && one.valid_margins == three.valid_margins);
  }
}

TEST(outputs_are_grown_like_models_of_one_output) {
  const auto cells = random_cells(kFirstRows.back(), 1), valid = random_cells(kFirstValidRows.back(), 2);
  const std::size_t n_rows = kFirstRows.back(), n_valid_rows = kFirstValidRows.back(), n_outputs = 3;
  const auto pairs = random_pairs(n_rows * n_outputs, false);
  std::vector<std::uint32_t> all(kFirstRows.size() - 1);
  std::iota(all.begin(), all.end(), 0u);
  const auto grown = [&](std::span<const GradientPair> own, std::size_t n, std::vector<float>& valid_margins) {
    SmallModels models({{cells.data(), n_rows, kFeatures, kFeatures, 1}, kFirstRows},
                       {{valid.data(), n_valid_rows, kFeatures, kFeatures, 1}, kFirstValidRows}, {}, {.n_outputs = n},
                       2);
    std::vector<float> margins(n_rows * n);
    valid_margins.assign(n_valid_rows * n, 0.0f);
    models.grow(all, own, margins, valid_margins, 2);
    return margins;
  };
  std::vector<float> valid_margins, own_valid_margins;
  const auto margins = grown(pairs, n_outputs, valid_margins);
  for (std::size_t output = 0; output < n_outputs; ++output) {
    std::vector<GradientPair> own_pairs(n_rows);
    for (std::size_t row = 0; row < n_rows; ++row) own_pairs[row] = pairs[row * n_outputs + output];
    const auto own = grown(own_pairs, 1, own_valid_margins);
    for (std::size_t row = 0; row < n_rows; ++row) check(margins[row * n_outputs + output] == own[row]);
    for (std::size_t row = 0; row < n_valid_rows; ++row)
      check(valid_margins[row * n_outputs + output] == own_valid_margins[row]);
  }
}

TEST(later_trees_are_forgotten) {
  const SmallTrees trees = grow(settings().front(), 1).trees;
  check((trees.first_trees == std::vector<std::int64_t>{0, 2, 4, 6, 8, 9, 11}));  // of model 4 one
}

}  // namespace mtboost::test::test_small_models
