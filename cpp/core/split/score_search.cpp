// SPDX-License-Identifier: Apache-2.0
#include "split/score_search.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace mtboost {

Split best_of_one_task(std::span<const Split> by_feature, const SplitScore& score) {
  Split best;
  for (Split split : by_feature) {
    split.score = score.score_of_one_task(split.gain);
    if (is_better(split, best)) best = std::move(split);
  }
  return best;
}

Split best_of(std::span<const Candidate> candidates, std::span<const double> scores,
              std::span<const bin_t> category_order, const FeatureScan& scan) {
  Split best;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const Candidate& candidate = candidates[i];
    // Rounded to float: differences below that are noise of the summation and may not overrule the tie rules.
    Split split{static_cast<float>(scores[i]),
                candidate.gain,
                candidate.rule,
                candidate.order,
                candidate.left,
                candidate.right,
                candidate.n_left,
                {}};
    if (is_better(split, best)) best = std::move(split);
  }
  best.listed_bins = scan.listed_bins(best.rule, category_order);
  return best;
}

ScoreSearch::ScoreSearch(const BinnedMatrix& matrix, const NodeToSplit& node, std::span<const Split> by_feature,
                         const SplitScore& score, const TaskRows& tasks, std::span<const GradientPair> gradients,
                         std::span<GradientPair> own_gradients, SplitScratch& scratch)
    : matrix_(matrix), node_(node), score_(score) {
  if (std::none_of(by_feature.begin(), by_feature.end(), [](const Split& split) { return split.is_found(); })) return;
  score.needs_every_task_gain() ? list_tasks_in_order(tasks) : list_tasks(tasks);
  if (n_present_ < score.min_tasks()) {
    best_ = best_of_one_task(by_feature, score);
    return;
  }
  scratch.task_gains.find_gains(pairs_, gradients);
  std::erase_if(pairs_, [&](const PairTask& pair) {
    return pair.gain == 0.0f || (pair.gain < 0.0f && !score.needs_moments());  // as good as a task of one row
  });
  if (stages_.empty()) list_stages();
  for (PresentTask& task : tasks_) {
    if (!task.layer.empty()) continue;
    task.gradients = own_gradients.first(task.rows.size());
    own_gradients = own_gradients.subspan(task.rows.size());
  }
  score_first(*std::ranges::min_element(by_feature, is_better), gradients, scratch);
  for (const Split& split : by_feature)
    if (split.is_found()) put_back({bound(split.gain, {}, {}), split.rule.feature, 0, {}, {}, {}});
}

void ScoreSearch::list_tasks_in_order(const TaskRows& tasks) {
  for_each_task(tasks, node_.rows, [&](task_t task, std::span<const row_t> rows) {
    tasks_.push_back({task, rows, node_.histogram->layer(task)});
  });
  n_present_ = static_cast<task_t>(tasks_.size());
  stages_ = {{0, tasks_.size()}};
}

// Tasks of one row are not listed: no split has rows of them on both sides. Those with a layer come first, since they cost
// least, then small ones; of about equal size (the same power of 2) in their order.
void ScoreSearch::list_tasks(const TaskRows& tasks) {
  struct Slice {
    task_t task;
    row_t first, n_rows;
  };
  constexpr std::size_t kClasses = std::numeric_limits<row_t>::digits + 1;
  const auto class_of = [&](const Slice& slice) -> std::size_t {
    return node_.histogram->layer(slice.task).empty() ? std::bit_width(slice.n_rows) : 0;
  };
  std::vector<Slice> slices;
  std::array<std::size_t, kClasses + 1> places{};  // of the next task of each class
  for_each_task(tasks, node_.rows, [&](task_t task, std::span<const row_t> rows) {
    ++n_present_;
    if (rows.size() == 1) return;
    if (rows.size() == 2 && !matrix_.is_sparse() && node_.histogram->layer(task).empty()) {
      pairs_.push_back({{rows[0], rows[1]}, 0.0f, 0.0});
      return;
    }
    const Slice slice{task, static_cast<row_t>(rows.data() - node_.rows.data()), static_cast<row_t>(rows.size())};
    slices.push_back(slice);
    ++places[class_of(slice) + 1];
  });
  std::partial_sum(places.begin(), places.end(), places.begin());
  tasks_.resize(slices.size());
  for (const Slice& slice : slices)
    tasks_[places[class_of(slice)]++] = {slice.task, node_.rows.subspan(slice.first, slice.n_rows),
                                         node_.histogram->layer(slice.task)};
}

// First those with a layer; of the others, pairs first, those of 1/64 of the rows, of 1/16, of a quarter, of half, and all.
void ScoreSearch::list_stages() {
  constexpr std::size_t kFewTasks = 16;
  const auto first_without = std::ranges::find_if(tasks_, [](const PresentTask& task) { return task.layer.empty(); });
  Stage known{0, static_cast<std::size_t>(first_without - tasks_.begin())};
  const auto end_stage = [&] {
    if (known != (stages_.empty() ? Stage{} : stages_.back())) stages_.push_back(known);
  };
  end_stage();
  if (pairs_.size() + (tasks_.size() - known.n_tasks) >= kFewTasks) {
    std::size_t n_rows = 2 * pairs_.size(), n_rows_known = 0;
    for (const PresentTask& task : std::span(tasks_).subspan(known.n_tasks)) n_rows += task.rows.size();
    for (const std::size_t part : {64u, 16u, 4u, 2u}) {
      known.n_pairs = std::min(pairs_.size(), n_rows / part / 2);
      if (known.n_pairs == pairs_.size()) {
        n_rows_known = std::max(n_rows_known, 2 * pairs_.size());
        while ((n_rows_known + tasks_[known.n_tasks].rows.size()) * part <= n_rows)
          n_rows_known += tasks_[known.n_tasks++].rows.size();
      }
      end_stage();
    }
  }
  known = {pairs_.size(), tasks_.size()};
  end_stage();
  if (stages_.empty()) stages_.emplace_back();
}

