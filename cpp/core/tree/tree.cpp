// SPDX-License-Identifier: Apache-2.0
#include "tree/tree.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace mtboost {

node_t Tree::add_node(node_t of_parent, double sum_hessian, double weight, double leaf_value) {
  const node_t node = n_nodes();
  left.push_back(kNoNode);
  right.push_back(kNoNode);
  parent.push_back(of_parent);
  feature.push_back(0);
  position.push_back(0);
  default_left.push_back(0);
  gain.push_back(0.0);
  score.push_back(0.0);
  hessian.push_back(sum_hessian);
  n_rows.push_back(0);
  base_weight.push_back(weight);
  value.push_back(leaf_value);
  listed_bins.emplace_back();
  return node;
}

float threshold(const Tree& tree, node_t node, const Cuts& cuts) noexcept {
  const auto at = static_cast<std::size_t>(node);
  if (tree.is_leaf(node)) return 0.0f;
  const feature_t feature = tree.feature[at];
  // A categorical node has no threshold; XGBoost writes this number and never reads it.
  if (cuts.is_categorical(feature)) return std::numeric_limits<float>::denorm_min();
  return tree.position[at] == 0 ? cuts.min_value(feature) : cuts.value(feature, tree.position[at] - 1);
}

std::vector<std::uint8_t> bins_going_left(const Tree& tree, node_t node, const Cuts& cuts) {
  const auto at = static_cast<std::size_t>(node);
  const feature_t feature = tree.feature[at];
  const bin_t n_bins = cuts.n_bins(feature);
  std::vector<std::uint8_t> goes_left(cuts.always_right_bin(feature) + 1);
  if (cuts.is_categorical(feature)) {
    std::fill_n(goes_left.begin(), n_bins, tree.listed_go_left ? 0 : 1);
    for (const bin_t bin : tree.listed_bins[at]) goes_left[bin] = tree.listed_go_left ? 1 : 0;
  } else {
    std::fill_n(goes_left.begin(), tree.position[at], 1);
  }
  goes_left[n_bins] = tree.default_left[at];
  goes_left[cuts.always_left_bin(feature)] = 1;
  return goes_left;
}

void find_leaves(const Tree& tree, const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<node_t> leaves) {
  std::vector<std::vector<std::uint8_t>> goes_left(static_cast<std::size_t>(tree.n_nodes()));
  for (node_t node = 0; node < tree.n_nodes(); ++node)
    if (!tree.is_leaf(node)) goes_left[static_cast<std::size_t>(node)] = bins_going_left(tree, node, matrix.cuts());
  for (std::size_t position = 0; position < rows.size(); ++position) {
    std::size_t node = 0;
    while (tree.left[node] != kNoNode) {
      const bin_t bin = matrix.bin(rows[position], tree.feature[node]);
      node = static_cast<std::size_t>(goes_left[node][bin] != 0 ? tree.left[node] : tree.right[node]);
    }
    leaves[position] = static_cast<node_t>(node);
  }
}

std::vector<node_t> find_leaves(const Tree& tree, const BinnedMatrix& matrix, ThreadPool& pool) {
  constexpr std::size_t kRowsPerBlock = 4096;
  std::vector<node_t> leaves(matrix.n_rows());
  const auto caller_rows = matrix.caller_rows();
  pool.parallel_for((leaves.size() + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    std::vector<row_t> rows(std::min(kRowsPerBlock, leaves.size() - block * kRowsPerBlock));
    std::iota(rows.begin(), rows.end(), static_cast<row_t>(block * kRowsPerBlock));
    std::vector<node_t> found(rows.size());
    find_leaves(tree, matrix, rows, found);
    for (std::size_t i = 0; i < rows.size(); ++i)
      leaves[caller_rows.empty() ? rows[i] : caller_rows[rows[i]]] = found[i];
  });
  return leaves;
}

}  // namespace mtboost
