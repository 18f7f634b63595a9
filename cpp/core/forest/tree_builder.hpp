// SPDX-License-Identifier: Apache-2.0
// START HERE: grows one tree of a forest, depth first. A node goes through these steps:
//   rest        too few rows, too deep, or all labels equal: a leaf
//   features    K of those that differ within the node, in random order; what is constant stays so further down
//   splits      forest/split_search: one random split of each, or its best; forest/split_targets: what it gains
//   tasks       with probability λ the tasks of the node as one more feature: forest/task_feature
//   divide      the rows, by the split that gains most; of equal ones the first
// All draws of a node depend on (seed, tree, node). Naive twin: tests/oracle/naive_forest.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"
#include "forest/feature_columns.hpp"
#include "forest/forest_params.hpp"
#include "forest/split_search.hpp"
#include "forest/task_feature.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

// Features of the nodes of one tree. Those found constant are kept in front while the tree grows depth first: a node
// hands their number to its children, and nothing below a node disturbs what stands before it.
class NodeFeatures {
 public:
  explicit NodeFeatures(feature_t n_features);

  void enter(feature_t n_constant) noexcept { first_constant_ = n_constant_ = n_drawn_ = n_constant; }
  bool is_exhausted() const noexcept { return n_drawn_ == features_.size(); }
  feature_t draw(RandomStream& random) noexcept;
  // What is drawn after n more features, if each takes n_numbers of the stream; a guess.
  feature_t guess(RandomStream random, std::size_t n, std::size_t n_numbers) const noexcept {
    const std::size_t place = std::min(n_drawn_ + n, features_.size() - 1);
    return features_[place + random.after((n + 1) * n_numbers - 1).below(features_.size() - place)];
  }
  void last_is_constant() noexcept;  // the one drawn last
  feature_t n_constant() const noexcept { return n_constant_; }
  feature_t n_found_constant() const noexcept { return n_constant_ - first_constant_; }  // in this node
  feature_t n_usable() const noexcept { return n_drawn_ - n_constant_; }

  std::span<const feature_t> not_drawn() const noexcept { return std::span(features_).subspan(n_drawn_); }
  bool is_drawn(feature_t feature) const noexcept { return place_[feature] < n_drawn_; }
  // Of those not drawn, only these (ascending) are not constant.
  void keep_only(std::span<const feature_t> varying);

 private:
  void swap(std::size_t a, std::size_t b) noexcept;

  std::vector<feature_t> features_;
  std::vector<feature_t> place_;  // of each feature
  feature_t first_constant_ = 0, n_constant_ = 0, n_drawn_ = 0;
};

// Values of a feature in the rows of a node. Where most features are considered, the values of a subtree of few rows are
// copied side by side, each column when it is first asked for: everything further down then happens in the cache.
class NodeValues {
 public:
  NodeValues(const FeatureColumns& columns, feature_t max_features);

  void begin_tree(std::span<const row_t> rows);
  // The node's rows stand at [begin, begin + rows.size()) of the tree's.
  void enter(std::span<const row_t> rows, std::size_t begin);
  std::span<float> of_feature(feature_t feature);
  // Of a sparse table: those that are not 0.
  std::span<const StoredValue> stored(feature_t feature);
  // Asks for the memory of the features that are drawn soon, so that it is there in time: columns of a sparse table lie
  // far apart, and each has few values. Features to come take n_numbers of the stream each.
  void prefetch(const NodeFeatures& features, const RandomStream& random, std::size_t n_numbers) const noexcept {
    if (!columns_.is_sparse()) return;
    columns_.prefetch_stored(features.guess(random, 2, n_numbers));
    columns_.prefetch_place(features.guess(random, 5, n_numbers));
  }
  // True only if every row of the node has 0, and surely so in nodes of few values of a sparse table.
  bool is_surely_zero(feature_t feature) const noexcept {
    return has_marks_ && (marks_[feature / 64] >> feature % 64 & 1) == 0;
  }
  // Features not drawn yet whose values differ within the node, ascending.
  std::span<const feature_t> varying(const NodeFeatures& features);
  // Rows of the node have changed places: the row now at place i was at from[i].
  void permute(std::span<const row_t> from);

 private:
  void mark();

  const FeatureColumns& columns_;
  bool copies_;
  std::size_t most_rows_;  // of a subtree that is copied
  std::span<const row_t> rows_;
  std::size_t begin_ = 0;
  std::size_t copy_begin_ = 0, copy_end_ = 0;  // of the subtree that is copied
  std::vector<row_t> copied_rows_;
  std::vector<std::uint32_t> place_;  // of each of the tree's rows among those copied
  std::vector<std::uint32_t> place_buffer_;
  std::vector<float> copy_;               // (feature, place)
  std::vector<std::uint32_t> copied_in_;  // by feature: the copy that holds it
  std::uint32_t n_copies_ = 0;
  std::vector<float> values_;
  std::vector<StoredValue> stored_;
  std::vector<feature_t> varying_;
  std::vector<row_t> place_of_row_;  // of a sparse table: the place of each row among the tree's; kNoPlace: not in it
  static constexpr row_t kNoPlace = ~row_t{0};
  std::size_t most_marked_;           // values of a node that are marked as it is entered
  std::vector<std::uint64_t> marks_;  // of a sparse table, a bit a feature: has a value in some row of the node
  bool has_marks_ = false;
};

// A tree without the outputs of its leaves: leaf number i has the rows [leaf_starts[i], leaf_starts[i + 1]) of `rows`.
struct Structure {
  DecisionTree tree;
  std::vector<row_t> rows;
  std::vector<std::uint32_t> leaf_starts{0};
};

// tasks: of each row of the table; empty: no task splits.
template <typename Target>
class TreeBuilder {
 public:
  TreeBuilder(const FeatureColumns& columns, std::span<const task_t> tasks, task_t n_tasks, const ForestParams& params);

  // rows: of the tree, ascending. tree_number: key of the random draws.
  Structure build(std::vector<row_t> rows, Target target, std::uint64_t tree_number);

 private:
  struct Node {
    node_t number;
    std::size_t begin, end;
    std::uint32_t depth;
    feature_t n_constant;
  };
  struct Found {
    FeatureSplit split;
    feature_t feature = 0;
  };

  Found find_split(std::span<const row_t> rows, Target& target, RandomStream random);
  FeatureSplit split_of(feature_t feature, std::size_t n_rows, Target& target, RandomStream& random,
                        bool& is_constant /* OUT */);
  FeatureSplit split_of(std::span<float> values, const ValueRange& range, Target& target, RandomStream& random);
  std::size_t divide(Structure& grown, const Node& node, const Found& found);
  void list_tasks(DecisionTree& tree, DecisionNode& node, float threshold) const;

  const FeatureColumns& columns_;
  const ForestParams& params_;
  NodeFeatures features_;
  NodeValues values_;
  TaskFeature task_feature_;
  SplitSearch search_;
  std::vector<float> task_values_;
  std::vector<row_t> from_, from_right_, rows_buffer_;
  bool has_tasks_;
};

}  // namespace mtboost
