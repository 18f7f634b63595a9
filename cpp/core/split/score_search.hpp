// SPDX-License-Identifier: Apache-2.0
// The split of one node with the largest (S, s), S a split score of zhang2019, by branch and bound.
//
// A branch is one feature of the node: its splits that may still win. S needs the gains s^t of the node's tasks, and
// these a pass over the node's rows, while the pooled gains s are known. So the tasks are taken in stages: those with a
// layer of the histogram, which need no pass; then small ones first, because a task of few rows says as much about S as
// one of many. Tasks of one row are known from the start, and those of two gain the same wherever they are separated
// (PairTask). Each stage tightens the upper bounds on S. The pass that adds up the tasks' own sums scores one split on the
// way, the one with the largest s: the score to beat. Then always the branch with the highest bound goes one stage
// further, until the bounds of all lie below the best S found. Most branches never see most rows, and the winner is never
// lost: a split is dropped only if its bound lies below a score already seen, and of equal scores the same split wins in
// whatever order they come.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "histogram/histogram.hpp"
#include "split/feature_scan.hpp"
#include "split/split.hpp"
#include "split/split_score.hpp"
#include "split/task_gains.hpp"
#include "split/task_rows.hpp"

namespace mtboost {

struct NodeToSplit {
  const Histogram* histogram;
  NodeSums sums;
  std::span<const row_t> rows;
  std::span<const feature_t> features;          // to be scanned, ascending
  std::span<const std::uint8_t> may_be_used{};  // of each whether the node may split on it; empty: all

  bool may_use(std::size_t feature_index) const noexcept {
    return may_be_used.empty() || may_be_used[feature_index] != 0;
  }

  // Sums of a feature's slots.
  std::span<const GradientSums> bins(const BinnedMatrix& matrix, feature_t feature) const noexcept {
    const std::size_t begin = matrix.slot_offset(feature);
    return std::span(histogram->pooled).subspan(begin, matrix.slot_offset(feature + 1) - begin);
  }
};

// For ThreadPool::parallel_for: of scans of all features that the nodes may use.
inline std::size_t steps_of_scans(const BinnedMatrix& matrix, std::span<const NodeToSplit> nodes) noexcept {
  constexpr std::size_t kStepsPerSlot = 4;
  std::size_t n_features = 0;
  for (const NodeToSplit& node : nodes) n_features += node.features.size();
  return n_features * kStepsPerSlot * matrix.n_slots() / matrix.n_features();
}

// Buffers of one thread at work.
struct SplitScratch {
  SplitScratch(const BinnedMatrix& matrix, std::unique_ptr<FeatureScan> own_scan)
      : scan(std::move(own_scan)), task_gains(matrix, scan->free_gain()) {}
  std::unique_ptr<FeatureScan> scan;
  TaskGains task_gains;
};

// Threads come and go with the pool; scratches stay.
class ScratchPool {
 public:
  ScratchPool(const BinnedMatrix& matrix, std::function<std::unique_ptr<FeatureScan>()> make_scan)
      : matrix_(matrix), make_scan_(std::move(make_scan)) {}

  std::unique_ptr<SplitScratch> take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<SplitScratch>(matrix_, make_scan_());
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<SplitScratch> scratch) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  const BinnedMatrix& matrix_;
  std::function<std::unique_ptr<FeatureScan>()> make_scan_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<SplitScratch>> free_;
};

// S of a split that will be scored again, a rounding error apart: hence a little less.
inline double lowered(double score, double pooled_gain) noexcept {
  return score - 1e-6 * std::abs(score) - 1e-9 * pooled_gain;
}
// A bound of S, a little widened: S itself carries the rounding errors of its sums.
inline double widened(double bound, double pooled_gain) noexcept {
  return bound + 1e-6 * std::abs(bound) + 1e-9 * pooled_gain;
}

// In a node with fewer tasks than a score needs: the best split by pooled gain.
Split best_of_one_task(std::span<const Split> by_feature, const SplitScore& score);
// The best of some splits of one feature.
Split best_of(std::span<const Candidate> candidates, std::span<const double> scores,
              std::span<const bin_t> category_order, const FeatureScan& scan);

class ScoreSearch {
 public:
  // by_feature: the best split of each of the node's features by pooled gain. own_gradients: room for one pair a row. What
  // is handed in must outlive the search.
  ScoreSearch(const BinnedMatrix& matrix, const NodeToSplit& node, std::span<const Split> by_feature,
              const SplitScore& score, const TaskRows& tasks, std::span<const GradientPair> gradients,
              std::span<GradientPair> own_gradients, SplitScratch& scratch);

  // Takes the most promising branch one stage further. False if there is none, or others hold the last ones. Threads
  // may step one search at the same time.
  bool step(SplitScratch& scratch);

  Split take_best() { return std::move(best_); }

 private:
  // How many of pairs_ and tasks_ are known after a stage.
  struct Stage {
    std::size_t n_pairs = 0, n_tasks = 0;
    bool operator==(const Stage&) const = default;
  };
  struct Branch {
    double bound = 0.0;  // no split of it scores higher
    feature_t feature = 0;
    std::size_t n_stages = 0;
    std::vector<Candidate> candidates;  // empty before the first stage
    std::vector<TaskGainSums> known;    // of each split, over the tasks of the stages done
    std::vector<bin_t> category_order;
  };
  static bool has_lower_bound(const Branch& a, const Branch& b) noexcept { return a.bound < b.bound; }

  void list_tasks(const TaskRows& tasks);
  void list_tasks_in_order(const TaskRows& tasks);
  void list_stages();
  bool take_branch(Branch& branch /* OUT */);
  void put_back(Branch branch);
  void score_first(const Split& split, std::span<const GradientPair> gradients, SplitScratch& scratch);
  void list_candidates(Branch& branch, SplitScratch& scratch) const;
  void learn_stage(Branch& branch, SplitScratch& scratch) const;
  void drop_candidates(Branch& branch) const;
  std::vector<double> scores(Branch& branch, SplitScratch& scratch) const;
  double bound(double pooled_gain, const TaskGainSums& known, const Stage& stage) const;
  double score_to_beat() const;
  double best_score() const noexcept {
    return best_.is_found() ? std::max(best_.score, score_reached_) : score_reached_;
  }
  Stage stage_of(const Branch& branch) const noexcept {
    return branch.n_stages == 0 ? Stage{} : stages_[branch.n_stages - 1];
  }

  const BinnedMatrix& matrix_;
  const NodeToSplit& node_;
  const SplitScore& score_;
  task_t n_present_ = 0;
  // Tasks in the order in which their gains are computed: those with two rows, and larger ones. s^t of others is always 0.
  std::vector<PairTask> pairs_;
  std::vector<PresentTask> tasks_;
  std::vector<Stage> stages_;

  mutable std::mutex mutex_;
  std::vector<Branch> branches_;  // a heap, highest bound first
  Split best_;
  double score_reached_ =
      -std::numeric_limits<double>::infinity();  // by a split that will be scored with its feature's
};

}  // namespace mtboost
