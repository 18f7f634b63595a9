// SPDX-License-Identifier: Apache-2.0
#include "tree/mt_decision_tree.hpp"

#include <algorithm>

#include "base/require.hpp"

namespace mtboost {

void MTDecisionTree::check() const {
  require(class_starts.size() > 1 && class_starts.front() == 0 &&
              std::ranges::adjacent_find(class_starts, std::ranges::greater_equal{}) == class_starts.end(),
          "the classes of tasks do not ascend");
  tree.check(n_features, 0);
  const std::size_t n_decisions = decided_tasks.size();
  require(gains.size() == tree.nodes.size() && decision_starts.size() == tree.nodes.size() + 1 &&
              decision_starts.front() == 0 && decision_starts.back() == n_decisions &&
              std::ranges::is_sorted(decision_starts) && decided_classes.size() == n_decisions &&
              decided_weights.size() == n_decisions && tree.leaves.n_vectors() == n_decisions &&
              tree.leaves.n_outputs == n_classes(),
          "the decisions of a tree do not fit together");

  // Every way down, by the nodes where it turns; `is_decided`: on the way to the node at hand.
  std::vector<std::uint8_t> is_decided(n_tasks(), 0);
  std::size_t n_decided = 0;
  struct Step {
    std::size_t node;
    bool is_over;
  };
  std::vector<Step> steps{{0, false}};
  while (!steps.empty()) {
    const Step step = steps.back();
    steps.pop_back();
    for (std::uint32_t i = decision_starts[step.node]; i < decision_starts[step.node + 1]; ++i) {
      const task_t task = decided_tasks[i];
      if (step.is_over) {
        is_decided[task] = 0;
        --n_decided;
        continue;
      }
      require(task < n_tasks() && !is_decided[task], "a tree decides a task twice, or one that there is none of");
      require(i == decision_starts[step.node] || decided_tasks[i - 1] < task,
              "the tasks decided in a node do not ascend");
      require(class_starts[task] <= decided_classes[i] && decided_classes[i] < class_starts[task + 1],
              "a decision has a class of another task");
      is_decided[task] = 1;
      ++n_decided;
    }
    if (step.is_over) continue;
    steps.push_back({step.node, true});
    const DecisionNode& node = tree.nodes[step.node];
    if (node.is_leaf()) {
      require(n_decided == n_tasks(), "a way through a tree ends before all tasks are decided");
    } else {
      steps.push_back({static_cast<std::size_t>(node.left), false});
      steps.push_back({static_cast<std::size_t>(node.left) + 1, false});
    }
  }
}

}  // namespace mtboost
