// SPDX-License-Identifier: Apache-2.0
#include "forest/leaf_outputs.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace mtboost {
namespace {

double weight_of(RowWeights weights, row_t row) noexcept { return weights.empty() ? 1.0 : weights[row]; }

std::span<const row_t> rows_of_leaf(const Structure& structure, std::size_t leaf) noexcept {
  const auto begin = structure.leaf_starts[leaf];
  return std::span(structure.rows).subspan(begin, structure.leaf_starts[leaf + 1] - begin);
}

LeafOutputs leaf_outputs(const Structure& structure, const MatrixView<double>& labels, RowWeights weights) {
  LeafOutputs leaves;
  leaves.n_outputs = static_cast<std::uint32_t>(labels.n_columns);
  const std::size_t n_leaves = structure.leaf_starts.size() - 1;
  leaves.values.assign(n_leaves * labels.n_columns, 0.0);
  for (std::size_t leaf = 0; leaf < n_leaves; ++leaf) {
    const auto sums = std::span(leaves.values).subspan(leaf * labels.n_columns, labels.n_columns);
    double total = 0.0;
    for (const row_t row : rows_of_leaf(structure, leaf)) {
      const double weight = weight_of(weights, row);
      total += weight;
      for (std::size_t output = 0; output < labels.n_columns; ++output) sums[output] += weight * labels(row, output);
    }
    for (double& sum : sums) sum /= total;
  }
  return leaves;
}

LeafOutputs leaf_outputs(const Structure& structure, const LabelsView& labels, RowWeights weights) {
  LeafOutputs leaves;
  leaves.n_outputs = labels.n_labels;
  leaves.is_sparse = true;
  leaves.starts = {0};
  std::vector<double> sums(labels.n_labels, 0.0);
  std::vector<std::uint8_t> is_present(labels.n_labels, 0);
  std::vector<std::uint32_t> present;
  for (std::size_t leaf = 0; leaf + 1 < structure.leaf_starts.size(); ++leaf) {
    double total = 0.0;
    present.clear();
    for (const row_t row : rows_of_leaf(structure, leaf)) {
      const double weight = weight_of(weights, row);
      total += weight;
      labels.for_each(row, [&](std::uint32_t label, double value) {
        if (!is_present[label]) present.push_back(label);
        is_present[label] = 1;
        sums[label] += weight * value;
      });
    }
    std::ranges::sort(present);
    for (const std::uint32_t label : present) {
      leaves.outputs.push_back(label);
      leaves.values.push_back(sums[label] / total);
      sums[label] = 0.0;
      is_present[label] = 0;
    }
    leaves.starts.push_back(leaves.values.size());
  }
  return leaves;
}

LeafOutputs whole(const LeafOutputs& sparse) {
  LeafOutputs leaves;
  leaves.n_outputs = sparse.n_outputs;
  leaves.values.assign(sparse.n_vectors() * sparse.n_outputs, 0.0);
  for (std::size_t vector = 0; vector < sparse.n_vectors(); ++vector)
    sparse.add_to(std::span(leaves.values).subspan(vector * sparse.n_outputs, sparse.n_outputs), vector);
  return leaves;
}

// One vector for all leaves that have the same single label with certainty.
void share_pure_leaves(DecisionTree& tree) {
  LeafOutputs& all = tree.leaves;
  LeafOutputs kept;
  kept.n_outputs = all.n_outputs;
  kept.is_sparse = true;
  kept.starts = {0};
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::vector<std::uint32_t> pure(all.n_outputs, kNone), new_number(all.n_vectors());
  for (std::size_t vector = 0; vector < all.n_vectors(); ++vector) {
    const std::uint64_t begin = all.starts[vector], end = all.starts[vector + 1];
    const bool is_pure = end - begin == 1 && all.values[begin] == 1.0;
    const auto number = static_cast<std::uint32_t>(kept.starts.size() - 1);
    if (is_pure && pure[all.outputs[begin]] != kNone) {
      new_number[vector] = pure[all.outputs[begin]];
      continue;
    }
    if (is_pure) pure[all.outputs[begin]] = number;
    new_number[vector] = number;
    kept.outputs.insert(kept.outputs.end(), all.outputs.begin() + begin, all.outputs.begin() + end);
    kept.values.insert(kept.values.end(), all.values.begin() + begin, all.values.begin() + end);
    kept.starts.push_back(kept.values.size());
  }
  for (DecisionNode& node : tree.nodes)
    if (node.is_leaf()) node.feature = new_number[node.feature] & kTaskFeature;
  all = std::move(kept);
}

}  // namespace

std::size_t n_outputs(const ForestLabels& labels) noexcept {
  const auto* numbers = std::get_if<MatrixView<double>>(&labels);
  return numbers != nullptr ? numbers->n_columns : std::get_if<LabelsView>(&labels)->n_labels;
}

DecisionTree with_leaf_outputs(Structure structure, const ForestLabels& labels, RowWeights weights) {
  LeafOutputs leaves = std::visit([&](const auto& own) { return leaf_outputs(structure, own, weights); }, labels);
  DecisionTree tree = std::move(structure.tree);
  tree.leaves = std::move(leaves);
  if (!tree.leaves.is_sparse) return tree;
  share_pure_leaves(tree);
  const std::size_t sparse_bytes = 12 * tree.leaves.values.size() + 8 * tree.leaves.starts.size();
  if (8 * tree.leaves.n_vectors() * tree.leaves.n_outputs <= sparse_bytes) tree.leaves = whole(tree.leaves);
  return tree;
}

}  // namespace mtboost
