// SPDX-License-Identifier: Apache-2.0
#include "tree/tree.hpp"

namespace mtboost {

node_t Tree::add_node(node_t of_parent, double sum_hessian, float weight, float leaf_value) {
  const node_t node = n_nodes();
  left.push_back(kNoNode);
  right.push_back(kNoNode);
  parent.push_back(of_parent);
  feature.push_back(0);
  threshold.push_back(0.0f);
  default_left.push_back(0);
  gain.push_back(0.0f);
  score.push_back(0.0f);
  hessian.push_back(static_cast<float>(sum_hessian));
  base_weight.push_back(weight);
  value.push_back(leaf_value);
  right_bins.emplace_back();
  return node;
}

std::vector<std::uint8_t> bins_going_left(const Tree& tree, node_t node, const Cuts& cuts) {
  const auto at = static_cast<std::size_t>(node);
  const feature_t feature = tree.feature[at];
  const bin_t n_bins = cuts.n_bins(feature);
  std::vector<std::uint8_t> goes_left(n_bins + 1, 1);
  if (cuts.is_categorical(feature)) {
    for (const bin_t bin : tree.right_bins[at]) goes_left[bin] = 0;
  } else {
    // Bin b lies below cut value(b), so it goes left iff that cut is not above the threshold.
    for (bin_t bin = 0; bin < n_bins; ++bin) goes_left[bin] = cuts.value(feature, bin) <= tree.threshold[at];
  }
  goes_left[n_bins] = tree.default_left[at];
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

}  // namespace mtboost
