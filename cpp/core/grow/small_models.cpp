// SPDX-License-Identifier: Apache-2.0
#include "grow/small_models.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "base/require.hpp"
#include "grow/tree_grower.hpp"
#include "grow/xgboost_rules.hpp"
#include "split/unseen_values.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kModelsPerBlock = 8;
constexpr std::size_t kStepsPerCell = 16;  // a tree visits the cells of its model once a level

void check_rows(const SmallModels::Rows& rows, std::size_t n_models, const char* name) {
  const auto& first = rows.first_rows;
  require(first.size() == n_models + 1 && first.front() == 0 && first.back() == rows.cells.n_rows &&
              std::ranges::is_sorted(first),
          std::string(name) + " must ascend from 0 to the number of rows, one entry more than there are models");
}

void require_codes(const MatrixView<float>& cells, std::span<const std::uint8_t> is_categorical) {
  for (std::size_t feature = 0; feature < is_categorical.size(); ++feature) {
    if (is_categorical[feature] == 0) continue;
    for (std::size_t row = 0; row < cells.n_rows; ++row) {
      const float code = cells(row, feature);
      require(std::isnan(code) || (code >= 0.0f && code < float{kMostBins} && std::floor(code) == code),
              "codes of categories must be whole numbers from 0 to 65535");
    }
  }
}

MatrixView<float> cells_of(const SmallModels::Rows& rows, std::size_t model) noexcept {
  MatrixView<float> cells = rows.cells;
  const std::size_t first = rows.first_rows[model];
  cells.data += static_cast<std::ptrdiff_t>(first) * cells.row_stride;
  cells.n_rows = rows.first_rows[model + 1] - first;
  return cells;
}

// XGBoost's bins of categories: every code up to the largest one.
std::vector<float> codes_up_to_largest(const MatrixView<float>& cells, feature_t feature) {
  float largest = 0.0f;
  for (std::size_t row = 0; row < cells.n_rows; ++row) largest = std::fmax(largest, cells(row, feature));
  std::vector<float> codes(static_cast<std::size_t>(largest) + 1);
  std::iota(codes.begin(), codes.end(), 0.0f);
  return codes;
}

std::shared_ptr<const BinnedMatrix> binned(const SortedFeatures& columns, const MatrixView<float>& cells,
                                           std::vector<std::uint8_t> is_categorical) {
  is_categorical.resize(columns.n_features());
  std::vector<std::uint32_t> offsets{0};
  std::vector<float> values, min_values;
  std::vector<std::uint8_t> may_be_missing;
  for (feature_t feature = 0; feature < columns.n_features(); ++feature) {
    const auto edges =
        is_categorical[feature] != 0 ? codes_up_to_largest(cells, feature) : columns.edges(feature, cells);
    values.insert(values.end(), edges.begin(), edges.end());
    offsets.push_back(static_cast<std::uint32_t>(values.size()));
    min_values.push_back(edges.empty() || is_categorical[feature] != 0 ? 0.0f : columns.min_value(feature, cells));
    may_be_missing.push_back(std::ranges::count(columns.bins(feature), SortedFeatures::kMissing) > 0 ? 1 : 0);
  }
  BinnedMatrixBuilder builder({std::move(offsets), std::move(values), std::move(min_values), std::move(is_categorical)},
                              static_cast<row_t>(columns.n_rows()), std::move(may_be_missing), {}, false);
  builder.add(cells, 1);
  return std::make_shared<const BinnedMatrix>(std::move(builder).build());
}

// Seeds of the rows that XGBoost's trees see. Before 3.4 it has drawn one number before the first tree, for columns.
void extend_row_seeds(std::vector<std::uint32_t>& seeds, const XgboostParams& params, std::size_t n_trees) {
  if (seeds.size() >= n_trees) return;
  std::mt19937 engine(static_cast<std::mt19937::result_type>(params.seed));
  engine.discard((params.arithmetic == Arithmetic::xgboost_3_4 ? 0 : 1) + seeds.size());
  while (seeds.size() < 2 * n_trees) seeds.push_back(static_cast<std::uint32_t>(engine()));
}

}  // namespace

