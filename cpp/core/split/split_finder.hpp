// SPDX-License-Identifier: Apache-2.0
// Finds the best split of each of several nodes.
//
// Plain: the split with the largest pooled gain s (chen2016, eq. 7), feature by feature.
// With tasks: the split with the largest (S, s), S a split score of zhang2019. See score_search.hpp, and on several machines
// shared_score_search.hpp.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/communicator.hpp"
#include "base/large_array.hpp"
#include "base/thread_pool.hpp"
#include "binning/binned_matrix.hpp"
#include "split/score_search.hpp"
#include "split/split.hpp"
#include "split/split_score.hpp"
#include "split/task_rows.hpp"

namespace mtboost {

class SplitFinder {
 public:
  using MakeScan = std::function<std::unique_ptr<FeatureScan>()>;

  // score and tasks: both or neither. workers: null is a single machine; otherwise histograms are summed over all of
  // them. has_whole_tasks: no task has rows on two workers. own_gradients: memory for the gradients of a level's rows,
  // which the next finder uses again. The references must outlive the finder.
  SplitFinder(const BinnedMatrix& matrix, MakeScan make_scan, const SplitScore* score, const TaskRows* tasks,
              UnsetArray<GradientPair>& own_gradients, const Communicator* workers = nullptr,
              bool has_whole_tasks = false);

  struct Found {
    Split best;
    std::vector<feature_t> with_gain;  // features that have a split that gains, admitted or not; ascending
  };
  std::vector<Found> find(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                          ThreadPool& pool);

 private:
  void best_by_score(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                     const std::vector<std::vector<Split>>& by_feature, ThreadPool& pool,
                     std::vector<Found>& found /* OUT */);

  const BinnedMatrix& matrix_;
  const SplitScore* score_;
  const TaskRows* tasks_;
  const Communicator* workers_;
  bool has_whole_tasks_;
  std::shared_ptr<ScratchPool> scratches_;
  UnsetArray<GradientPair>& own_gradients_;  // of the searches' rows, side by side
};

}  // namespace mtboost
