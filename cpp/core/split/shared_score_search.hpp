// SPDX-License-Identifier: Apache-2.0
// score_search where the rows of a task lie on several machines: the same splits of the same nodes, with the same branch and
// bound, on all nodes of a level at once.
//
// Pooled histograms are summed over all workers, so each worker lists the same candidate splits and the same bounds. Its
// tasks' sums are not: for the splits that may still win, each worker adds up its own rows per task and segment
// (task_gains.hpp), these tables are summed over all workers, and each computes the same scores from them. First the split
// with the largest s of each node, which is the score to beat; then the features with the highest bounds, one of each
// node, two, four, ..., until no bound is above the best score found. What is sent grows with the tasks that are present
// times the splits in question, not with all bins. Where each task has all of its rows on one worker, a worker computes
// the gains of its tasks, and only their sums (TaskGainSums) are sent, which do not grow with the tasks.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/communicator.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "split/score_search.hpp"
#include "split/split.hpp"
#include "split/split_score.hpp"
#include "split/task_rows.hpp"

namespace mtboost {

class SharedScoreSearch {
 public:
  // Arguments of ScoreSearch for several nodes, each with the rows of this worker. by_feature has an entry per node.
  SharedScoreSearch(const BinnedMatrix& matrix, std::span<const NodeToSplit> nodes,
                    std::span<const std::vector<Split>> by_feature, const SplitScore& score, const TaskRows& tasks,
                    std::span<const GradientPair> gradients, const Communicator& workers, bool has_whole_tasks,
                    ScratchPool& scratches, ThreadPool& pool);

  // The best split of each node.
  std::vector<Split> find();

 private:
  // Candidate splits of one feature in one node.
  struct Branch {
    std::size_t node = 0;
    double bound = 0.0;
    feature_t feature = 0;
    std::vector<Candidate> candidates;
    std::vector<bin_t> category_order;
    std::size_t n_segments = 0;
    std::size_t first = 0;  // place of its table among those of the same exchange
  };
  struct Node {
    std::vector<PresentTask> own;           // with rows here
    std::vector<std::uint32_t> own_places;  // of each its place in `present`
    std::vector<PresentTask> present;       // with rows on any worker; sums and gains are those of all, rows are empty
    task_t n_present = 0;
    std::vector<Branch> branches;  // ascending by bound
    double score_reached =
        -std::numeric_limits<double>::infinity();  // by a split that will be scored with its feature's
    Split best;
  };

  void gather_own_tasks(std::span<const GradientPair> gradients);
  void score_first();
  std::vector<Branch> first_branches() const;
  void take_first_score(const Branch& first, std::span<const GradientSums> table, std::span<const GradientSums> counts);
  void find_present(Node& node, std::span<const GradientSums> table, std::span<const GradientSums> counts,
                    SplitScratch& scratch) const;
  void score_first_of_whole_tasks(std::vector<Branch> firsts);
  void take_first_score(const Branch& first, const TaskGainSums& sums);
  void list_branches(std::size_t node);
  std::vector<Branch> take_batch(std::size_t n_of_node);
  void list_candidates(Branch& branch);
  void list_category_order(Branch& branch, SplitScratch& scratch) const;
  void score(std::span<Branch> branches);
  void score_whole_tasks(std::span<Branch> branches);
  std::vector<TaskGainSums> sums_of_all_workers(std::span<const Branch> branches, std::span<double> extra /* IN-OUT */);
  void keep_best(std::span<const Branch> branches, std::vector<Split> best);
  std::vector<double> scores(const Branch& branch, std::span<const GradientSums> table, SplitScratch& scratch) const;
  double best_score(const Node& node) const noexcept;
  double bound(const Node& node, double pooled_gain) const;

  const BinnedMatrix& matrix_;
  std::span<const NodeToSplit> nodes_;
  std::span<const std::vector<Split>> by_feature_;
  const SplitScore& score_;
  const TaskRows& tasks_;
  const Communicator& workers_;
  bool sends_gains_;  // of whole tasks; otherwise the tasks' sums
  ScratchPool& scratches_;
  ThreadPool& pool_;
  std::vector<GradientPair> own_gradients_;  // of the nodes' rows, side by side
  std::vector<Node> searches_;
};

}  // namespace mtboost
