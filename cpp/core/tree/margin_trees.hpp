// SPDX-License-Identifier: Apache-2.0
// Trees of a finished booster, laid out for prediction: a row's margin is the sum of the leaf values it reaches, added in
// the order of the trees. Margins are bitwise those of the library, whose comparisons and number types the trees keep:
//   float:  XGBoost. value < threshold goes left; infinite values are refused.
//   double: LightGBM. value <= threshold goes left; a value within 1e-35 of 0 is read as 0.
// In both a missing value (NaN) goes the node's default way. A node may compare the code of a category with a list instead:
// listed codes go right in XGBoost, left in LightGBM, and any other value the other way.
// Always holds: siblings are neighbours, and a leaf is its own left child, to which every value leads. All walks through
// a tree can therefore take as many steps as its deepest leaf needs, without a branch.
// (tree.hpp is a tree while the plug-ins grow it, decision_tree.hpp one of a forest.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

// Nodes of all trees, numbered together. left: -1 is a leaf. Of a leaf feature, threshold and default_left mean nothing,
// of any other node the value. roots: of each tree; tree i of a round belongs to output i.
template <typename Value>
struct NodeArrays {
  std::span<const node_t> roots;
  std::span<const node_t> left;
  std::span<const node_t> right;
  std::span<const feature_t> feature;
  std::span<const Value> threshold;
  std::span<const std::uint8_t> default_left;
  std::span<const Value> value;
  // Nodes that compare with lists, ascending; where the list of each begins, and the end of the last; the codes.
  std::span<const std::int64_t> category_nodes{}, category_starts{};
  std::span<const std::int32_t> categories{};
};

inline constexpr std::int32_t kMostCodes = 1 << 24;  // XGBoost's limit: exact in float

template <typename Value>
class MarginTrees {
 public:
  // Throws std::invalid_argument unless every path from a root ends in a leaf and every index is in range.
  MarginTrees(const NodeArrays<Value>& arrays, feature_t n_features, std::size_t n_outputs);

  std::size_t n_trees() const noexcept { return roots_.size() - 1; }
  std::size_t n_outputs() const noexcept { return n_outputs_; }
  feature_t n_features() const noexcept { return n_features_; }
  std::size_t n_bytes() const noexcept;

  // Adds the first trees to the sums of some rows, (row, output). rows: row-major, n_features() values each.
  void add_to(std::span<Value> sums /* IN-OUT */, const Value* rows, std::size_t n_trees,
              bool may_be_missing) const noexcept;

 private:
  struct Node {
    Value threshold;  // with categories the number of the list
    std::uint32_t feature : 30;
    std::uint32_t is_categorical : 1;
    std::uint32_t default_left : 1;
    node_t left;
  };
  // Codes as bits.
  struct List {
    std::size_t first_word;
    Value end;  // above all codes
  };
  std::vector<std::uint32_t> read_lists(const NodeArrays<Value>& arrays);
  bool is_listed(std::size_t list, Value code) const noexcept;
  template <bool kMissing, bool kCategories>
  void add(std::span<Value> sums, const Value* rows, std::size_t n_trees) const noexcept;
  template <bool kMissing, bool kCategories>
  node_t child(const Node& node, const Value* row) const noexcept;

  feature_t n_features_;
  std::size_t n_outputs_;
  std::vector<node_t> roots_;  // and the number of nodes
  std::vector<std::uint32_t> depths_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<List> lists_;
  std::vector<std::uint64_t> bits_;
};

// Rows that follow the same trees.
template <typename Value>
struct RowsOfTrees {
  const MarginTrees<Value>* trees;
  std::size_t n_trees;  // the first ones
  std::size_t begin, end;
};

// Adds trees to the margins of rows, (row, output).
// rows: numbers of the rows, group after group; empty: 0, 1, ...
// sum_first: trees are added up from 0, and then their sum to the margin; else each is added to the margin.
// Returns false if XGBoost would refuse an infinite value; the margins are then of no use.
template <typename Value, typename Cell>
bool add_margins(const MatrixView<Cell>& table, std::span<const std::int64_t> rows,
                 std::span<const RowsOfTrees<Value>> groups, bool sum_first, ThreadPool& pool,
                 std::span<Value> margins /* IN-OUT */);

}  // namespace mtboost
