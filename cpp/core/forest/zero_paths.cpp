// SPDX-License-Identifier: Apache-2.0
#include "forest/zero_paths.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "forest/interleaved_walks.hpp"

namespace mtboost {
namespace {

constexpr std::uint32_t kPath = kTaskFeature - 1, kLeaf = kTaskFeature - 2;  // no feature has such a number

bool tests_value(const DecisionNode& node) noexcept { return !node.is_leaf() && !node.divides_tasks(); }

std::uint64_t bit(std::size_t place) noexcept { return std::uint64_t{1} << (place % 64); }

// At or after a place.
std::size_t next_stop(const std::vector<std::uint64_t>& stops, std::size_t place) noexcept {
  std::size_t word = place / 64;
  std::uint64_t ahead = stops[word] & (~std::uint64_t{0} << (place % 64));
  while (ahead == 0) ahead = stops[++word];
  return 64 * word + static_cast<std::size_t>(std::countr_zero(ahead));
}

// Of the rows that come to the tree, by weight.
float share_of_rows(const DecisionTree& tree, node_t node) noexcept {
  return tree.weight[static_cast<std::size_t>(node)] / tree.weight.front();
}

std::vector<float> shares_with_value(const SparseTable& table, feature_t n_features) {
  std::vector<float> shares(n_features, 0.0f);
  for (const feature_t feature : table.indices) ++shares[feature];
  for (float& share : shares) share /= static_cast<float>(table.n_rows());
  return shares;
}

}  // namespace

ZeroPaths::ZeroPaths(std::span<const DecisionTree> trees, std::span<const float> shares, float absent)
    : trees_(trees), absent_(absent), starts_(shares.size() + 2, 0) {
  for (const DecisionTree& tree : trees) lay_paths(tree, shares);
  list_tests();
}

void ZeroPaths::lay_paths(const DecisionTree& tree, std::span<const float> shares) {
  first_.push_back(nodes_.size());
  nodes_.insert(nodes_.end(), tree.nodes.begin(), tree.nodes.end());
  const auto own = std::span(nodes_).subspan(first_.back());
  const auto is_on_path = [&](std::size_t at) {
    const DecisionNode& node = tree.nodes[at];
    return tests_value(node) && shares[node.feature] < share_of_rows(tree, static_cast<node_t>(at));
  };
  for (std::size_t head = 0; head < own.size(); ++head) {
    if (own[head].is_leaf()) own[head].feature = kLeaf;
    if (own[head].feature == kPath || !is_on_path(head)) continue;
    std::size_t at = head;
    while (is_on_path(at)) {
      const DecisionNode& node = tree.nodes[at];
      own[at].feature = kPath;
      own[at].left = static_cast<node_t>(exits_.size());
      ++starts_[node.feature + 2];
      const node_t of_zero = node.child(absent_);
      exits_.push_back(2 * node.left + 1 - of_zero);
      at = static_cast<std::size_t>(of_zero);
    }
    ends_.resize(exits_.size() / 64 + 1, 0);
    ends_.back() |= bit(exits_.size());
    exits_.push_back(static_cast<node_t>(at));
  }
}

void ZeroPaths::list_tests() {
  for (std::size_t i = 2; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  tests_.resize(starts_.back());
  for (std::size_t tree = 0; tree < trees_.size(); ++tree)
    for (std::size_t at = 0; at < trees_[tree].nodes.size(); ++at) {
      const DecisionNode &node = trees_[tree].nodes[at], &own = nodes_[first_[tree] + at];
      if (own.feature != kPath) continue;
      const auto place = static_cast<std::uint32_t>(own.left);
      tests_[starts_[node.feature + 1]++] = {node.threshold, place & kTaskFeature, node.default_left};
    }
  starts_.pop_back();  // each start has become the next one
}

// The unit is a step from node to node in a walk without paths. With them a step at a node off the paths, or a node
// that a value is looked up in, takes about four, and so does their making, for each node and each feature.
std::optional<ZeroPaths> ZeroPaths::if_they_pay(std::span<const DecisionTree> trees, const SparseTable& table,
                                                feature_t n_features) {
  const auto n_rows = static_cast<double>(table.n_rows());
  std::size_t n_nodes = 0;
  for (const DecisionTree& tree : trees) n_nodes += tree.nodes.size();
  if (n_nodes > kLeaf / 2 || n_features > kLeaf) return std::nullopt;  // more than there are numbers for
  // With so few rows the walks end before this loop has read the nodes.
  if (16 * table.n_rows() * trees.size() < n_nodes + n_features) return std::nullopt;
  const auto shares = shares_with_value(table, n_features);
  double n_steps = 0.0, n_left = 0.0;  // of a row: all, and those that remain
  for (const DecisionTree& tree : trees)
    for (node_t at = 0; at < tree.n_nodes(); ++at) {
      const DecisionNode& node = tree.nodes[static_cast<std::size_t>(at)];
      if (node.is_leaf()) continue;
      const float share = share_of_rows(tree, at);
      n_steps += share;
      n_left += node.divides_tasks() ? share : std::min(share, shares[node.feature]);
    }
  const bool they_pay = 4.0 * (n_rows * n_left + static_cast<double>(n_nodes + n_features)) < n_rows * n_steps;
  return they_pay ? std::optional<ZeroPaths>(std::in_place, trees, shares, table.absent) : std::nullopt;
}

std::vector<node_t> ZeroPaths::find_leaves(const SparseTable& table, std::span<const task_t> tasks, std::size_t begin,
                                           std::size_t n) const {
  struct Walk {
    std::size_t tree;
    node_t at;
    DecisionNode node;
  };
  std::vector<node_t> leaves(trees_.size() * n);
  std::vector<float> values(starts_.size() - 1, table.absent);  // of a row, by feature
  std::vector<std::uint32_t> turns;                             // places where it does not go the way of 0
  std::vector<std::uint64_t> stops = ends_;                     // and those
  for (std::size_t i = 0; i < n; ++i) {
    const auto first = static_cast<std::size_t>(table.indptr[begin + i]);
    const auto last = static_cast<std::size_t>(table.indptr[begin + i + 1]);
    for (std::size_t k = first; k < last; ++k) {
      values[table.indices[k]] = table.values[k];
      for (const Test& test : tests(table.indices[k]))
        if (test.goes_left(table.values[k]) != test.goes_left(absent_)) turns.push_back(test.place);
    }
    for (const std::uint32_t place : turns) stops[place / 64] |= bit(place);
    const auto start = [&](std::size_t tree) { return Walk{tree, 0, nodes_[first_[tree]]}; };
    const auto step = [&](Walk& walk) {
      const DecisionNode& node = walk.node;
      if (node.feature < kLeaf) {
        walk.at = node.child(values[node.feature]);
      } else if (node.feature == kPath) {
        walk.at = exits_[next_stop(stops, static_cast<std::size_t>(node.left))];
      } else if (node.feature == kLeaf) {
        leaves[walk.tree * n + i] = walk.at;
        return true;
      } else {
        walk.at = trees_[walk.tree].child(node, tasks[begin + i]);
      }
      walk.node = nodes_[first_[walk.tree] + static_cast<std::size_t>(walk.at)];
      return false;
    };
    interleave_walks(trees_.size(), start, step);
    for (const std::uint32_t place : turns) stops[place / 64] &= ~bit(place);
    for (std::size_t k = first; k < last; ++k) values[table.indices[k]] = table.absent;
    turns.clear();
  }
  return leaves;
}

}  // namespace mtboost
