// SPDX-License-Identifier: Apache-2.0
// After a tree has grown: the sums that single tasks have in its leaves (partially pooled leaves, docs/pooling.md), and
// the values of leaves added to margins. Naive twins: tests/oracle/test_pooled_leaves.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"

namespace mtboost {

// One entry for each leaf and task that together have rows with a hessian; ascending by leaf, then task.
struct LeafTaskSums {
  std::vector<node_t> leaf;
  std::vector<std::int32_t> task;
  std::vector<double> gradient, hessian;
};

// leaves: of each row; rows with ~leaf took no part and are left out. codes: task of each row. A sum receives its rows
// in ascending order.
LeafTaskSums sum_by_leaf_and_task(std::span<const node_t> leaves, std::span<const std::int32_t> codes,
                                  std::span<const GradientPair> pairs, std::size_t n_nodes, std::size_t n_tasks);

// margins[row, output] += values[leaf of the row, its code], whether the row took part or not. Margins are float for
// XGBoost, double for LightGBM. values: of shape (n_nodes, n_columns). codes: the column of each row, -1 for the last;
// empty: all -1.
template <typename Margin>
void add_leaf_values(std::span<const double> values, std::size_t n_columns, std::span<const node_t> leaves,
                     std::span<const std::int32_t> codes, std::size_t n_outputs, std::size_t output,
                     std::span<Margin> margins /* IN-OUT */, ThreadPool& pool);

}  // namespace mtboost
