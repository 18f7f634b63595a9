// SPDX-License-Identifier: Apache-2.0
// What boosting leaves: constants, and trees whose outputs are added to them. Sums are float, in the order of the trees,
// so that the margins of a training row are the same here and while its model grew.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "forest/forest.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

struct BoostedModel {
  feature_t n_features = 0;
  bool relabels = true;        // a leaf holds all outputs; else one number, and each tree a weight of every output
  std::vector<float> initial;  // F₀
  std::vector<DecisionTree> trees;
  std::vector<float> output_weights;  // (tree, output), learning rate included; empty if leaves are relabelled

  std::size_t n_outputs() const noexcept { return initial.size(); }

  // Throws std::invalid_argument unless trees and weights fit together.
  void check() const;
};

// What trees first, ..., last - 1 add to the margins of each row, (row, output).
void add_trees(const BoostedModel& model, std::size_t first, std::size_t last, const RowsView& rows, ThreadPool& pool,
               std::span<float> margins /* IN-OUT */);

}  // namespace mtboost
