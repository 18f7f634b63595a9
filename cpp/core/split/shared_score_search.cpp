// SPDX-License-Identifier: Apache-2.0
#include "split/shared_score_search.hpp"

#include <algorithm>
#include <utility>

namespace mtboost {
namespace {

// Sums that are sent at once: 32 megabytes.
constexpr std::size_t kMostSums = std::size_t{1} << 21;
// Side A, side B, missing.
constexpr std::size_t kSegmentsOfOneSplit = 3;

// How many numbers of TaskGainSums a score reads.
std::size_t count_numbers(const SplitScore& score) {
  return (score.needs_moments() ? 2U : 0U) + (score.needs_positive_sums() ? 3U : 0U);
}

void write_numbers(const TaskGainSums& sums, const SplitScore& score, double* out /* OUT */) {
  if (score.needs_moments())
    for (const double number : {sums.sum, sums.sum_of_squares}) *out++ = number;
  if (score.needs_positive_sums())
    for (const double number : {sums.positive_sum, sums.positive_log_sum, static_cast<double>(sums.n_positive)})
      *out++ = number;
}

TaskGainSums read_numbers(const SplitScore& score, const double* numbers) {
  TaskGainSums sums;
  if (score.needs_moments()) {
    sums.sum = *numbers++;
    sums.sum_of_squares = *numbers++;
  }
  if (score.needs_positive_sums()) {
    sums.positive_sum = *numbers++;
    sums.positive_log_sum = *numbers++;
    sums.n_positive = static_cast<std::int32_t>(*numbers);
  }
  return sums;
}

}  // namespace

SharedScoreSearch::SharedScoreSearch(const BinnedMatrix& matrix, std::span<const NodeToSplit> nodes,
                                     std::span<const std::vector<Split>> by_feature, const SplitScore& score,
                                     const TaskRows& tasks, std::span<const GradientPair> gradients,
                                     const Communicator& workers, bool has_whole_tasks, ScratchPool& scratches,
                                     ThreadPool& pool)
    : matrix_(matrix),
      nodes_(nodes),
      by_feature_(by_feature),
      score_(score),
      tasks_(tasks),
      workers_(workers),
      sends_gains_(has_whole_tasks && !score.needs_every_task_gain()),
      scratches_(scratches),
      pool_(pool),
      searches_(nodes.size()) {
  gather_own_tasks(gradients);
}

void SharedScoreSearch::gather_own_tasks(std::span<const GradientPair> gradients) {
  std::vector<std::size_t> first_rows{0};
  for (const NodeToSplit& node : nodes_) first_rows.push_back(first_rows.back() + node.rows.size());
  own_gradients_.resize(first_rows.back());
  pool_.parallel_for(nodes_.size(), [&](std::size_t number) {
    auto rest = std::span(own_gradients_).subspan(first_rows[number], nodes_[number].rows.size());
    for_each_task(tasks_, nodes_[number].rows, [&](task_t task, std::span<const row_t> rows) {
      PresentTask own{task, rows, {}, rest.first(rows.size())};
      for (std::size_t i = 0; i < rows.size(); ++i) {
        own.gradients[i] = gradients[rows[i]];
        own.sums += {own.gradients[i].gradient, own.gradients[i].hessian};
      }
      searches_[number].own.push_back(own);
      searches_[number].own_places.push_back(task);
      rest = rest.subspan(rows.size());
    });
  });
}

std::vector<Split> SharedScoreSearch::find() {
  score_first();
  for (std::size_t n_of_node = 1;; n_of_node *= 2) {
    auto batch = take_batch(n_of_node);
    if (batch.empty()) break;
    pool_.parallel_for(batch.size(), [&](std::size_t i) { list_candidates(batch[i]); });
    std::erase_if(batch, [](const Branch& branch) { return branch.candidates.empty(); });
    const std::span<Branch> all(batch);
    for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
      std::size_t n_sums = 0;
      for (end = begin; end < all.size() && (end == begin || n_sums < kMostSums); ++end) {
        all[end].first = n_sums;
        n_sums += sends_gains_ ? all[end].candidates.size() * count_numbers(score_) / 2
                               : searches_[all[end].node].present.size() * all[end].n_segments;
      }
      const auto branches = all.subspan(begin, end - begin);
      if (sends_gains_)
        score_whole_tasks(branches);
      else
        score(branches);
    }
  }
  std::vector<Split> found;
  for (Node& node : searches_) found.push_back(std::move(node.best));
  return found;
}