SmallModels::SmallModels(Rows rows, Rows valid, XgboostParams params, Options options, int n_threads)
    : rows_(std::move(rows)),
      valid_(std::move(valid)),
      params_(std::move(params)),
      options_(std::move(options)),
      is_plain_(!options_.is_symmetric && std::ranges::none_of(options_.is_categorical, std::identity{}) &&
                !params_.loss_guided && params_.max_leaves <= 0 && params_.max_depth > 0 &&
                params_.monotone_constraints.empty() && params_.interaction_constraints.empty()) {
  require(rows_.cells.n_columns > 0, "the table has no features");
  require(options_.n_outputs > 0, "n_outputs is 0");
  require(options_.is_categorical.empty() || options_.is_categorical.size() == rows_.cells.n_columns,
          "is_categorical needs one flag per feature");
  require(!rows_.first_rows.empty(), "first_rows is empty");
  const std::size_t n_models = rows_.first_rows.size() - 1;
  check_rows(rows_, n_models, "first_rows");
  check_rows(valid_, n_models, "first_valid_rows");
  require(valid_.cells.n_rows == 0 || valid_.cells.n_columns == rows_.cells.n_columns,
          "the rows to validate on have other features");
  require_codes(rows_.cells, options_.is_categorical);
  require_codes(valid_.cells, options_.is_categorical);
  params_.check(static_cast<feature_t>(rows_.cells.n_columns));
  require(options_.is_symmetric ||
              (params_.colsample_bytree == 1.0 && params_.colsample_bylevel == 1.0 && params_.colsample_bynode == 1.0),
          "small models draw no features");
  columns_.resize(n_models);
  bins_.resize(n_models);
  trees_.resize(n_models);
  ThreadPool pool(threads_for(kStepsPerCell * rows_.cells.n_rows * rows_.cells.n_columns, n_threads));
  pool.parallel_for(n_models, [&](std::size_t model) {
    columns_[model] = SortedFeatures(cells_of(rows_, model), params_.arithmetic);
    trees_[model].first_nodes.push_back(0);
  });
}

void SmallModels::grow(std::span<const std::uint32_t> models, std::span<const GradientPair> gradients,
                       std::span<float> margins, std::span<float> valid_margins, int n_threads) {
  require(std::ranges::adjacent_find(models, std::ranges::greater_equal{}) == models.end() &&
              (models.empty() || models.back() < n_models()),
          "models must ascend, and be below the number of models");
  const std::size_t n_outputs = options_.n_outputs;
  require(gradients.size() == n_rows() * n_outputs && margins.size() == n_rows() * n_outputs,
          "gradients and margins need one entry per row and output");
  require(valid_margins.size() == n_valid_rows() * n_outputs,
          "valid_margins needs one entry per row to validate on and output");
  std::size_t n_own_rows = 0, most_trees = 0;
  for (const std::uint32_t model : models) {
    n_own_rows += columns_[model].n_rows();
    most_trees = std::max(most_trees, trees_[model].first_nodes.size());
  }
  if (params_.subsample < 1.0 && !options_.is_symmetric) extend_row_seeds(row_seeds_, params_, most_trees + n_outputs);
  ThreadPool pool(threads_for(kStepsPerCell * n_own_rows * rows_.cells.n_columns * n_outputs, n_threads));
  pool.parallel_for((models.size() + kModelsPerBlock - 1) / kModelsPerBlock, [&](std::size_t block) {
    SortedGrowth growth(params_, options_.draws_unseen);
    const std::size_t end = std::min((block + 1) * kModelsPerBlock, models.size());
    for (std::size_t i = block * kModelsPerBlock; i < end; ++i)
      for (std::size_t output = 0; output < n_outputs; ++output)
        add_tree(models[i], output, gradients, margins, valid_margins, growth);
  });
}