bool ScoreSearch::step(SplitScratch& scratch) {
  Branch branch;
  if (!take_branch(branch)) return false;
  if (branch.n_stages == 0)
    list_candidates(branch, scratch);
  else
    drop_candidates(branch);
  if (branch.candidates.empty()) return true;
  if (branch.n_stages + 1 < stages_.size()) {
    learn_stage(branch, scratch);
    drop_candidates(branch);
    if (!branch.candidates.empty()) put_back(std::move(branch));
    return true;
  }
  Split best = best_of(branch.candidates, scores(branch, scratch), branch.category_order, *scratch.scan);
  std::lock_guard lock(mutex_);
  if (is_better(best, best_)) best_ = std::move(best);
  return true;
}

// The split with the most gain tends to score high, and the sooner a high score is known, the more splits can be dropped. It
// is scored again with the others of its feature.
void ScoreSearch::score_first(const Split& split, std::span<const GradientPair> gradients, SplitScratch& scratch) {
  std::vector<Candidate> candidates;
  scratch.scan->list_candidates(split.rule.feature, node_.bins(matrix_, split.rule.feature), node_.sums, candidates);
  const Candidate candidate{split.gain, split.order, split.rule, split.left, split.right, split.n_left};
  const auto sums =
      scratch.task_gains.first_sums(tasks_, pairs_, gradients, candidate, scratch.scan->category_order(), score_);
  if (score_.needs_every_task_gain()) return;
  score_reached_ = lowered(score_.score(split.gain, sums, n_present_), split.gain);
}

bool ScoreSearch::take_branch(Branch& branch) {
  std::lock_guard lock(mutex_);
  if (branches_.empty()) return false;
  std::pop_heap(branches_.begin(), branches_.end(), has_lower_bound);
  branch = std::move(branches_.back());
  branches_.pop_back();
  if (branch.bound < best_score()) branches_.clear();  // nor can the others win
  return true;
}

void ScoreSearch::put_back(Branch branch) {
  std::lock_guard lock(mutex_);
  branches_.push_back(std::move(branch));
  std::push_heap(branches_.begin(), branches_.end(), has_lower_bound);
}

double ScoreSearch::score_to_beat() const {
  std::lock_guard lock(mutex_);
  return best_score();
}

double ScoreSearch::bound(double pooled_gain, const TaskGainSums& known, const Stage& stage) const {
  const auto n_unknown = static_cast<task_t>(pairs_.size() - stage.n_pairs + tasks_.size() - stage.n_tasks);
  return widened(score_.upper_bound(pooled_gain, known, n_present_ - n_unknown, n_present_), pooled_gain);
}

void ScoreSearch::list_candidates(Branch& branch, SplitScratch& scratch) const {
  scratch.scan->list_candidates(branch.feature, node_.bins(matrix_, branch.feature), node_.sums, branch.candidates);
  std::erase_if(branch.candidates, [&, score_to_beat = score_to_beat()](const Candidate& candidate) {
    return bound(candidate.gain, {}, {}) < score_to_beat;
  });
  branch.known.resize(branch.candidates.size());
  const auto order = scratch.scan->category_order();
  branch.category_order.assign(order.begin(), order.end());
}

void ScoreSearch::learn_stage(Branch& branch, SplitScratch& scratch) const {
  const Stage begin = stage_of(branch);
  const Stage end = stages_[branch.n_stages++];
  const NodeTasks tasks{std::span(tasks_).subspan(begin.n_tasks, end.n_tasks - begin.n_tasks),
                        node_.histogram,
                        {},
                        std::span(pairs_).subspan(begin.n_pairs, end.n_pairs - begin.n_pairs)};
  const auto sums = scratch.task_gains.sums(tasks, branch.candidates, branch.category_order, score_);
  for (std::size_t i = 0; i < branch.candidates.size(); ++i) branch.known[i] += sums[i];
}

void ScoreSearch::drop_candidates(Branch& branch) const {
  const double least = score_to_beat();
  branch.bound = -std::numeric_limits<double>::infinity();
  std::size_t n_left = 0;
  for (std::size_t i = 0; i < branch.candidates.size(); ++i) {
    const double bound_of_candidate = bound(branch.candidates[i].gain, branch.known[i], stage_of(branch));
    if (bound_of_candidate < least) continue;
    branch.bound = std::max(branch.bound, bound_of_candidate);
    branch.candidates[n_left] = branch.candidates[i];
    branch.known[n_left++] = branch.known[i];
  }
  branch.candidates.resize(n_left);
  branch.known.resize(n_left);
}

std::vector<double> ScoreSearch::scores(Branch& branch, SplitScratch& scratch) const {
  std::vector<double> scores(branch.candidates.size());
  if (!score_.needs_every_task_gain()) {
    learn_stage(branch, scratch);
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = score_.score(branch.candidates[i].gain, branch.known[i], n_present_);
    return scores;
  }
  std::vector<float> pooled_gains;
  for (const Candidate& candidate : branch.candidates) pooled_gains.push_back(static_cast<float>(candidate.gain));
  const NodeTasks tasks{tasks_, node_.histogram};
  const auto gains = scratch.task_gains.every_gain(tasks, branch.candidates, branch.category_order);
  score_.scores(pooled_gains,
                {gains.data(), branch.candidates.size(), n_present_, static_cast<std::ptrdiff_t>(n_present_), 1},
                scores);
  return scores;
}

}  // namespace mtboost
