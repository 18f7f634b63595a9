// SPDX-License-Identifier: Apache-2.0
// Finds the best cut of each of several nodes.
//
// Plain: the cut with the largest pooled gain s (chen2016, eq. 7), feature by feature.
// With tasks: the cut with the largest (S, s), S a split score of zhang2019. See score_search.hpp.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "base/thread_pool.hpp"
#include "binning/binned_matrix.hpp"
#include "split/score_search.hpp"
#include "split/split.hpp"
#include "split/split_score.hpp"
#include "split/task_rows.hpp"

namespace mtboost {

class SplitFinder {
 public:
  // score and tasks: both or neither. The references must outlive the finder.
  SplitFinder(const BinnedMatrix& matrix, const GrowParams& params, const SplitScore* score, const TaskRows* tasks);

  std::vector<Split> find(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients, ThreadPool& pool);

 private:
  class ScratchPool;

  Split best_by_gain(SplitScratch& scratch, const NodeToSplit& node, feature_t feature) const;
  std::vector<Split> best_by_score(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                                   const std::vector<std::vector<Split>>& by_feature, ThreadPool& pool);

  const BinnedMatrix& matrix_;
  const GrowParams& params_;
  const SplitScore* score_;
  const TaskRows* tasks_;
  std::shared_ptr<ScratchPool> scratches_;
};

}  // namespace mtboost
