// SPDX-License-Identifier: Apache-2.0
#include "split/split_finder.hpp"

#include <algorithm>
#include <mutex>

namespace mtboost {

// Threads come and go with the pool; scratches stay.
class SplitFinder::ScratchPool {
 public:
  std::unique_ptr<SplitScratch> take(const BinnedMatrix& matrix, const GrowParams& params) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<SplitScratch>(matrix, params);
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void give_back(std::unique_ptr<SplitScratch> scratch) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<SplitScratch>> free_;
};

SplitFinder::SplitFinder(const BinnedMatrix& matrix, const GrowParams& params, const SplitScore* score,
                         const TaskRows* tasks)
    : matrix_(matrix), params_(params), score_(score), tasks_(tasks), scratches_(std::make_shared<ScratchPool>()) {}

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
  if (score_ != nullptr) return best_by_score(nodes, gradients, by_feature, pool);
  std::vector<Split> best(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node)
    for (Split& split : by_feature[node])
      if (is_better(split, best[node])) best[node] = std::move(split);
  return best;
}

Split SplitFinder::best_by_gain(SplitScratch& scratch, const NodeToSplit& node, feature_t feature) const {
  Candidate best{};
  scratch.scan.for_each_cut(feature, node.bins(matrix_, feature), node.sums, [&](const Candidate& candidate) {
    if (candidate.gain > best.gain) best = candidate;
  });
  if (best.gain == 0.0f) return {};
  return {best.gain,  best.gain,  best.cut, best.order, best.left,
          best.right, right_bins(best.cut, scratch.scan.category_order())};
}

std::vector<Split> SplitFinder::best_by_score(std::span<const NodeToSplit> nodes,
                                              std::span<const GradientPair> gradients,
                                              const std::vector<std::vector<Split>>& by_feature, ThreadPool& pool) {
  const XgboostArithmetic arithmetic(params_);
  std::vector<std::unique_ptr<ScoreSearch>> searches(nodes.size());
  pool.parallel_for(nodes.size(), [&](std::size_t node) {
    searches[node] = std::make_unique<ScoreSearch>(matrix_, nodes[node], by_feature[node], *score_, *tasks_, gradients,
                                                   arithmetic);
  });
  // Each thread begins at nodes of its own and helps with those of the others in the end.
  const auto n_threads = static_cast<std::size_t>(pool.n_threads());
  pool.parallel_for(n_threads, [&](std::size_t thread) {
    auto scratch = scratches_->take(matrix_, params_);
    for (std::size_t i = 0; i < nodes.size(); ++i)
      while (searches[(thread * nodes.size() / n_threads + i) % nodes.size()]->step(*scratch)) {
      }
    scratches_->give_back(std::move(scratch));
  });
  std::vector<Split> best(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) best[node] = searches[node]->take_best();
  return best;
}

}  // namespace mtboost
