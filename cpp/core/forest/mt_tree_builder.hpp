// SPDX-License-Identifier: Apache-2.0
// START HERE for multi-task decision trees: grows one, depth first (faddoul2012, algorithm 1). A node goes through these
// steps:
//   decide      tasks whose rows share one class, or nearly so: these rows end here
//   rest        too few rows left, too deep, nothing to split: all other tasks are decided too
//   split       of all features and splits between their values the one with the largest gain: forest/information_gain
//   divide      the rows, and every feature's sorted values; a task without rows on a side is decided there
// A node costs its rows and their values that are not 0, however many features are 0 or constant there.
// Naive twin: tests/oracle/naive_mt_decision_tree.py.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "base/ranges.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "forest/information_gain.hpp"
#include "forest/sorted_columns.hpp"
#include "tree/mt_decision_tree.hpp"

namespace mtboost {

struct MTTreeParams {
  TaskCriterion criterion = TaskCriterion::joint;
  double purity = 1.0;  // a task is decided where a class has this share of its weight
  std::uint32_t max_depth = std::numeric_limits<std::uint32_t>::max();
  row_t min_samples_split = 2;  // rows of tasks that are not decided yet; so of the next
  row_t min_samples_leaf = 1;   // on each side of a split
  feature_t max_features = std::numeric_limits<feature_t>::max();  // drawn in each node, of those not constant there
  std::uint64_t seed = 0;

  // Throws std::invalid_argument.
  void check() const {
    require_fraction("purity", purity);
    require_at_least("min_samples_split", min_samples_split, 1);
    require_at_least("min_samples_leaf", min_samples_leaf, 1);
    require_at_least("max_features", max_features, 1);
  }
};

// The class of each row, counted through all tasks: task t has [class_starts[t], class_starts[t + 1]). weights: of each
// row, 0 leaves it out; empty: all 1. A task that has rows of weight 0 only is decided in the root, each counted once.
struct TaskLabels {
  std::span<const std::uint32_t> class_starts;
  std::span<const std::uint32_t> labels;
  std::span<const double> weights;
};

// tree: key of the random draws. check_interrupt runs before each large node and may throw.
MTDecisionTree grow_mt_tree(const SortedColumns& columns, const TaskLabels& labels, const MTTreeParams& params,
                            std::uint64_t tree, ThreadPool& pool, const std::function<void()>& check_interrupt);

}  // namespace mtboost
