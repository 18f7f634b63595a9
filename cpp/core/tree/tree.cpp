// SPDX-License-Identifier: Apache-2.0
#include "tree/tree.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "tree/walks.hpp"

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

float threshold(const Tree& tree, node_t node, const BinEdges& edges) noexcept {
  const auto at = static_cast<std::size_t>(node);
  if (tree.is_leaf(node)) return 0.0f;
  const feature_t feature = tree.feature[at];
  // A categorical node has no threshold; XGBoost writes this number and never reads it.
  if (edges.is_categorical(feature)) return std::numeric_limits<float>::denorm_min();
  return tree.position[at] == 0 ? edges.min_value(feature) : edges.value(feature, tree.position[at] - 1);
}

std::vector<std::uint8_t> bins_going_left(const Tree& tree, node_t node, const BinEdges& edges) {
  const auto at = static_cast<std::size_t>(node);
  const feature_t feature = tree.feature[at];
  const bin_t n_bins = edges.n_bins(feature);
  std::vector<std::uint8_t> goes_left(edges.always_right_bin(feature) + 1);
  if (edges.is_categorical(feature)) {
    std::fill_n(goes_left.begin(), n_bins, tree.listed_go_left ? 0 : 1);
    for (const bin_t bin : tree.listed_bins[at]) goes_left[bin] = tree.listed_go_left ? 1 : 0;
  } else {
    std::fill_n(goes_left.begin(), tree.position[at], 1);
  }
  goes_left[n_bins] = tree.default_left[at];
  goes_left[edges.always_left_bin(feature)] = 1;
  return goes_left;
}

void find_leaves(const Tree& tree, const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<node_t> leaves) {
  if (rows.empty()) return;
  struct Node {
    feature_t feature;
    node_t left;  // a leaf: itself
    const std::uint8_t* goes_left;
    BinnedMatrix::Column column;  // of the dense layout
  };
  std::vector<std::vector<std::uint8_t>> goes_left;
  std::vector<Node> nodes;
  std::vector<std::uint32_t> depths;
  goes_left.emplace_back(matrix.edges().always_right_bin(0) + 1, std::uint8_t{1});  // at leaves
  for (node_t node = 0; node < tree.n_nodes(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    const bool is_leaf = tree.is_leaf(node);
    const feature_t feature = is_leaf ? 0 : tree.feature[at];
    if (!is_leaf) goes_left.push_back(bins_going_left(tree, node, matrix.edges()));
    nodes.push_back({feature, is_leaf ? node : tree.left[at], goes_left[is_leaf ? 0 : goes_left.size() - 1].data(),
                     matrix.is_sparse() ? BinnedMatrix::Column{} : matrix.column(feature)});
    depths.push_back(node == 0 ? 0 : depths[static_cast<std::size_t>(tree.parent[at])] + 1);
  }
  const std::uint32_t depth = *std::ranges::max_element(depths);
  for (std::size_t first = 0; first < rows.size(); first += kWalks) {
    const std::size_t n = std::min(kWalks, rows.size() - first);
    std::array<row_t, kWalks> own;
    for (std::size_t walk = 0; walk < kWalks; ++walk) own[walk] = rows[first + std::min(walk, n - 1)];
    std::array<node_t, kWalks> at{};
    const auto step_to = [&](const Node& node, bin_t bin) { return node.left + (node.goes_left[bin] != 0 ? 0 : 1); };
    if (matrix.is_sparse())
      walk_to_leaves(at, depth, [&](std::size_t walk, node_t from) {
        const Node& node = nodes[static_cast<std::size_t>(from)];
        return step_to(node, matrix.bin(own[walk], node.feature));
      });
    else
      walk_to_leaves(at, depth, [&](std::size_t walk, node_t from) {
        const Node& node = nodes[static_cast<std::size_t>(from)];
        return step_to(node, node.column[own[walk]]);
      });
    std::copy_n(at.begin(), n, leaves.begin() + static_cast<std::ptrdiff_t>(first));
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
