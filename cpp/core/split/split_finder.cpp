// SPDX-License-Identifier: Apache-2.0
#include "split/split_finder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

namespace mtboost {
namespace {

// A sixteenth of the rows first, then a quarter, a half, and all.
std::vector<std::size_t> stages(std::span<const PresentTask> tasks) {
  constexpr std::size_t kFewTasks = 16;
  std::size_t n_rows = 0;
  for (const PresentTask& task : tasks) n_rows += task.rows.size();
  std::vector<std::size_t> ends;
  std::size_t n_known = 0, n_rows_known = 0;
  for (const std::size_t part : {16u, 4u, 2u}) {
    if (tasks.size() < kFewTasks) break;
    while ((n_rows_known + tasks[n_known].rows.size()) * part <= n_rows) n_rows_known += tasks[n_known++].rows.size();
    if (n_known > (ends.empty() ? 0 : ends.back())) ends.push_back(n_known);
  }
  ends.push_back(tasks.size());
  return ends;
}

}  // namespace

// Buffers of one thread at work.
class SplitFinder::Scratch {
 public:
  Scratch(const BinnedMatrix& matrix, const GrowParams& params) : scan(matrix, params), task_gains(matrix, scan.arithmetic()) {}

  FeatureScan scan;
  TaskGains task_gains;
  std::vector<Candidate> candidates;
  std::vector<TaskGainSums> known;  // of each candidate
};

// Threads come and go with the pool; scratches stay.
class SplitFinder::ScratchPool {
 public:
  std::unique_ptr<Scratch> take(const BinnedMatrix& matrix, const GrowParams& params) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Scratch>(matrix, params);
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<Scratch> scratch) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

// The search for one node's best score; threads that look at different features share it.
struct SplitFinder::Search {
  std::vector<PresentTask> tasks;     // ascending number of rows, unless the score needs every s^t
  std::vector<std::size_t> stages;    // how many tasks are known after each stage
  std::vector<std::size_t> features;  // positions in NodeToSplit::features, largest pooled gain first
  std::mutex mutex;
  Split best;

