// SPDX-License-Identifier: Apache-2.0
// Trees and what they say together: the mean of their leaves' outputs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "forest/feature_columns.hpp"
#include "forest/forest_params.hpp"
#include "forest/leaf_outputs.hpp"
#include "projection/projection.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

// Components that the splits are found on (joly2016, algorithms 1 and 2): drawn for each tree, or one for all.
struct ForestProjection {
  ProjectionKind kind = ProjectionKind::gaussian;
  std::size_t n_components = 0;  // 0: the outputs themselves
  bool is_shared = false;
  std::shared_ptr<const Projection> given{};  // instead of one that is drawn
};

// What a forest grows on. tasks: of each row; empty: none. weights: of each row, 0 leaves it out; empty: all 1.
struct ForestData {
  const FeatureColumns& columns;
  ForestLabels labels;
  std::span<const task_t> tasks;
  task_t n_tasks;
  std::span<const double> weights;
  ForestProjection projection{};
};

// Trees number first_tree, ..., first_tree + params.n_trees - 1: they do not depend on the others, or on the threads.
// check_interrupt runs before each tree and may throw.
std::vector<DecisionTree> grow_trees(const ForestData& data, const ForestParams& params, std::uint64_t first_tree,
                                     ThreadPool& pool, const std::function<void()>& check_interrupt);

// The projection of one tree.
Projection projection_of_tree(const ForestProjection& projection, std::size_t n_outputs, std::uint64_t seed,
                              std::uint64_t tree);

// How often each row was drawn for a tree; empty if there is no bootstrap, or no row. Draws are among the rows of weight
// above 0: a row of weight 0 is as good as absent, and no tree is without rows.
std::vector<std::uint32_t> bootstrap_counts(const ForestParams& params, row_t n_rows, std::span<const double> weights,
                                            std::uint64_t tree);

// Rows to predict: of a table, or of a sparse one. tasks: kUnknownTask for one not seen in training; empty if the trees
// have no task splits.
struct RowsView {
  MatrixView<float> table;
  std::span<const task_t> tasks;
  const SparseTable* sparse = nullptr;  // then table has its numbers of rows and columns, and no data
};

// Mean over trees of the outputs of each row's leaf, (row, output).
void predict(std::span<const DecisionTree> trees, const RowsView& rows, ThreadPool& pool,
             std::span<double> outputs /* OUT */);

// The same over the trees that a row was not drawn for. A row drawn for all of them gets NaN. weights: those of training.
void predict_out_of_bag(std::span<const DecisionTree> trees, const ForestParams& params, const RowsView& rows,
                        std::span<const double> weights, ThreadPool& pool, std::span<double> outputs /* OUT */);

// The node each row ends in, (row, tree).
void find_leaves(std::span<const DecisionTree> trees, const RowsView& rows, ThreadPool& pool,
                 std::span<node_t> leaves /* OUT */);

// Weighted fall of impurity by feature, task splits last: (feature + 1), of each tree summing to 1, averaged over trees.
std::vector<double> importances(std::span<const DecisionTree> trees, feature_t n_features);

}  // namespace mtboost
