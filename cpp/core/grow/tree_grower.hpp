// SPDX-License-Identifier: Apache-2.0
// START HERE: grows one tree. The loop joins the steps of the other files, in this order:
//   take the most urgent leaves        depth-wise: a whole level; loss-guided: the leaf with the best split
//   split them                           tree/tree: two new nodes each; grow/row_partition: their rows
//   sum gradients of the children      histogram/: the lighter child from its rows, its sibling by subtraction
//   find the children's best splits      split/split_finder; of a symmetric tree one for all of them: split/level_search
// grow_rules.hpp lists where XGBoost and LightGBM part. With one task, or the plain score, the tree is the library's own
// bit for bit. Naive twins: tests/oracle/naive.py, naive_lightgbm.py.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/communicator.hpp"
#include "base/large_array.hpp"
#include "base/thread_pool.hpp"
#include "binning/binned_matrix.hpp"
#include "grow/grow_rules.hpp"
#include "grow/row_partition.hpp"
#include "histogram/gradient_grid.hpp"
#include "histogram/histogram.hpp"
#include "split/feature_sampler.hpp"
#include "split/level_search.hpp"
#include "split/split_finder.hpp"
#include "split/split_score.hpp"
#include "split/task_column.hpp"
#include "split/task_rows.hpp"
#include "tree/tree.hpp"

namespace mtboost {

class TreeGrower {
 public:
  // score: null grows by the pooled gain. tasks: null is a single task. feature_weights: empty, or one per feature.
  // task_column: a category in which no row is missing; only where score is null.
  // is_symmetric: all nodes of a level are split alike, whatever the order of growth; only where score is null.
  // random_strength: noise in the search for such splits, in units of σ (split/level_search.hpp).
  // workers: null is a single machine. With others the matrix has this worker's rows, which may be none, and everything
  // else (bins, features that may be missing, tasks, parameters) is the same on all of them. XGBoost's trees only.
  // has_whole_tasks: no task has rows on two workers, which send less then.
  // draws_unseen: where values go that no row of a node has (split/unseen_values.hpp); XGBoost's trees only.
  // has_quantized_gradients: splits are found by rounded gradients (histogram/gradient_grid.hpp), leaf values by those
  // that are given. XGBoost's trees on a single machine only.
  TreeGrower(std::shared_ptr<const BinnedMatrix> matrix, std::shared_ptr<const SplitScore> score,
             std::optional<TaskRows> tasks, std::vector<float> feature_weights,
             std::optional<TaskColumn> task_column = {}, bool is_symmetric = false, double random_strength = 0.0,
             std::shared_ptr<const Communicator> workers = {}, bool has_whole_tasks = false,
             bool has_quantized_gradients = false, bool draws_unseen = false);

  struct Grown {
    Tree tree;
    UnsetArray<node_t> leaves;  // of every row, in the caller's order; ~leaf where a row took no part in growing
  };

  // What of the data a tree may see. Draws by the parameters' fractions come on top.
  struct Sample {
    std::uint64_t tree_number = 0;          // key of the random draws
    std::span<const std::uint8_t> tasks{};  // one flag per task; empty: all
    std::span<const std::uint8_t> rows{};   // one flag per row in the caller's order; empty: all
    std::span<const feature_t> features{};  // ascending; empty: all
  };

  // gradients: one pair per row in the caller's order. check_interrupt runs between the steps and may throw.
  Grown grow(const GrowRules& rules, std::span<const GradientPair> gradients, const Sample& sample, int n_threads,
             const std::function<void()>& check_interrupt);

  const std::shared_ptr<const BinnedMatrix>& matrix() const noexcept { return matrix_; }

 private:
  class Growth;

  void check_task_column() const;
  void list_participating_rows(const GrowParams& params, const Sample& sample, ThreadPool& pool,
                               UnsetArray<row_t>& rows /* OUT */) const;
  std::span<const GradientPair> in_stored_order(std::span<const GradientPair> gradients, ThreadPool& pool);
  GradientGrid quantize(std::span<const GradientPair> gradients, const Sample& sample, std::uint64_t seed,
                        ThreadPool& pool);
  UnsetArray<node_t> leaves_of_all_rows(const Tree& tree, std::size_t n_participating, ThreadPool& pool) const;

  std::shared_ptr<const BinnedMatrix> matrix_;
  std::shared_ptr<const SplitScore> score_;
  std::optional<TaskRows> tasks_;
  std::vector<float> feature_weights_;
  std::optional<TaskColumn> task_column_;
  bool is_symmetric_;
  double random_strength_;
  std::shared_ptr<const Communicator> workers_;
  bool has_whole_tasks_;
  bool has_quantized_gradients_;
  bool draws_unseen_;
  RowPartition partition_;
  HistogramPool histograms_;
  UnsetArray<GradientPair> stored_gradients_;
  UnsetArray<GradientPair> task_gradients_;  // of the rows of a level, task by task
};

}  // namespace mtboost
