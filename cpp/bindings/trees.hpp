// SPDX-License-Identifier: Apache-2.0
// Trees of forests as arrays by name, which is how they are pickled, saved and read by Python, and back.
#pragma once

#include <algorithm>
#include <cstdint>
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

// The arrays of several trees, one tree after the other, and `starts`: by array, where each tree's part of it begins, and
// the end of the last. Few large arrays are read and written faster than many small ones.
inline py::dict joined(const std::vector<py::dict>& trees) {
  py::dict arrays;
  if (trees.empty()) return arrays;
  const auto numpy = py::module_::import("numpy");
  py::list fields;
  for (const auto& array : trees.front()) fields.append(py::make_tuple(array.first, "i8"));
  py::object starts = numpy.attr("empty")(trees.size() + 1, fields);
  for (const auto& array : trees.front()) {
    std::vector<std::int64_t> own{0};
    py::list parts;
    for (const py::dict& tree : trees) {
      const auto part = tree[array.first].cast<py::array>();
      own.push_back(own.back() + part.size());
      parts.append(part);
    }
    arrays[array.first] = numpy.attr("concatenate")(parts);
    starts[array.first] = to_array(std::move(own));
  }
  arrays["starts"] = std::move(starts);
  return arrays;
}

// The way back; the parts are views.
inline std::vector<py::dict> parted(const py::dict& arrays) {
  if (arrays.empty()) return {};
  require(arrays.contains("starts"), "trees lack starts");
  const auto starts = arrays["starts"].cast<py::array>();
  require(starts.ndim() == 1 && starts.size() > 0, "starts of trees must have one dimension");
  std::vector<py::dict> trees(static_cast<std::size_t>(starts.size()) - 1);
  for (const auto& [name, array] : arrays) {
    if (name.equal(py::str("starts"))) continue;
    const auto whole = array.cast<py::array>();
    const auto own = as_vector(starts[name].cast<Contiguous<std::int64_t>>(), "starts");
    require(whole.ndim() == 1 && own.front() == 0 && own.back() == whole.size() && std::ranges::is_sorted(own),
            "starts of trees must ascend from 0 to the length of each array");
    for (std::size_t tree = 0; tree < trees.size(); ++tree)
      trees[tree][name] = whole[py::slice(own[tree], own[tree + 1], 1)];
  }
  return trees;
}

}  // namespace mtboost