  // A cut whose bound lies below this cannot win.
  float score_to_beat() {
    std::lock_guard lock(mutex);
    return best.is_found() ? best.score : -std::numeric_limits<float>::infinity();
  }
};

SplitFinder::SplitFinder(const BinnedMatrix& matrix, const GrowParams& params, const SplitScore* score,
                         const TaskRows* tasks)
    : matrix_(matrix), params_(params), score_(score), tasks_(tasks), scratches_(std::make_shared<ScratchPool>()) {}

// Upper bound of S, a little widened: S itself carries the rounding errors of its sums.
double SplitFinder::bound(float pooled_gain, const TaskGainSums& known, std::size_t n_known, const Search& search) const {
  const double bound = score_->upper_bound(pooled_gain, known, static_cast<task_t>(n_known),
                                           static_cast<task_t>(search.tasks.size()));
  return bound + 1e-6 * std::abs(bound) + 1e-9 * pooled_gain;
}

std::span<const GradientSums> SplitFinder::bins(const NodeToSplit& node, feature_t feature) const noexcept {
  return std::span(node.histogram->pooled).subspan(matrix_.slot_offset(feature), matrix_.cuts().n_bins(feature));
}

Split SplitFinder::best_by_gain(Scratch& scratch, const NodeToSplit& node, feature_t feature) const {
  Candidate best{};
  scratch.scan.for_each_cut(feature, bins(node, feature), node.sums, [&](const Candidate& candidate) {
    if (candidate.gain > best.gain) best = candidate;
  });
  if (best.gain == 0.0f) return {};
  return {best.gain, best.gain, best.cut, best.order, best.left, best.right, scratch.scan.right_bins(best.cut)};
}

std::vector<Split> SplitFinder::find(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                                     ThreadPool& pool) {
  // Work is handed out as (node, run of features); small runs balance, large ones amortise the hand-over.
  constexpr std::size_t kRun = 8;
  struct Item {
    std::size_t node, begin, end;
  };
  std::vector<Item> items;
  std::vector<std::vector<Split>> by_feature(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::size_t n_features = nodes[node].features.size();
    by_feature[node].resize(n_features);
    for (std::size_t begin = 0; begin < n_features; begin += kRun)
      items.push_back({node, begin, std::min(begin + kRun, n_features)});
  }
  pool.parallel_for(items.size(), [&](std::size_t i) {
    const Item& item = items[i];
    auto scratch = scratches_->take(matrix_, params_);
    for (std::size_t at = item.begin; at < item.end; ++at)
      by_feature[item.node][at] = best_by_gain(*scratch, nodes[item.node], nodes[item.node].features[at]);
    scratches_->give_back(std::move(scratch));
  });
  std::vector<Split> best(nodes.size());
  if (score_ != nullptr) {
    find_by_score(nodes, gradients, by_feature, best, pool);
  } else {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      for (Split& split : by_feature[node])
        if (is_better(split, best[node])) best[node] = std::move(split);
  }
  return best;
}

void SplitFinder::find_by_score(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                                std::vector<std::vector<Split>>& by_feature, std::vector<Split>& best,
                                ThreadPool& pool) {
  std::vector<Search> searches(nodes.size());
  pool.parallel_for(nodes.size(), [&](std::size_t node) {
    Search& search = searches[node];
    auto& splits = by_feature[node];
    for (std::size_t at = 0; at < splits.size(); ++at)
      if (splits[at].is_found()) search.features.push_back(at);
    if (search.features.empty()) return;
    search.tasks = present_tasks(*tasks_, nodes[node].rows, gradients, XgboostArithmetic(params_));
    if (search.tasks.size() < score_->min_tasks()) {
      for (Split& split : splits) {
        split.score = static_cast<float>(score_->score_of_one_task(split.gain));
        if (is_better(split, search.best)) search.best = std::move(split);
      }
      search.features.clear();
      return;
    }
    std::stable_sort(search.features.begin(), search.features.end(),
                     [&](std::size_t a, std::size_t b) { return splits[a].gain > splits[b].gain; });
    if (score_->needs_every_task_gain()) {
      search.stages = {search.tasks.size()};
    } else {
      std::stable_sort(search.tasks.begin(), search.tasks.end(),
                       [](const PresentTask& a, const PresentTask& b) { return a.rows.size() < b.rows.size(); });
      search.stages = stages(search.tasks);
    }
  });

  // First the most promising feature of every node, then the second, ...: bounds are tight early.
  struct Item {
    std::size_t node, at;
  };
  std::vector<Item> items;
  for (std::size_t rank = 0; rank < matrix_.n_features(); ++rank)
    for (std::size_t node = 0; node < nodes.size(); ++node)
      if (rank < searches[node].features.size()) items.push_back({node, searches[node].features[rank]});
  pool.parallel_for(items.size(), [&](std::size_t i) {
    const auto& [node, at] = items[i];
    Search& search = searches[node];
    if (bound(by_feature[node][at].gain, {}, 0, search) < search.score_to_beat()) return;
    auto scratch = scratches_->take(matrix_, params_);
    improve_by_score(*scratch, nodes[node], nodes[node].features[at], gradients, search);
    scratches_->give_back(std::move(scratch));
  });
  for (std::size_t node = 0; node < nodes.size(); ++node) best[node] = std::move(searches[node].best);
}

void SplitFinder::improve_by_score(Scratch& scratch, const NodeToSplit& node, feature_t feature,
                                   std::span<const GradientPair> gradients, Search& search) const {
  const auto n_present = static_cast<task_t>(search.tasks.size());
  const auto may_win = [&](const Candidate& cut, const TaskGainSums& known, std::size_t n_known, float score_to_beat) {
    return bound(cut.gain, known, n_known, search) >= score_to_beat;
  };
  auto& cuts = scratch.candidates;
  auto& known = scratch.known;
  cuts.clear();
  scratch.scan.for_each_cut(feature, bins(node, feature), node.sums,
                            [&, score_to_beat = search.score_to_beat()](const Candidate& candidate) {
                              if (may_win(candidate, {}, 0, score_to_beat)) cuts.push_back(candidate);
                            });
  known.assign(cuts.size(), {});
  std::vector<double> scores(cuts.size());
  std::size_t n_known = 0;
  for (const std::size_t n_next : search.stages) {
    if (cuts.empty()) return;
    const auto stage = std::span<const PresentTask>(search.tasks).subspan(n_known, n_next - n_known);
    const NodeTasks tasks{stage, gradients, node.histogram};
    n_known = n_next;
    if (score_->needs_every_task_gain()) {
      std::vector<float> pooled_gains;
      for (const Candidate& cut : cuts) pooled_gains.push_back(cut.gain);
      const auto gains = scratch.task_gains.every_gain(tasks, cuts, scratch.scan.category_order());
      score_->scores(pooled_gains, {gains.data(), cuts.size(), n_present, static_cast<std::ptrdiff_t>(n_present), 1}, scores);
      break;
    }
    const auto sums = scratch.task_gains.sums(tasks, cuts, scratch.scan.category_order(), *score_);
    const float score_to_beat = search.score_to_beat();
    std::size_t n_left = 0;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      known[i] += sums[i];
      if (n_known < n_present && !may_win(cuts[i], known[i], n_known, score_to_beat)) continue;
      cuts[n_left] = cuts[i];
      known[n_left] = known[i];
      if (n_known == n_present) scores[n_left] = score_->score(cuts[i].gain, known[i], n_present);
      ++n_left;
    }
    cuts.resize(n_left);
  }
  if (cuts.empty()) return;

  Split best;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    // Rounded to float: differences below that are noise of the summation and may not overrule the tie rules.
    Split split{static_cast<float>(scores[i]), cuts[i].gain, cuts[i].cut, cuts[i].order, cuts[i].left, cuts[i].right, {}};
    if (is_better(split, best)) best = std::move(split);
  }
  best.right_bins = scratch.scan.right_bins(best.cut);
  std::lock_guard lock(search.mutex);
  if (is_better(best, search.best)) search.best = std::move(best);
}

}  // namespace mtboost
