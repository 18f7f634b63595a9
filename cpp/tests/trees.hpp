// SPDX-License-Identifier: Apache-2.0
// Growing trees by either library's rules, and telling whether two are the same.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "grow/tree_grower.hpp"
#include "tables.hpp"

namespace mtboost::test {

inline bool are_equal(const Tree& a, const Tree& b) {
  return a.left == b.left && a.right == b.right && a.parent == b.parent && a.feature == b.feature &&
         a.position == b.position && a.default_left == b.default_left && a.gain == b.gain && a.score == b.score &&
         a.hessian == b.hessian && a.n_rows == b.n_rows && a.base_weight == b.base_weight && a.value == b.value &&
         a.listed_bins == b.listed_bins;
}

inline bool are_equal(const std::vector<TreeGrower::Grown>& a, const std::vector<TreeGrower::Grown>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return are_equal(one.tree, other.tree) && one.leaves == other.leaves;
  });
}

template <typename Rules, typename Params>
TreeGrower::Grown grow(TreeGrower& grower, const Params& params, std::span<const GradientPair> pairs,
                       const TreeGrower::Sample& sample, int n_threads) {
  return grower.grow(Rules(*grower.matrix(), params), pairs, sample, n_threads, {});
}

inline std::vector<GradientPair> random_gradients(row_t n_rows) {
  auto stream = test_stream(6);
  std::vector<GradientPair> pairs(n_rows);
  for (GradientPair& pair : pairs)
    pair = {static_cast<float>(stream.uniform() - 0.5), static_cast<float>(stream.uniform())};
  return pairs;
}

// Rows of a task lie together in the table, but not in the caller's.
inline std::vector<row_t> shuffled(row_t n_rows) {
  std::vector<row_t> order(n_rows);
  for (row_t place = 0; place < n_rows; ++place) order[place] = (place * 7) % n_rows;  // 7 must not divide n_rows
  return order;
}

// A score of the whole vector of gains.
inline void score_by_first_task(std::span<const float> gains, const MatrixView<float>& task_gains,
                                std::span<double> result) {
  for (std::size_t split = 0; split < gains.size(); ++split)
    result[split] = static_cast<double>(gains[split]) + static_cast<double>(task_gains(split, 0));
}

inline std::vector<std::shared_ptr<const SplitScore>> every_kind_of_score() {
  return {nullptr, std::make_shared<EntropyScore>(), std::make_shared<DeviationScore>(),
          std::make_shared<CallableScore>(score_by_first_task)};
}

}  // namespace mtboost::test
