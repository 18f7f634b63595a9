// SPDX-License-Identifier: Apache-2.0
#include "tree/margin_trees.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <type_traits>

#include "base/require.hpp"
#include "tree/walks.hpp"

namespace mtboost {
namespace {

// Rows of a block, unless they are wide: their values should stay in the fastest cache.
constexpr std::size_t kMostRows = 256, kMostCells = 4096;
constexpr std::uint32_t kNoList = ~std::uint32_t{0}, kWordBits = 64, kMostFeatures = 1u << 30;
// LightGBM's kZeroThreshold.
constexpr double kNextToZero = 1e-35f;

// A cell as the library reads it.
template <typename Value, typename Cell>
Value as_read(Cell cell) noexcept {
  const auto value = static_cast<Value>(cell);
  if constexpr (std::is_same_v<Value, double>) return std::fabs(value) <= kNextToZero ? 0.0 : value;
  return value;
}

}  // namespace

template <typename Value>
MarginTrees<Value>::MarginTrees(const NodeArrays<Value>& arrays, feature_t n_features, std::size_t n_outputs)
    : n_features_(n_features), n_outputs_(n_outputs) {
  const std::size_t n_nodes = arrays.left.size();
  require(n_outputs > 0 && arrays.roots.size() % n_outputs == 0, "trees must make whole rounds");
  require(n_features > 0 && n_features < kMostFeatures, "n_features must be between 1 and 2^30 - 1");
  require(arrays.right.size() == n_nodes && arrays.feature.size() == n_nodes && arrays.threshold.size() == n_nodes &&
              arrays.default_left.size() == n_nodes && arrays.value.size() == n_nodes,
          "arrays of nodes must have one length");
  const auto in_range = [&](node_t node) { return node >= 0 && static_cast<std::size_t>(node) < n_nodes; };
  const auto lists = read_lists(arrays);
  std::vector<node_t> level, next;  // numbers in the arrays
  for (const node_t root : arrays.roots) {
    require(in_range(root), "a root does not exist");
    const std::size_t first = nodes_.size();
    roots_.push_back(static_cast<node_t>(first));
    std::uint32_t depth = 0;
    level = {root};
    for (;; ++depth) {  // level after level: a level's children are laid out behind it
      require(nodes_.size() - first + level.size() <= n_nodes, "a tree has a cycle");
      require(nodes_.size() + level.size() < std::size_t{std::numeric_limits<node_t>::max()}, "too many nodes");
      next.clear();
      const std::size_t behind = nodes_.size() + level.size();
      for (const node_t number : level) {
        const auto at = static_cast<std::size_t>(number);
        values_.push_back(arrays.value[at]);
        if (arrays.left[at] < 0) {
          nodes_.push_back({std::numeric_limits<Value>::infinity(), 0, 0, 1, static_cast<node_t>(nodes_.size())});
          continue;
        }
        require(in_range(arrays.left[at]) && in_range(arrays.right[at]), "a child does not exist");
        require(arrays.feature[at] < n_features, "a node tests a feature that does not exist");
        const bool is_categorical = !lists.empty() && lists[at] != kNoList;
        nodes_.push_back({is_categorical ? static_cast<Value>(lists[at]) : arrays.threshold[at],
                          arrays.feature[at] & (kMostFeatures - 1), is_categorical, arrays.default_left[at] != 0,
                          static_cast<node_t>(behind + next.size())});
        next.push_back(arrays.left[at]);
        next.push_back(arrays.right[at]);
      }
      if (next.empty()) break;
      std::swap(level, next);
    }
    depths_.push_back(depth);
  }
  roots_.push_back(static_cast<node_t>(nodes_.size()));
  nodes_.shrink_to_fit();
  values_.shrink_to_fit();
}

// The list of each node, kNoList for others; empty if there are no lists.
template <typename Value>
std::vector<std::uint32_t> MarginTrees<Value>::read_lists(const NodeArrays<Value>& arrays) {
  const auto& starts = arrays.category_starts;
  const std::size_t n_lists = arrays.category_nodes.size();
  require(n_lists == 0 ? starts.size() <= 1 && arrays.categories.empty()
                       : starts.size() == n_lists + 1 && starts.front() == 0 && std::ranges::is_sorted(starts) &&
                             static_cast<std::size_t>(starts.back()) == arrays.categories.size(),
          "starts of categories must ascend from 0 to their number");
  require(n_lists < std::size_t{kMostCodes}, "too many nodes with categories");  // a float holds their numbers
  if (n_lists == 0) return {};
  std::vector<std::uint32_t> lists(arrays.left.size(), kNoList);
  for (std::size_t i = 0; i < n_lists; ++i) {
    const std::int64_t node = arrays.category_nodes[i];
    require(node >= 0 && static_cast<std::size_t>(node) < lists.size(), "a node with categories does not exist");
    lists[static_cast<std::size_t>(node)] = static_cast<std::uint32_t>(i);
    const auto codes = arrays.categories.subspan(static_cast<std::size_t>(starts[i]),
                                                 static_cast<std::size_t>(starts[i + 1] - starts[i]));
    std::uint32_t end = 0;
    for (const std::int32_t code : codes) {
      require(code >= 0 && code < kMostCodes, "a code of a category is out of range");
      end = std::max(end, static_cast<std::uint32_t>(code) + 1);
    }
    const std::size_t first_word = bits_.size();
    lists_.push_back({first_word, static_cast<Value>(end)});
    bits_.resize(first_word + end / kWordBits + 1);
    for (const std::int32_t code : codes) {
      const auto own = static_cast<std::uint32_t>(code);
      bits_[first_word + own / kWordBits] |= std::uint64_t{1} << (own % kWordBits);
    }
  }
  return lists;
}

template <typename Value>
inline bool MarginTrees<Value>::is_listed(std::size_t list, Value code) const noexcept {
  const List& own = lists_[list];
  // The libraries cut off fractions: LightGBM reads -0.5 as code 0, XGBoost as no code.
  const bool is_code = std::is_same_v<Value, float> ? code >= Value{0} : code > Value{-1};
  if (!(is_code && code < own.end)) return false;
  const auto whole = static_cast<std::uint32_t>(code);
  return (bits_[own.first_word + whole / kWordBits] >> (whole % kWordBits) & 1) != 0;
}

template <typename Value>
std::size_t MarginTrees<Value>::n_bytes() const noexcept {
  return sizeof(*this) + lists_.size() * sizeof(List) + bits_.size() * sizeof(std::uint64_t) +
         nodes_.size() * sizeof(Node) + values_.size() * sizeof(Value) +
         depths_.size() * (sizeof(std::uint32_t) + sizeof(node_t));
}

template <typename Value>
template <bool kMissing, bool kCategories>
inline node_t MarginTrees<Value>::child(const Node& node, const Value* row) const noexcept {
  constexpr bool kIsXgboost = std::is_same_v<Value, float>;
  const Value value = row[node.feature];
  bool goes_left = kIsXgboost ? value < node.threshold : value <= node.threshold;
  if constexpr (kCategories) {  // a branch: without one all steps read lists, and take a third longer
    if (node.is_categorical != 0)
      goes_left = !std::isnan(value) && is_listed(static_cast<std::size_t>(node.threshold), value) != kIsXgboost;
  }
  if constexpr (kMissing) goes_left = goes_left | (std::isnan(value) & (node.default_left != 0));
  return node.left + (goes_left ? 0 : 1);
}

// Rows in eights go through a tree side by side, any other row through eight trees.
template <typename Value>
template <bool kMissing, bool kCategories>
inline void MarginTrees<Value>::add(std::span<Value> sums, const Value* rows, std::size_t n_trees) const noexcept {
  const std::size_t n_rows = sums.size() / n_outputs_, n_sides = n_rows - n_rows % kWalks, width = n_features_;
  const Node* const nodes = nodes_.data();
  const Value* const values = values_.data();
  std::array<node_t, kWalks> at;
  for (std::size_t tree = 0; tree < n_trees; ++tree) {
    Value* const sums_of_output = sums.data() + tree % n_outputs_;
    for (std::size_t row = 0; row < n_sides; row += kWalks) {
      const Value* const first = rows + row * width;
      at.fill(roots_[tree]);
      walk_to_leaves(at, depths_[tree], [=, this](std::size_t walk, node_t node) {
        return child<kMissing, kCategories>(nodes[node], first + walk * width);
      });
      for (std::size_t walk = 0; walk < kWalks; ++walk) sums_of_output[(row + walk) * n_outputs_] += values[at[walk]];
    }
  }
  for (std::size_t row = n_sides; row < n_rows; ++row) {
    const Value* const own = rows + row * width;
    for (std::size_t tree = 0; tree < n_trees; tree += kWalks) {
      const std::size_t n_walks = std::min(kWalks, n_trees - tree);
      std::uint32_t depth = 0;
      for (std::size_t walk = 0; walk < kWalks; ++walk) {  // surplus walks repeat the last tree
        const std::size_t number = tree + std::min(walk, n_walks - 1);
        at[walk] = roots_[number];
        depth = std::max(depth, depths_[number]);
      }
      walk_to_leaves(at, depth,
                     [=, this](std::size_t, node_t node) { return child<kMissing, kCategories>(nodes[node], own); });
      for (std::size_t walk = 0; walk < n_walks; ++walk)
        sums[row * n_outputs_ + (tree + walk) % n_outputs_] += values[at[walk]];
    }
  }
}

template <typename Value>
void MarginTrees<Value>::add_to(std::span<Value> sums, const Value* rows, std::size_t n_trees,
                                bool may_be_missing) const noexcept {
  if (lists_.empty()) {
    may_be_missing ? add<true, false>(sums, rows, n_trees) : add<false, false>(sums, rows, n_trees);
  } else {
    may_be_missing ? add<true, true>(sums, rows, n_trees) : add<false, true>(sums, rows, n_trees);
  }
}

template <typename Value, typename Cell>
bool add_margins(const MatrixView<Cell>& table, std::span<const std::int64_t> rows,
                 std::span<const RowsOfTrees<Value>> groups, bool sum_first, ThreadPool& pool,
                 std::span<Value> margins) {
  const std::size_t n_block = std::clamp(kMostCells / table.n_columns, kWalks, kMostRows);
  std::vector<std::size_t> first_blocks{0};
  for (const auto& group : groups)
    first_blocks.push_back(first_blocks.back() + (group.end - group.begin + n_block - 1) / n_block);
  std::atomic<bool> is_finite{true};
  pool.parallel_for(first_blocks.back(), [&](std::size_t block) {
    const auto number =
        static_cast<std::size_t>(std::ranges::upper_bound(first_blocks, block) - first_blocks.begin() - 1);
    const auto& group = groups[number];
    const std::size_t n_outputs = group.trees->n_outputs(), n_columns = table.n_columns;
    const std::size_t begin = group.begin + (block - first_blocks[number]) * n_block;
    const std::size_t n = std::min(n_block, group.end - begin);
    const auto row_of = [&](std::size_t i) {
      return rows.empty() ? begin + i : static_cast<std::size_t>(rows[begin + i]);
    };
    std::vector<Value> values(n * n_columns), sums(n * n_outputs, Value{0});
    Value* next = values.data();
    bool has_missing = false, has_infinite = false;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t row = row_of(i);
      for (std::size_t column = 0; column < n_columns; ++column) {
        const Value value = as_read<Value>(table(row, column));
        has_missing |= std::isnan(value);
        has_infinite |= std::isinf(value);
        *next++ = value;
      }
      if (!sum_first)
        for (std::size_t k = 0; k < n_outputs; ++k) sums[i * n_outputs + k] = margins[row * n_outputs + k];
    }
    if (std::is_same_v<Value, float> && has_infinite) {
      is_finite.store(false, std::memory_order_relaxed);
      return;
    }
    group.trees->add_to(sums, values.data(), group.n_trees, has_missing);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t k = 0; k < n_outputs; ++k) {
        Value& margin = margins[row_of(i) * n_outputs + k];
        margin = sum_first ? margin + sums[i * n_outputs + k] : sums[i * n_outputs + k];
      }
  });
  return is_finite.load(std::memory_order_relaxed);
}

template class MarginTrees<float>;
template class MarginTrees<double>;

using Rows = std::span<const std::int64_t>;
template <typename Value>
using Groups = std::span<const RowsOfTrees<Value>>;
template bool add_margins(const MatrixView<float>&, Rows, Groups<float>, bool, ThreadPool&, std::span<float>);
template bool add_margins(const MatrixView<double>&, Rows, Groups<float>, bool, ThreadPool&, std::span<float>);
template bool add_margins(const MatrixView<float>&, Rows, Groups<double>, bool, ThreadPool&, std::span<double>);
template bool add_margins(const MatrixView<double>&, Rows, Groups<double>, bool, ThreadPool&, std::span<double>);

}  // namespace mtboost