void SmallModels::add_tree(std::size_t model, std::size_t output, std::span<const GradientPair> gradients,
                           std::span<float> margins, std::span<float> valid_margins, SortedGrowth& growth) {
  const std::size_t n_outputs = options_.n_outputs, n_rows = columns_[model].n_rows();
  const std::size_t first = n_outputs * rows_.first_rows[model] + output;
  const std::size_t first_valid = n_outputs * valid_.first_rows[model] + output;
  const bool is_sampled = params_.subsample < 1.0 && !options_.is_symmetric;
  auto own = gradients.subspan(rows_.first_rows[model] * n_outputs, n_rows * n_outputs);
  if (n_outputs > 1 || is_sampled) {
    growth.gradients.resize(n_rows);
    for (std::size_t row = 0; row < n_rows; ++row) growth.gradients[row] = own[row * n_outputs + output];
    if (is_sampled) sample(model, growth.gradients);
    own = growth.gradients;
  }
  if (is_plain_ && are_sums_exact(own))
    growth.grow(columns_[model], cells_of(rows_, model), own);
  else
    grow_on_bins(model, own, growth);
  Grown& grown = trees_[model];
  grown.nodes.insert(grown.nodes.end(), growth.nodes.begin(), growth.nodes.end());
  grown.first_nodes.push_back(static_cast<std::uint32_t>(grown.nodes.size()));
  for (std::size_t row = 0; row < n_rows; ++row)
    margins[first + row * n_outputs] += growth.nodes[static_cast<std::size_t>(growth.leaves[row])].condition;
  const auto valid = cells_of(valid_, model);
  for (std::size_t row = 0; row < valid.n_rows; ++row)
    valid_margins[first_valid + row * n_outputs] += leaf_value(model, growth.nodes, valid, row);
}

float SmallModels::leaf_value(std::size_t model, std::span<const SmallNode> nodes, const MatrixView<float>& cells,
                              std::size_t row) const noexcept {
  const SmallNode* node = nodes.data();
  while (node->left != kNoNode) {
    const float value = cells(row, node->feature);
    bool is_left;
    if (std::isnan(value)) {
      is_left = node->default_left;
    } else if (node->is_categorical) {
      const auto listed = std::span(trees_[model].categories).subspan(node->first_category, node->n_categories);
      is_left = !std::ranges::binary_search(listed, static_cast<std::int32_t>(value));
    } else {
      is_left = value < node->condition;
    }
    node = nodes.data() + node->left + (is_left ? 0 : 1);
  }
  return node->condition;
}

// As XGBoost does in one thread: rows that are not drawn stay, with gradients of 0.
void SmallModels::sample(std::size_t model, std::span<GradientPair> gradients) const {
  std::linear_congruential_engine<std::uint64_t, 16807, 0, std::uint64_t{1} << 63> engine(
      row_seeds_[trees_[model].first_nodes.size() - 1]);
  std::bernoulli_distribution is_drawn(static_cast<float>(params_.subsample));
  for (GradientPair& pair : gradients)
    if (!(pair.hessian >= 0.0f && is_drawn(engine))) pair = {};
}

void SmallModels::grow_on_bins(std::size_t model, std::span<const GradientPair> gradients, SortedGrowth& growth) {
  const auto cells = cells_of(rows_, model);
  auto& matrix = bins_[model];
  if (matrix == nullptr) matrix = binned(columns_[model], cells, options_.is_categorical);
  XgboostParams params = params_;
  if (!options_.is_symmetric) params.subsample = 1.0;  // drawn already
  TreeGrower grower(matrix, nullptr, std::nullopt, {}, std::nullopt, options_.is_symmetric, options_.random_strength,
                    {}, false, false, options_.draws_unseen);
  const TreeGrower::Sample sample{trees_[model].first_nodes.size() - 1};
  auto [tree, leaves] = grower.grow(XgboostRules(*matrix, params), gradients, sample, 1, {});
  growth.nodes.clear();
  auto& categories = trees_[model].categories;
  for (std::size_t at = 0; at < tree.left.size(); ++at) {
    const auto node = static_cast<node_t>(at);
    const bool is_leaf = tree.is_leaf(node);
    growth.nodes.push_back({tree.left[at], tree.parent[at], tree.feature[at],
                            is_leaf ? static_cast<float>(tree.value[at]) : threshold(tree, node, matrix->edges()),
                            static_cast<float>(tree.gain[at]), static_cast<float>(tree.hessian[at]),
                            static_cast<float>(tree.base_weight[at]), tree.default_left[at] != 0});
    if (is_leaf || !matrix->edges().is_categorical(tree.feature[at])) continue;
    SmallNode& own = growth.nodes.back();
    own.is_categorical = true;
    own.first_category = static_cast<std::uint32_t>(categories.size());
    categories.insert(categories.end(), tree.listed_bins[at].begin(), tree.listed_bins[at].end());  // bins are codes
    std::sort(categories.begin() + own.first_category, categories.end());
    for_each_unused_category(tree.feature[at], matrix->edges().n_bins(tree.feature[at]), tree.default_left[at] != 0,
                             options_.n_categories,
                             [&](bin_t code) { categories.push_back(static_cast<std::int32_t>(code)); });
    own.n_categories = static_cast<std::uint32_t>(categories.size()) - own.first_category;
  }
  for (node_t& leaf : leaves) leaf = std::max(leaf, ~leaf);  // ~leaf: the row was not drawn
  growth.leaves.assign(leaves.begin(), leaves.end());
}

