// SPDX-License-Identifier: Apache-2.0
// A grown tree of a forest: nodes that compare raw feature values, or send tasks two ways, and a vector of outputs in
// each leaf. Append-only while growing, const afterwards.
// (tree.hpp is the tree of the plug-ins, whose nodes speak of bins; margin_trees.hpp predicts with finished boosters.)
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace mtboost {

inline constexpr std::uint32_t kTaskFeature = (1u << 31) - 1;
inline constexpr task_t kUnknownTask = ~task_t{0};

// Twelve bytes: what a prediction reads, and nothing else.
struct DecisionNode {
  float threshold = 0.0f;              // x < threshold goes left
  std::uint32_t feature : 31 = 0;      // kTaskFeature: the node splits tasks; of a leaf: the number of its outputs
  std::uint32_t default_left : 1 = 0;  // where missing values go, and tasks that are not listed
  node_t left = -1;                    // the right child is its neighbour; -1: a leaf

  bool is_leaf() const noexcept { return left < 0; }
  bool divides_tasks() const noexcept { return feature == kTaskFeature; }
  // Of a node that splits tasks: which of DecisionTree's lists holds those that do not go the default way.
  std::uint32_t task_list() const noexcept { return std::bit_cast<std::uint32_t>(threshold); }

  node_t child(float value) const noexcept {
    const bool goes_left = (value < threshold) | (std::isnan(value) & default_left);
    return left + (goes_left ? 0 : 1);
  }
};

// Vectors of outputs, whole or, for thousands of outputs that are mostly 0, without their zeros.
struct LeafOutputs {
  std::uint32_t n_outputs = 1;
  bool is_sparse = false;
  std::vector<double> values;          // whole: (vector, output); else those that are stored
  std::vector<std::uint64_t> starts;   // of the stored values of each vector, and their end; whole: empty
  std::vector<std::uint32_t> outputs;  // of each stored value; whole: empty

  std::size_t n_vectors() const noexcept { return is_sparse ? starts.size() - 1 : values.size() / n_outputs; }
  void add_to(std::span<double> sums /* IN-OUT */, std::size_t vector) const noexcept;
};

struct DecisionTree {
  std::vector<DecisionNode> nodes;                 // the root is 0; children come after their parent
  std::vector<double> impurity;                    // of each node: mean squared distance to its mean
  std::vector<float> weight;                       // sum of row weights
  std::vector<std::uint32_t> task_list_starts{0};  // and their end
  std::vector<task_t> listed_tasks;                // ascending in each list
  LeafOutputs leaves;

  node_t n_nodes() const noexcept { return static_cast<node_t>(nodes.size()); }
  bool divides_tasks() const noexcept { return task_list_starts.size() > 1; }  // in some node
  std::span<const task_t> task_list(std::uint32_t list) const noexcept {
    return std::span(listed_tasks).subspan(task_list_starts[list], task_list_starts[list + 1] - task_list_starts[list]);
  }
  node_t child(const DecisionNode& node, task_t task) const noexcept;

  // Throws std::invalid_argument unless every path ends in a leaf and every index is in range: after it predictions
  // need no checks.
  void check(feature_t n_features, task_t n_tasks) const;
};

}  // namespace mtboost
