// SPDX-License-Identifier: Apache-2.0
// A regression tree as flat arrays in XGBoost's numbering: siblings are neighbours (right = left + 1), children come
// after their parent. A row goes left at a numeric node iff x < threshold, at a categorical one iff its category is not
// listed, and by default_left if the value is missing.
// A leaf holds one number, learning rate included. (A leaf with one number per task or output will store a row of a
// matrix beside value; structure and prediction stay.)
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {

inline constexpr node_t kNoNode = -1;

struct Tree {
  std::vector<node_t> left, right, parent;  // kNoNode: leaf, leaf, root
  std::vector<feature_t> feature;
  std::vector<float> threshold;
  std::vector<std::uint8_t> default_left;
  std::vector<float> gain;         // s of the node's split
  std::vector<float> score;        // S of the node's split
  std::vector<float> hessian;      // Σ h of the node's rows
  std::vector<float> base_weight;  // leaf weight of every node, without learning rate
  std::vector<float> value;        // leaves only
  std::vector<std::vector<bin_t>> right_bins;  // categorical nodes: the bins that go right

  node_t n_nodes() const noexcept { return static_cast<node_t>(left.size()); }
  bool is_leaf(node_t node) const noexcept { return left[static_cast<std::size_t>(node)] == kNoNode; }

  node_t add_node(node_t of_parent, double sum_hessian, float weight, float leaf_value);
};

// Whether each bin of a node's feature goes left; the last entry is for missing values.
std::vector<std::uint8_t> bins_going_left(const Tree& tree, node_t node, const Cuts& cuts);

// Leaf that each of `rows` falls into.
void find_leaves(const Tree& tree, const BinnedMatrix& matrix, std::span<const row_t> rows,
                 std::span<node_t> leaves /* OUT */);

}  // namespace mtboost
