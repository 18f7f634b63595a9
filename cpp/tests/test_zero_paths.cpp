// SPDX-License-Identifier: Apache-2.0
#include "forest/zero_paths.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "check.hpp"
#include "tables.hpp"

namespace mtboost::test::test_zero_paths {
namespace {

constexpr task_t kTasks = 4;

struct SparseRows {
  std::vector<std::int64_t> indptr{0};
  std::vector<feature_t> indices;
  std::vector<float> values;
  std::vector<task_t> tasks;
  float absent = 0.0f;

  SparseTable view() const { return {{indptr, indices, values}, absent}; }
};

// Values on both sides of 0, zeros that are stored, missing ones; tasks that are known and not.
SparseRows random_rows(std::size_t n_rows, feature_t n_features, double density, RandomStream& random) {
  SparseRows rows;
  for (std::size_t row = 0; row < n_rows; ++row) {
    for (feature_t feature = 0; feature < n_features; ++feature) {
      if (random.uniform() >= density) continue;
      rows.indices.push_back(feature);
      rows.values.push_back(random.below(8) == 0 ? kMissing : static_cast<float>(random.below(7)) - 3.0f);
    }
    rows.indptr.push_back(static_cast<std::int64_t>(rows.indices.size()));
    rows.tasks.push_back(random.below(3) == 0 ? kUnknownTask : static_cast<task_t>(random.below(kTasks)));
  }
  return rows;
}

// Its lowest nodes become parents, or any: long trees and broad ones.
DecisionTree random_tree(std::size_t n_inner, feature_t n_features, bool is_long, double task_share,
                         RandomStream& random) {
  DecisionTree tree;
  tree.nodes.resize(1);
  tree.weight = {1.0f};
  for (std::size_t inner = 0; inner < n_inner; ++inner) {
    std::size_t at;
    do {
      const std::size_t n_nodes = tree.nodes.size();
      at = is_long && n_nodes > 2 ? n_nodes - 2 + random.below(2) : random.below(n_nodes);
    } while (!tree.nodes[at].is_leaf());
    DecisionNode& node = tree.nodes[at];
    node.left = tree.n_nodes();
    node.default_left = random.below(2) == 0;
    node.feature = static_cast<std::uint32_t>(random.below(n_features)) & kTaskFeature;
    node.threshold = static_cast<float>(random.below(7)) - 3.0f;  // of which one is 0
    if (random.uniform() < task_share) {
      node.feature = kTaskFeature;
      node.threshold = std::bit_cast<float>(static_cast<std::uint32_t>(tree.task_list_starts.size() - 1));
      for (task_t task = 0; task < kTasks; ++task)
        if (random.below(2) == 0) tree.listed_tasks.push_back(task);
      tree.task_list_starts.push_back(static_cast<std::uint32_t>(tree.listed_tasks.size()));
    }
    const float left = tree.weight[at] * static_cast<float>(random.uniform());
    tree.weight.insert(tree.weight.end(), {left, tree.weight[at] - left});
    tree.nodes.resize(tree.nodes.size() + 2);
  }
  tree.impurity.assign(tree.nodes.size(), 0.0);
  for (DecisionNode& node : tree.nodes)
    if (node.is_leaf()) node.feature = 0;
  tree.leaves.values = {1.0};
  tree.check(n_features, kTasks);
  return tree;
}

node_t leaf_of(const DecisionTree& tree, const SparseRows& rows, std::size_t row, feature_t n_features) {
  std::vector<float> values(n_features, rows.absent);
  for (auto k = static_cast<std::size_t>(rows.indptr[row]); k < static_cast<std::size_t>(rows.indptr[row + 1]); ++k)
    values[rows.indices[k]] = rows.values[k];
  node_t at = 0;
  for (;;) {
    const DecisionNode& node = tree.nodes[static_cast<std::size_t>(at)];
    if (node.is_leaf()) return at;
    at = node.divides_tasks() ? tree.child(node, rows.tasks[row]) : node.child(values[node.feature]);
  }
}

}  // namespace

TEST(rows_on_paths_end_in_the_leaves_of_a_walk_from_node_to_node) {
  auto random = test_stream(11);
  for (int round = 0; round < 400; ++round) {
    const auto n_features = static_cast<feature_t>(1 + random.below(200));
    const double density = std::pow(random.uniform(), 3.0), task_share = round % 2 == 0 ? 0.0 : 0.2;
    const std::size_t n_trees = 1 + random.below(20), n_rows = 1 + random.below(20), begin = random.below(3);
    std::vector<DecisionTree> trees;
    for (std::size_t tree = 0; tree < n_trees; ++tree)
      trees.push_back(random_tree(random.below(300), n_features, random.below(2) == 0, task_share, random));
    SparseRows rows = random_rows(begin + n_rows, n_features, density, random);
    if (round % 5 == 0) rows.absent = kMissing;
    // All nodes on paths that rows of training come to, none, or some.
    std::vector<float> shares(n_features, static_cast<float>(round % 3) / 2.0f);
    if (round % 3 == 1)
      for (float& share : shares) share = static_cast<float>(std::pow(random.uniform(), 6.0));
    const ZeroPaths paths(trees, shares, rows.absent);
    const auto tasks = task_share > 0.0 ? std::span<const task_t>(rows.tasks) : std::span<const task_t>();
    const auto leaves = paths.find_leaves(rows.view(), tasks, begin, n_rows);
    check(leaves.size() == n_trees * n_rows);
    for (std::size_t tree = 0; tree < n_trees; ++tree)
      for (std::size_t row = 0; row < n_rows; ++row)
        check(leaves[tree * n_rows + row] == leaf_of(trees[tree], rows, begin + row, n_features));
  }
}

TEST(paths_are_made_for_many_rows_of_few_values_in_long_trees) {
  auto random = test_stream(12);
  const feature_t n_features = 500;
  // Each node has a leaf and the next node; to that go nearly all of its rows, or half of them.
  const auto tree_of = [&](std::size_t n_inner, bool is_long) {
    DecisionTree tree;
    for (std::size_t inner = 0; inner < n_inner; ++inner)
      for (const bool is_leaf : {false, true}) {
        const auto feature = static_cast<std::uint32_t>(random.below(n_features));
        const auto left = static_cast<node_t>(tree.nodes.size() + 1);
        const float weight = 1.0f - static_cast<float>(inner) / static_cast<float>(n_inner);
        tree.nodes.push_back(is_leaf ? DecisionNode{} : DecisionNode{-0.5f, feature & kTaskFeature, 0, left});
        tree.weight.push_back(is_leaf ? 0.0f : is_long ? weight : std::pow(0.5f, static_cast<float>(inner)));
      }
    tree.nodes.emplace_back();
    tree.weight.push_back(0.0f);
    return tree;
  };
  const std::vector long_trees{tree_of(400, true), tree_of(300, true)}, short_trees{tree_of(400, false)};
  const SparseRows rows = random_rows(3000, n_features, 0.01, random), few = random_rows(5, n_features, 0.01, random);
  const SparseRows full = random_rows(500, n_features, 0.9, random), none;
  check(ZeroPaths::if_they_pay(long_trees, rows.view(), n_features).has_value());
  check(!ZeroPaths::if_they_pay(short_trees, rows.view(), n_features));
  check(!ZeroPaths::if_they_pay(long_trees, few.view(), n_features));
  check(!ZeroPaths::if_they_pay(long_trees, full.view(), n_features));
  check(!ZeroPaths::if_they_pay(long_trees, none.view(), n_features));
}

}  // namespace mtboost::test::test_zero_paths
