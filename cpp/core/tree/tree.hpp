// SPDX-License-Identifier: Apache-2.0
// A regression tree as flat arrays in XGBoost's numbering: siblings are neighbours (right = left + 1), children come
// after their parent, in the order in which nodes were split. A row goes left at a numeric node iff its bin lies below
// `position`, at a categorical one iff its bin is listed (LightGBM) or is not (XGBoost), and by default_left if the value
// is missing.
// Weights, gains and hessians are double for LightGBM; XGBoost's are floats held in doubles.
// A leaf holds one number, learning rate included.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {

inline constexpr node_t kNoNode = -1;

struct Tree {
  std::vector<node_t> left, right, parent;  // kNoNode: leaf, leaf, root
  std::vector<feature_t> feature;
  std::vector<bin_t> position;
  std::vector<std::uint8_t> default_left;
  std::vector<double> gain;                     // s of the node's split
  std::vector<double> score;                    // S of the node's split
  std::vector<double> hessian;                  // Σ h of the node's rows
  std::vector<row_t> n_rows;                    // that took part in growing
  std::vector<double> base_weight;              // leaf weight of every node, without learning rate
  std::vector<double> value;                    // leaves only
  std::vector<std::vector<bin_t>> listed_bins;  // categorical nodes
  bool listed_go_left = false;

  node_t n_nodes() const noexcept { return static_cast<node_t>(left.size()); }
  bool is_leaf(node_t node) const noexcept { return left[static_cast<std::size_t>(node)] == kNoNode; }

  node_t add_node(node_t of_parent, double sum_hessian, double weight, double leaf_value);
};

// XGBoost's threshold of a numeric node: x < threshold goes left.
float threshold(const Tree& tree, node_t node, const BinEdges& edges) noexcept;

// Whether each bin of a node's feature goes left; then missing values and the two outer bins (BinEdges::always_left_bin).
std::vector<std::uint8_t> bins_going_left(const Tree& tree, node_t node, const BinEdges& edges);

// Leaf that each of `rows` falls into.
void find_leaves(const Tree& tree, const BinnedMatrix& matrix, std::span<const row_t> rows,
                 std::span<node_t> leaves /* OUT */);

// Leaf of every row, in the caller's order.
std::vector<node_t> find_leaves(const Tree& tree, const BinnedMatrix& matrix, ThreadPool& pool);

}  // namespace mtboost