// The split with the largest s of each node, and which tasks are present.
void SharedScoreSearch::score_first() {
  auto firsts = first_branches();
  if (firsts.empty()) return;
  if (sends_gains_) return score_first_of_whole_tasks(std::move(firsts));
  const std::size_t n_tasks = tasks_.n_tasks(), n_of_node = n_tasks * kSegmentsOfOneSplit;
  std::vector<GradientSums> table(firsts.size() * n_of_node), counts(firsts.size() * n_tasks);
  pool_.parallel_for(firsts.size(), [&](std::size_t i) {
    Branch& branch = firsts[i];
    const Node& search = searches_[branch.node];
    const NodeToSplit& node = nodes_[branch.node];
    auto scratch = scratches_.take();
    list_category_order(branch, *scratch);
    branch.n_segments = scratch->task_gains.count_segments(branch.candidates, branch.category_order);
    scratch->task_gains.add_segments({search.own, node.histogram}, search.own_places,
                                     std::span(table).subspan(i * n_of_node, n_of_node));
    for (const PresentTask& own : search.own)
      counts[i * n_tasks + own.task].hessian = static_cast<double>(own.rows.size());
    scratches_.give_back(std::move(scratch));
  });
  const std::span<GradientSums> arrays[]{table, counts};
  sum_together(workers_, arrays, "task sums of the nodes");
  pool_.parallel_for(firsts.size(), [&](std::size_t i) {
    take_first_score(firsts[i], std::span(table).subspan(i * n_of_node, n_of_node),
                     std::span(counts).subspan(i * n_tasks, n_tasks));
    list_branches(firsts[i].node);
  });
}

std::vector<SharedScoreSearch::Branch> SharedScoreSearch::first_branches() const {
  std::vector<Branch> firsts;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const auto best = std::ranges::min_element(by_feature_[node], is_better);
    if (best == by_feature_[node].end() || !best->is_found()) continue;
    Branch branch{node, 0.0, best->rule.feature, {}, {}};
    branch.candidates = {{best->gain, best->order, best->rule, best->left, best->right, best->n_left}};
    firsts.push_back(std::move(branch));
  }
  return firsts;
}

void SharedScoreSearch::list_category_order(Branch& branch, SplitScratch& scratch) const {
  const NodeToSplit& node = nodes_[branch.node];
  std::vector<Candidate> all;
  scratch.scan->list_candidates(branch.feature, node.bins(matrix_, branch.feature), node.sums, all);
  const auto order = scratch.scan->category_order();
  branch.category_order.assign(order.begin(), order.end());
}

void SharedScoreSearch::take_first_score(const Branch& first, std::span<const GradientSums> table,
                                         std::span<const GradientSums> counts) {
  Node& node = searches_[first.node];
  auto scratch = scratches_.take();
  find_present(node, table, counts, *scratch);
  TaskGainSums sums;
  if (node.n_present >= score_.min_tasks() && !score_.needs_every_task_gain()) {
    std::vector<GradientSums> of_present;
    for (const PresentTask& task : node.present) {
      const auto of_task = table.subspan(task.task * kSegmentsOfOneSplit, kSegmentsOfOneSplit);
      of_present.insert(of_present.end(), of_task.begin(), of_task.end());
    }
    sums = scratch->task_gains.sums({node.present, nullptr, of_present}, first.candidates, first.category_order, score_)
               .front();
  }
  scratches_.give_back(std::move(scratch));
  take_first_score(first, sums);
}

void SharedScoreSearch::take_first_score(const Branch& first, const TaskGainSums& sums) {
  Node& node = searches_[first.node];
  const double gain = first.candidates.front().gain;
  if (node.n_present < score_.min_tasks())
    node.best = best_of_one_task(by_feature_[first.node], score_);
  else if (!score_.needs_every_task_gain())
    node.score_reached = lowered(score_.score(gain, sums, node.n_present), gain);
}

