// SPDX-License-Identifier: Apache-2.0
#include "split/split_finder.hpp"

#include <algorithm>
#include <utility>

#include "split/shared_score_search.hpp"

namespace mtboost {

SplitFinder::SplitFinder(const BinnedMatrix& matrix, MakeScan make_scan, const SplitScore* score, const TaskRows* tasks,
                         UnsetArray<GradientPair>& own_gradients, const Communicator* workers, bool has_whole_tasks)
    : matrix_(matrix),
      score_(score),
      tasks_(tasks),
      workers_(workers),
      has_whole_tasks_(has_whole_tasks),
      scratches_(std::make_shared<ScratchPool>(matrix, std::move(make_scan))),
      own_gradients_(own_gradients) {}

std::vector<SplitFinder::Found> SplitFinder::find(std::span<const NodeToSplit> nodes,
                                                  std::span<const GradientPair> gradients, ThreadPool& pool) {
  // Work is handed out as (node, run of features); small runs balance, large ones amortise the hand-over.
  constexpr std::size_t kRun = 8;
  struct Item {
    std::size_t node, begin, end;
  };
  std::vector<Item> items;
  std::vector<std::vector<Split>> by_feature(nodes.size());
  std::vector<std::vector<std::uint8_t>> has_gain(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    const std::size_t n_features = nodes[node].features.size();
    by_feature[node].resize(n_features);
    has_gain[node].resize(n_features);
    for (std::size_t begin = 0; begin < n_features; begin += kRun)
      items.push_back({node, begin, std::min(begin + kRun, n_features)});
  }
  pool.parallel_for(items.size(), steps_of_scans(matrix_, nodes), [&](std::size_t i) {
    const auto& [number, begin, end] = items[i];
    const NodeToSplit& node = nodes[number];
    auto scratch = scratches_->take();
    for (std::size_t at = begin; at < end; ++at) {
      const feature_t feature = node.features[at];
      Split split = scratch->scan->best_split(feature, node.bins(matrix_, feature), node.sums);
      has_gain[number][at] = scratch->scan->has_seen_gain();
      if (node.may_use(at)) by_feature[number][at] = std::move(split);
    }
    scratches_->give_back(std::move(scratch));
  });
  std::vector<Found> found(nodes.size());
  for (std::size_t node = 0; node < nodes.size(); ++node)
    for (std::size_t at = 0; at < has_gain[node].size(); ++at)
      if (has_gain[node][at] != 0) found[node].with_gain.push_back(nodes[node].features[at]);
  if (score_ != nullptr && workers_ != nullptr) {
    SharedScoreSearch search(matrix_, nodes, by_feature, *score_, *tasks_, gradients, *workers_, has_whole_tasks_,
                             *scratches_, pool);
    auto splits = search.find();
    for (std::size_t node = 0; node < nodes.size(); ++node) found[node].best = std::move(splits[node]);
  } else if (score_ != nullptr) {
    best_by_score(nodes, gradients, by_feature, pool, found);
  } else {
    for (std::size_t node = 0; node < nodes.size(); ++node)
      for (Split& split : by_feature[node])
        if (is_better(split, found[node].best)) found[node].best = std::move(split);
  }
  return found;
}

void SplitFinder::best_by_score(std::span<const NodeToSplit> nodes, std::span<const GradientPair> gradients,
                                const std::vector<std::vector<Split>>& by_feature, ThreadPool& pool,
                                std::vector<Found>& found) {
  std::vector<std::unique_ptr<ScoreSearch>> searches(nodes.size());
  std::vector<std::size_t> first_rows{0};
  for (const NodeToSplit& node : nodes) first_rows.push_back(first_rows.back() + node.rows.size());
  if (own_gradients_.size() < first_rows.back()) own_gradients_.resize(first_rows.back());
  pool.parallel_for(nodes.size(), [&](std::size_t node) {
    auto scratch = scratches_->take();
    const auto own_gradients = std::span(own_gradients_).subspan(first_rows[node], nodes[node].rows.size());
    searches[node] = std::make_unique<ScoreSearch>(matrix_, nodes[node], by_feature[node], *score_, *tasks_, gradients,
                                                   own_gradients, *scratch);
    scratches_->give_back(std::move(scratch));
  });
  // Each thread begins with different nodes and helps with those of the others in the end.
  const auto n_threads = static_cast<std::size_t>(pool.n_threads());
  pool.parallel_for(n_threads, [&](std::size_t thread) {
    auto scratch = scratches_->take();
    for (std::size_t i = 0; i < nodes.size(); ++i)
      while (searches[(thread * nodes.size() / n_threads + i) % nodes.size()]->step(*scratch)) {
      }
    scratches_->give_back(std::move(scratch));
  });
  for (std::size_t node = 0; node < nodes.size(); ++node) found[node].best = searches[node]->take_best();
}

}  // namespace mtboost