void SmallModels::keep(std::size_t model, std::size_t n_trees) {
  require(model < n_models() && n_trees < trees_[model].first_nodes.size(),
          "there are fewer trees than are to be kept");
  Grown& grown = trees_[model];
  grown.first_nodes.resize(n_trees + 1);
  grown.first_nodes.shrink_to_fit();
  grown.nodes.resize(grown.first_nodes.back());
  grown.nodes.shrink_to_fit();
  std::size_t n_categories = 0;
  for (const SmallNode& node : grown.nodes) n_categories += node.n_categories;
  grown.categories.resize(n_categories);
}

SmallTrees SmallModels::trees() const {
  std::size_t n_trees = 0, n_nodes = 0;
  for (const Grown& grown : trees_) {
    n_trees += grown.first_nodes.size() - 1;
    n_nodes += grown.nodes.size();
  }
  SmallTrees trees;
  const auto reserve = [](std::size_t size, auto&... arrays) { (arrays.reserve(size), ...); };
  reserve(n_trees + 1, trees.first_nodes);
  reserve(n_models() + 1, trees.first_trees);
  reserve(n_nodes, trees.left, trees.parent, trees.feature, trees.condition, trees.default_left, trees.gain,
          trees.hessian, trees.base_weight);
  for (const Grown& grown : trees_) {
    const auto first = static_cast<std::int64_t>(trees.left.size());
    for (std::size_t tree = 1; tree < grown.first_nodes.size(); ++tree)
      trees.first_nodes.push_back(first + grown.first_nodes[tree]);
    trees.first_trees.push_back(static_cast<std::int64_t>(trees.first_nodes.size()) - 1);
    for (const SmallNode& node : grown.nodes) {
      if (node.is_categorical) {
        trees.categorical_nodes.push_back(static_cast<std::int64_t>(trees.left.size()));
        const auto listed = std::span(grown.categories).subspan(node.first_category, node.n_categories);
        trees.categories.insert(trees.categories.end(), listed.begin(), listed.end());
        trees.category_starts.push_back(static_cast<std::int64_t>(trees.categories.size()));
      }
      trees.left.push_back(node.left);
      trees.parent.push_back(node.parent);
      trees.feature.push_back(node.feature);
      trees.condition.push_back(node.condition);
      trees.default_left.push_back(node.default_left ? 1 : 0);
      trees.gain.push_back(node.gain);
      trees.hessian.push_back(node.hessian);
      trees.base_weight.push_back(node.base_weight);
    }
  }
  return trees;
}

std::vector<std::uint8_t> have_few_values(const SmallModels::Rows& rows, std::span<const std::uint8_t> is_categorical,
                                          std::size_t most, int n_threads) {
  require(!rows.first_rows.empty(), "first_rows is empty");
  const std::size_t n_models = rows.first_rows.size() - 1;
  check_rows(rows, n_models, "first_rows");
  require(is_categorical.empty() || is_categorical.size() == rows.cells.n_columns,
          "is_categorical needs one flag per feature");
  std::vector<std::uint8_t> have_few(n_models, 1);
  ThreadPool pool(threads_for(kStepsPerCell * rows.cells.n_rows * rows.cells.n_columns, n_threads));
  pool.parallel_for(n_models, [&](std::size_t model) {
    const auto cells = cells_of(rows, model);
    if (cells.n_rows <= most) return;
    std::vector<float> values;
    for (std::size_t feature = 0; feature < cells.n_columns && have_few[model] != 0; ++feature) {
      if (!is_categorical.empty() && is_categorical[feature] != 0) continue;
      values.clear();
      for (std::size_t row = 0; row < cells.n_rows; ++row)
        if (!std::isnan(cells(row, feature))) values.push_back(cells(row, feature));
      std::ranges::sort(values);
      const auto repeated = std::ranges::unique(values);
      if (values.size() - repeated.size() > most) have_few[model] = 0;
    }
  });
  return have_few;
}

}  // namespace mtboost
