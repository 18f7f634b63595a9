// SPDX-License-Identifier: Apache-2.0
// A tree that several tasks share (faddoul2012, section 2.2). A node may decide a task: rows of that task end there,
// while those of the others go on.
// Always holds: on every way from the root to a leaf each task is decided once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

struct MTDecisionTree {
  // Impurity of a node: entropy of a row's class in bits, its task being known. Outputs: the share of each class, one
  // vector for each decision.
  DecisionTree tree;
  feature_t n_features = 0;                 // of the tables that the tree knows
  std::vector<float> gains;                 // of each node: weight of its rows times bits won by its split; 0: a leaf
  std::vector<std::uint32_t> class_starts;  // classes of each task, counted through all tasks, and their end
  std::vector<std::uint32_t> decision_starts;  // of each node, and their end
  std::vector<task_t> decided_tasks;           // ascending in each node
  std::vector<std::uint32_t> decided_classes;  // the one with the greatest share
  std::vector<float> decided_weights;  // of the task's rows in the node; 0: none, shares are those of its parent

  task_t n_tasks() const noexcept { return static_cast<task_t>(class_starts.size() - 1); }
  std::uint32_t n_classes() const noexcept { return class_starts.back(); }

  // Which decision a row of a task ends in; value_of(feature) is the row's.
  template <typename ValueOf>
  std::size_t decision(task_t task, const ValueOf& value_of) const noexcept {
    for (std::size_t at = 0;;) {
      const auto begin = decided_tasks.begin() + decision_starts[at],
                 end = decided_tasks.begin() + decision_starts[at + 1];
      const auto found = std::lower_bound(begin, end, task);
      if (found != end && *found == task) return static_cast<std::size_t>(found - decided_tasks.begin());
      const DecisionNode& node = tree.nodes[at];
      at = static_cast<std::size_t>(node.child(value_of(node.feature)));
    }
  }

  // Throws std::invalid_argument unless everything fits together: after it decision() needs no checks.
  void check() const;
};

}  // namespace mtboost
