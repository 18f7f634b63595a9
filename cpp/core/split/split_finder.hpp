// SPDX-License-Identifier: Apache-2.0
// Finds the best cut of each of several nodes.
//
// Plain: the cut with the largest pooled gain s (chen2016, eq. 7).
// With tasks: the cut with the largest (S, s), S a split score of zhang2019. Task gains cost a pass over the node's
// rows, pooled gains do not: features are therefore taken in descending order of their largest s, and of each only the
// cuts are examined whose upper bound on S reaches the best S so far. Small tasks come first, because a task of few rows
// says as much about S as one of many; what they gain tightens the bound, and few cuts are left for the large ones.
// This skips most of the work and never the winner: a cut is dropped only if its bound lies below a score already seen,
// and which cut wins does not depend on the order.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "base/thread_pool.hpp"
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
  std::span<const feature_t> features;  // ascending; those that the node may use
};

class SplitFinder {
 public:
  // score and tasks: both or neither. The references must outlive the finder.
  SplitFinder(const BinnedMatrix& matrix, const GrowParams& params, const SplitScore* score, const TaskRows* tasks);

  std::vector<Split> find(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients, ThreadPool& pool);

 private:
  class Scratch;
  class ScratchPool;
  struct Search;

  std::span<const GradientSums> bins(const NodeToSplit& node, feature_t feature) const noexcept;
  double bound(float pooled_gain, const TaskGainSums& known, std::size_t n_known, const Search& search) const;
  Split best_by_gain(Scratch& scratch, const NodeToSplit& node, feature_t feature) const;
  void improve_by_score(Scratch& scratch, const NodeToSplit& node, feature_t feature,
                        std::span<const GradientPair> gradients, Search& search) const;
  void find_by_score(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                     std::vector<std::vector<Split>>& by_feature, std::vector<Split>& best, ThreadPool& pool);

  const BinnedMatrix& matrix_;
  const GrowParams& params_;
  const SplitScore* score_;
  const TaskRows* tasks_;
  std::shared_ptr<ScratchPool> scratches_;
};

}  // namespace mtboost