void SharedScoreSearch::score_first_of_whole_tasks(std::vector<Branch> firsts) {
  std::vector<double> n_present;
  for (Branch& branch : firsts) {
    auto scratch = scratches_.take();
    list_category_order(branch, *scratch);
    for (PresentTask& own : searches_[branch.node].own) own.gain = scratch->task_gains.gain(own.sums);
    scratches_.give_back(std::move(scratch));
    n_present.push_back(static_cast<double>(searches_[branch.node].own.size()));
  }
  const auto sums = sums_of_all_workers(firsts, n_present);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    searches_[firsts[i].node].n_present = static_cast<task_t>(n_present[i]);
    take_first_score(firsts[i], sums[i]);
    list_branches(firsts[i].node);
  }
}

// Of each candidate split, over the tasks of all workers; `extra` numbers are added up with them.
std::vector<TaskGainSums> SharedScoreSearch::sums_of_all_workers(std::span<const Branch> branches,
                                                                 std::span<double> extra) {
  std::vector<std::size_t> firsts{0};
  for (const Branch& branch : branches) firsts.push_back(firsts.back() + branch.candidates.size());
  const std::size_t n_numbers = count_numbers(score_);
  std::vector<double> values(firsts.back() * n_numbers + extra.size());
  pool_.parallel_for(branches.size(), [&](std::size_t i) {
    const Branch& branch = branches[i];
    auto scratch = scratches_.take();
    const NodeTasks own{searches_[branch.node].own, nodes_[branch.node].histogram};
    double* next = values.data() + firsts[i] * n_numbers;
    for (const TaskGainSums& sums : scratch->task_gains.sums(own, branch.candidates, branch.category_order, score_)) {
      write_numbers(sums, score_, next);
      next += n_numbers;
    }
    scratches_.give_back(std::move(scratch));
  });
  std::ranges::copy(extra, values.end() - static_cast<std::ptrdiff_t>(extra.size()));
  workers_.sum(values, "gains of candidate splits");
  std::copy(values.end() - static_cast<std::ptrdiff_t>(extra.size()), values.end(), extra.begin());
  std::vector<TaskGainSums> sums;
  for (std::size_t i = 0; i < firsts.back(); ++i) sums.push_back(read_numbers(score_, values.data() + i * n_numbers));
  return sums;
}

void SharedScoreSearch::find_present(Node& node, std::span<const GradientSums> table,
                                     std::span<const GradientSums> counts, SplitScratch& scratch) const {
  std::vector<std::uint32_t> place_of_task(counts.size());
  for (task_t task = 0; task < counts.size(); ++task) {
    place_of_task[task] = static_cast<std::uint32_t>(node.present.size());
    if (counts[task].hessian == 0.0) continue;
    PresentTask present{task, {}, {}};
    for (const GradientSums& sums : table.subspan(task * kSegmentsOfOneSplit, kSegmentsOfOneSplit))
      present.sums += sums;
    present.gain = scratch.task_gains.gain(present.sums);
    node.present.push_back(present);
  }
  node.n_present = static_cast<task_t>(node.present.size());
  for (std::uint32_t& place : node.own_places) place = place_of_task[place];
}

void SharedScoreSearch::list_branches(std::size_t number) {
  Node& node = searches_[number];
  if (node.n_present < score_.min_tasks()) return;
  for (const Split& split : by_feature_[number])
    if (split.is_found()) node.branches.push_back({number, bound(node, split.gain), split.rule.feature, {}, {}});
  std::ranges::stable_sort(node.branches, {}, &Branch::bound);
}

// The most promising branches of each node.
std::vector<SharedScoreSearch::Branch> SharedScoreSearch::take_batch(std::size_t n_of_node) {
  std::vector<Branch> batch;
  for (Node& node : searches_) {
    std::erase_if(node.branches, [&](const Branch& branch) { return branch.bound < best_score(node); });
    for (std::size_t i = 0; i < n_of_node && !node.branches.empty(); ++i) {
      batch.push_back(std::move(node.branches.back()));
      node.branches.pop_back();
    }
  }
  return batch;
}

