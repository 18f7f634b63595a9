// SPDX-License-Identifier: Apache-2.0
// Trees of forests as arrays by name, which is how they are pickled and read by Python, and back.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

inline py::dict arrays_of(const DecisionTree& tree) {
  std::vector<float> threshold;
  std::vector<std::uint32_t> feature;
  std::vector<std::uint8_t> default_left;
  std::vector<node_t> left;
  for (const DecisionNode& node : tree.nodes) {
    threshold.push_back(node.threshold);
    feature.push_back(node.feature);
    default_left.push_back(node.default_left);
    left.push_back(node.left);
  }
  py::dict arrays;
  arrays["left"] = to_array(std::move(left));
  arrays["feature"] = to_array(std::move(feature));
  arrays["threshold"] = to_array(std::move(threshold));
  arrays["default_left"] = to_array(std::move(default_left));
  arrays["impurity"] = to_array(tree.impurity);
  arrays["weight"] = to_array(tree.weight);
  arrays["task_list_starts"] = to_array(tree.task_list_starts);
  arrays["listed_tasks"] = to_array(tree.listed_tasks);
  arrays["leaf_values"] = to_array(tree.leaves.values);
  arrays["leaf_starts"] = to_array(tree.leaves.starts);
  arrays["leaf_outputs"] = to_array(tree.leaves.outputs);
  return arrays;
}

template <typename T>
std::vector<T> take(const py::dict& arrays, const char* name) {
  require(arrays.contains(name), [&] { return std::string("a tree lacks ") + name; });
  return as_vector(py::cast<Contiguous<T>>(arrays[name]), name);
}

// The caller checks the tree.
inline DecisionTree tree_from(const py::dict& arrays, std::uint32_t n_outputs) {
  DecisionTree tree;
  const auto left = take<node_t>(arrays, "left");
  const auto feature = take<std::uint32_t>(arrays, "feature");
  const auto threshold = take<float>(arrays, "threshold");
  const auto default_left = take<std::uint8_t>(arrays, "default_left");
  require(left.size() == feature.size() && left.size() == threshold.size() && left.size() == default_left.size(),
          "the nodes of a tree do not fit together");
  for (std::size_t node = 0; node < left.size(); ++node) {
    require(feature[node] <= kTaskFeature, "a node has an unknown feature");
    tree.nodes.push_back({threshold[node], feature[node] & kTaskFeature, default_left[node] != 0, left[node]});
  }
  tree.impurity = take<double>(arrays, "impurity");
  tree.weight = take<float>(arrays, "weight");
  tree.task_list_starts = take<std::uint32_t>(arrays, "task_list_starts");
  tree.listed_tasks = take<task_t>(arrays, "listed_tasks");
  tree.leaves.n_outputs = n_outputs;
  tree.leaves.values = take<double>(arrays, "leaf_values");
  tree.leaves.starts = take<std::uint64_t>(arrays, "leaf_starts");
  tree.leaves.outputs = take<std::uint32_t>(arrays, "leaf_outputs");
  tree.leaves.is_sparse = !tree.leaves.starts.empty();
  return tree;
}

}  // namespace mtboost
