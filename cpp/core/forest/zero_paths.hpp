// SPDX-License-Identifier: Apache-2.0
// The leaves of sparse rows, without a step for each node on the way. Where few rows have a value of a node's feature,
// nearly all that come to it go the way of 0 (or whatever those have that is not stored), and along many such nodes, a
// path, they run together. What makes one
// leave it are its own values: the nodes that send them elsewhere are looked up by feature, and those between are
// passed over, 64 at a time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "forest/feature_columns.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

class ZeroPaths {
 public:
  // shares: of the rows that have a value, by feature. A node lies on a path if that of its feature is less than the
  // share of rows that come to it, by its weight: the former look it up, the latter would take a step. The trees must
  // outlive it.
  ZeroPaths(std::span<const DecisionTree> trees, std::span<const float> shares, float absent = 0.0f);

  // None if the leaves of the table's rows are found sooner node by node.
  static std::optional<ZeroPaths> if_they_pay(std::span<const DecisionTree> trees, const SparseTable& table,
                                              feature_t n_features);

  // Leaves of rows [begin, begin + n) of a table, (tree, row). tasks: of its rows; empty if no tree divides them.
  std::vector<node_t> find_leaves(const SparseTable& table, std::span<const task_t> tasks, std::size_t begin,
                                  std::size_t n) const;

 private:
  // A node on a path.
  struct Test {
    float threshold;
    std::uint32_t place : 31;
    std::uint32_t default_left : 1;

    bool goes_left(float value) const noexcept { return (value < threshold) | (std::isnan(value) & default_left); }
  };

  void lay_paths(const DecisionTree& tree, std::span<const float> shares);
  void list_tests();
  std::span<const Test> tests(feature_t feature) const noexcept {
    return std::span(tests_).subspan(starts_[feature], starts_[feature + 1] - starts_[feature]);
  }

  std::span<const DecisionTree> trees_;
  float absent_;
  std::vector<std::size_t> first_;  // node of each tree
  // Of all trees. Those on paths have the feature kPath, and their place as left; leaves have the feature kLeaf.
  std::vector<DecisionNode> nodes_;
  // Places are those of the nodes of a path in their order, one more behind them, and the next path.
  std::vector<node_t> exits_;          // by place: the other child than that of 0; behind a path: where it ends
  std::vector<std::uint64_t> ends_;    // by place: bits of those behind paths
  std::vector<std::uint32_t> starts_;  // of each feature's tests, and their end
  std::vector<Test> tests_;
};

}  // namespace mtboost