void SharedScoreSearch::list_candidates(Branch& branch) {
  const NodeToSplit& node = nodes_[branch.node];
  const Node& search = searches_[branch.node];
  auto scratch = scratches_.take();
  scratch->scan->list_candidates(branch.feature, node.bins(matrix_, branch.feature), node.sums, branch.candidates);
  std::erase_if(branch.candidates,
                [&](const Candidate& candidate) { return bound(search, candidate.gain) < best_score(search); });
  const auto order = scratch->scan->category_order();
  branch.category_order.assign(order.begin(), order.end());
  if (!branch.candidates.empty())
    branch.n_segments = scratch->task_gains.count_segments(branch.candidates, branch.category_order);
  scratches_.give_back(std::move(scratch));
}

void SharedScoreSearch::score(std::span<Branch> branches) {
  const auto n_sums = [&](const Branch& branch) { return searches_[branch.node].present.size() * branch.n_segments; };
  std::vector<GradientSums> table(branches.back().first + n_sums(branches.back()));
  pool_.parallel_for(branches.size(), [&](std::size_t i) {
    const Branch& branch = branches[i];
    const Node& node = searches_[branch.node];
    auto scratch = scratches_.take();
    scratch->task_gains.count_segments(branch.candidates, branch.category_order);
    scratch->task_gains.add_segments({node.own, nodes_[branch.node].histogram}, node.own_places,
                                     std::span(table).subspan(branch.first, n_sums(branch)));
    scratches_.give_back(std::move(scratch));
  });
  const std::span<GradientSums> array(table);
  sum_together(workers_, std::span(&array, 1), "task sums of candidate splits");
  std::vector<Split> best(branches.size());
  pool_.parallel_for(branches.size(), [&](std::size_t i) {
    const Branch& branch = branches[i];
    auto scratch = scratches_.take();
    const auto of_branch = std::span<const GradientSums>(table).subspan(branch.first, n_sums(branch));
    best[i] = best_of(branch.candidates, scores(branch, of_branch, *scratch), branch.category_order, *scratch->scan);
    scratches_.give_back(std::move(scratch));
  });
  keep_best(branches, std::move(best));
}

void SharedScoreSearch::score_whole_tasks(std::span<Branch> branches) {
  const auto sums = sums_of_all_workers(branches, {});
  auto of_split = sums.begin();
  std::vector<Split> best;
  auto scratch = scratches_.take();
  for (const Branch& branch : branches) {
    std::vector<double> scores;
    for (const Candidate& candidate : branch.candidates)
      scores.push_back(score_.score(candidate.gain, *of_split++, searches_[branch.node].n_present));
    best.push_back(best_of(branch.candidates, scores, branch.category_order, *scratch->scan));
  }
  scratches_.give_back(std::move(scratch));
  keep_best(branches, std::move(best));
}

void SharedScoreSearch::keep_best(std::span<const Branch> branches, std::vector<Split> best) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    Split& so_far = searches_[branches[i].node].best;
    if (is_better(best[i], so_far)) so_far = std::move(best[i]);
  }
}

std::vector<double> SharedScoreSearch::scores(const Branch& branch, std::span<const GradientSums> table,
                                              SplitScratch& scratch) const {
  const auto& present = searches_[branch.node].present;
  const auto n_present = static_cast<task_t>(present.size());
  std::vector<double> scores(branch.candidates.size());
  if (!score_.needs_every_task_gain()) {
    const auto sums =
        scratch.task_gains.sums({present, nullptr, table}, branch.candidates, branch.category_order, score_);
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = score_.score(branch.candidates[i].gain, sums[i], n_present);
    return scores;
  }
  std::vector<float> pooled_gains;
  for (const Candidate& candidate : branch.candidates) pooled_gains.push_back(static_cast<float>(candidate.gain));
  const auto gains = scratch.task_gains.every_gain({present, nullptr, table}, branch.candidates, branch.category_order);
  score_.scores(pooled_gains,
                {gains.data(), branch.candidates.size(), n_present, static_cast<std::ptrdiff_t>(n_present), 1}, scores);
  return scores;
}

double SharedScoreSearch::best_score(const Node& node) const noexcept {
  return node.best.is_found() ? std::max(node.best.score, node.score_reached) : node.score_reached;
}

double SharedScoreSearch::bound(const Node& node, double pooled_gain) const {
  return widened(score_.upper_bound(pooled_gain, {}, 0, node.n_present), pooled_gain);
}

}  // namespace mtboost
