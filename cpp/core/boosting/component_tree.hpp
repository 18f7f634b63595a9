// SPDX-License-Identifier: Apache-2.0
// Grows one tree on components, by the splits of component_split.hpp; of equal gains the lower feature. Sums by bin come from
// histograms of all features of the tree, of which one of two children has its parent's minus the other's. Where a node
// considers few features (feature_draw.hpp), only those are summed, for each node anew: sums are exact, so that trees are
// the same. Naive twin: tests/oracle/naive_projected_boosting.py.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "base/ranges.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "boosting/component_split.hpp"
#include "boosting/components.hpp"
#include "boosting/feature_draw.hpp"
#include "grow/row_partition.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

struct ComponentTreeParams {
  std::uint32_t max_depth = 6;
  std::uint32_t max_leaf_nodes = 0;  // 0: no limit; else the node that gains most is divided next
  row_t min_samples_leaf = 1;
  feature_t max_features = std::numeric_limits<feature_t>::max();  // that a node considers
  std::vector<double> feature_weights{};                           // they are drawn by; empty: equal chances
  double subsample = 1.0;                                          // of the rows
  double colsample = 1.0;                                          // of the features, of each tree
  std::uint64_t seed = 0;

  // Throws std::invalid_argument.
  void check(feature_t n_features) const {
    require_at_least("min_samples_leaf", min_samples_leaf, 1);
    require_at_least("max_features", max_features, 1);
    check_feature_weights(feature_weights, n_features);
    require_fraction("subsample", subsample);
    require_fraction("colsample", colsample);
  }
};

class ComponentTreeGrower {
 public:
  explicit ComponentTreeGrower(const BinnedMatrix& matrix);

  // A tree without leaf outputs: the `feature` of a leaf is its number, 0, 1, ...
  // rows: those it grows on. others: rows that only learn in which leaf they are. Both ascend.
  // check_interrupt runs before each step and may throw.
  DecisionTree grow(const Components& components, std::span<const row_t> rows, std::span<const row_t> others,
                    const ComponentTreeParams& params, std::uint64_t tree, ThreadPool& pool,
                    const std::function<void()>& check_interrupt);

  // Of the tree just grown, by number of the leaf.
  std::size_t n_leaves() const noexcept { return leaves_.size(); }
  std::span<const row_t> rows(std::size_t leaf) const noexcept { return partition_.rows(leaves_[leaf]); }
  std::span<const row_t> others(std::size_t leaf) const noexcept { return others_.rows(leaves_[leaf]); }
  // Weighted mean of component 0.
  double mean_of_first(std::size_t leaf) const noexcept { return means_[leaf]; }

 private:
  struct Node {
    node_t number;
    std::uint32_t depth;
    std::uint64_t path;               // 1, then the bits of the turns: names the node whatever the order of growth
    std::vector<double> sums;         // of components, weight, count
    std::vector<double> histogram{};  // of all features, or of the one that is split
    ComponentSplit split{};
  };
  class Growth;

  const BinnedMatrix& matrix_;
  std::vector<std::vector<double>>
      free_histograms_;  // of earlier nodes and trees: new memory costs more than to fill it
  RowPartition partition_, others_;
  std::vector<node_t> leaves_;
  std::vector<double> means_;
};

}  // namespace mtboost
