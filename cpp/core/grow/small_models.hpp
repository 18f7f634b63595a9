// SPDX-License-Identifier: Apache-2.0
// Models of many tasks with few rows each, grown side by side: a round adds one tree per output to each of them, one
// model per thread. A library that trains them one after another spends its time on matrices and calls, not on trees.
// The bins of XGBoost are then the different values of a feature, and the trees are XGBoost's (3.0 to 3.4) bit for bit:
//   plain trees, exact sums    grow/sorted_growth: rows sorted by each feature; no histograms
//   all others                 grow/tree_grower, on the bins of the model; trees with categories always
// Sums are exact where no addition of the model's gradients rounds, in whatever order. This almost always holds.
// Twin: xgboost.train on the rows of each model (tests/parity/test_small_models.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "binning/binned_matrix.hpp"
#include "grow/sorted_growth.hpp"

namespace mtboost {

// Trees of all models: those of model m are first_trees[m] to first_trees[m + 1] - 1, the nodes of a tree likewise, and
// children are counted from the first node of their tree. right = left + 1.
struct SmallTrees {
  std::vector<std::int64_t> first_trees{0}, first_nodes{0};
  std::vector<node_t> left, parent;  // -1: a leaf, the root
  std::vector<feature_t> feature;
  std::vector<float> condition;  // threshold, or value of a leaf
  std::vector<std::uint8_t> default_left;
  std::vector<float> gain, hessian, base_weight;
  // Nodes that split by categories, counted from the first node of all, and the categories that go right at each.
  std::vector<std::int64_t> categorical_nodes, category_starts{0};
  std::vector<std::int32_t> categories;
};

class SmallModels {
 public:
  struct Options {
    bool is_symmetric = false;  // as in TreeGrower
    double random_strength = 0.0;
    std::size_t n_outputs = 1;
    std::vector<std::uint8_t> is_categorical{};  // one flag per feature; empty: none is
    bool draws_unseen = false;                   // as in TreeGrower
    std::vector<std::uint32_t> n_categories{};   // of each feature, those that rows may have; empty: as training rows
  };
  // Cells of the rows of all models; NaN is missing, a category is its code. Model m has rows first_rows[m] to
  // first_rows[m + 1] - 1.
  // The memory of the cells is the caller's and must outlive the models.
  struct Rows {
    MatrixView<float> cells;
    std::vector<row_t> first_rows;
  };

  SmallModels(Rows rows, Rows valid, XgboostParams params, Options options, int n_threads);

  std::size_t n_models() const noexcept { return trees_.size(); }
  std::size_t n_rows() const noexcept { return rows_.cells.n_rows; }
  std::size_t n_valid_rows() const noexcept { return valid_.cells.n_rows; }

  // Grows one more round of some models, ascending, and adds it to the margins of their rows. Gradients and margins
  // hold the outputs of a row side by side; tree i of a round belongs to output i.
  void grow(std::span<const std::uint32_t> models, std::span<const GradientPair> gradients,
            std::span<float> margins /* IN-OUT */, std::span<float> valid_margins /* IN-OUT */, int n_threads);

  // Forgets all trees of a model after the first ones.
  void keep(std::size_t model, std::size_t n_trees);

  SmallTrees trees() const;

 private:
  struct Grown {
    std::vector<SmallNode> nodes;            // of all trees
    std::vector<std::uint32_t> first_nodes;  // of each tree
    std::vector<std::int32_t> categories;    // that go right, node after node
  };

  void add_tree(std::size_t model, std::size_t output, std::span<const GradientPair> gradients,
                std::span<float> margins, std::span<float> valid_margins, SortedGrowth& growth);
  float leaf_value(std::size_t model, std::span<const SmallNode> nodes, const MatrixView<float>& cells,
                   std::size_t row) const noexcept;
  void sample(std::size_t model, std::span<GradientPair> gradients /* IN-OUT */) const;
  void grow_on_bins(std::size_t model, std::span<const GradientPair> gradients, SortedGrowth& growth);

  Rows rows_, valid_;
  XgboostParams params_;
  Options options_;
  bool is_plain_;
  std::vector<SortedFeatures> columns_;
  std::vector<std::shared_ptr<const BinnedMatrix>> bins_;  // made when needed
  std::vector<Grown> trees_;
  std::vector<std::uint32_t> row_seeds_;  // of each tree
};

// One flag per model: whether no feature of numbers has more different values than this.
std::vector<std::uint8_t> have_few_values(const SmallModels::Rows& rows, std::span<const std::uint8_t> is_categorical,
                                          std::size_t most, int n_threads);

}  // namespace mtboost
