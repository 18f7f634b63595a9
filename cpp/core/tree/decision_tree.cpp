// SPDX-License-Identifier: Apache-2.0
#include "tree/decision_tree.hpp"

#include <algorithm>

#include "base/require.hpp"

namespace mtboost {
namespace {

template <typename T>
bool ascends_to(const std::vector<T>& starts, std::size_t end) {
  return !starts.empty() && starts.front() == 0 && starts.back() == end && std::ranges::is_sorted(starts);
}

void check(const LeafOutputs& leaves) {
  require(leaves.n_outputs > 0, "a tree without outputs");
  if (leaves.is_sparse) {
    require(ascends_to(leaves.starts, leaves.values.size()) && leaves.outputs.size() == leaves.values.size(),
            "the stored outputs of leaves do not fit together");
    require(std::ranges::all_of(leaves.outputs, [&](auto output) { return output < leaves.n_outputs; }),
            "a leaf has an output that there is none of");
  } else {
    require(leaves.values.size() % leaves.n_outputs == 0 && leaves.outputs.empty(), "a leaf has not all outputs");
  }
  require(std::ranges::all_of(leaves.values, [](double value) { return std::isfinite(value); }),
          "an output of a leaf is not finite");
}

}  // namespace

void LeafOutputs::add_to(std::span<double> sums, std::size_t vector) const noexcept {
  if (is_sparse) {
    for (std::uint64_t i = starts[vector]; i < starts[vector + 1]; ++i) sums[outputs[i]] += values[i];
  } else {
    const double* own = values.data() + vector * n_outputs;
    for (std::size_t output = 0; output < n_outputs; ++output) sums[output] += own[output];
  }
}

node_t DecisionTree::child(const DecisionNode& node, task_t task) const noexcept {
  const auto listed = task_list(node.task_list());
  const bool is_listed = std::binary_search(listed.begin(), listed.end(), task);
  return node.left + (is_listed != static_cast<bool>(node.default_left) ? 0 : 1);
}

void DecisionTree::check(feature_t n_features, task_t n_tasks) const {
  mtboost::check(leaves);
  require(!nodes.empty() && impurity.size() == nodes.size() && weight.size() == nodes.size(),
          "the nodes of a tree do not fit together");
  require(ascends_to(task_list_starts, listed_tasks.size()), "the lists of tasks do not fit together");
  for (std::uint32_t list = 0; list + 1 < task_list_starts.size(); ++list)
    require(std::ranges::is_sorted(task_list(list)), "a list of tasks does not ascend");
  require(std::ranges::all_of(listed_tasks, [&](task_t task) { return task < n_tasks; }), "a list has an unknown task");
  std::vector<std::uint8_t> has_parent(nodes.size(), 0);
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    const DecisionNode& node = nodes[at];
    require(node.left >= -1, "a node has children that there are none of");
    if (node.is_leaf()) {
      require(node.feature < leaves.n_vectors(), "a leaf has outputs that there are none of");
      continue;
    }
    const auto left = static_cast<std::size_t>(node.left);
    // Children come later, and none has two parents: no path runs in a circle.
    require(left > at && left + 1 < nodes.size(), "a node has children that there are none of");
    require(!has_parent[left] && !has_parent[left + 1], "a node has two parents");
    has_parent[left] = has_parent[left + 1] = 1;
    if (node.divides_tasks())
      require(n_tasks > 0 && node.task_list() < task_list_starts.size() - 1,
              "a node has a list of tasks that there is none of");
    else
      require(node.feature < n_features && !std::isnan(node.threshold), "a node has an unknown feature");
  }
}

}  // namespace mtboost
