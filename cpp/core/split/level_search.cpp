// SPDX-License-Identifier: Apache-2.0
#include "split/level_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mtboost {
namespace {

bool may_use(const NodeToSplit& node, feature_t feature) { return std::ranges::binary_search(node.features, feature); }

// All features that some node may use, ascending.
std::vector<feature_t> features_of(std::span<const NodeToSplit> nodes) {
  std::vector<feature_t> features;
  for (const NodeToSplit& node : nodes) features.insert(features.end(), node.features.begin(), node.features.end());
  std::ranges::sort(features);
  features.erase(std::unique(features.begin(), features.end()), features.end());
  return features;
}

}  // namespace

LevelSearch::LevelSearch(const BinnedMatrix& matrix, SplitFinder::MakeScan make_scan, Noise noise)
    : matrix_(matrix), make_scan_(std::move(make_scan)), noise_(noise) {}

std::vector<Split> LevelSearch::find(std::span<const NodeToSplit> nodes, ThreadPool& pool) {
  const auto features = features_of(nodes);
  std::vector<Found> found(features.size());
  // A few runs for each thread: small ones balance the load, but each needs a separate scan.
  const std::size_t n_runs = std::min(features.size(), 4 * static_cast<std::size_t>(pool.n_threads()));
  pool.parallel_for(n_runs, steps_of_scans(matrix_, nodes), [&](std::size_t run) {
    const auto scan = make_scan_();
    const std::size_t end = (run + 1) * features.size() / n_runs;
    for (std::size_t i = run * features.size() / n_runs; i < end; ++i) found[i] = search(features[i], nodes, *scan);
  });
  std::vector<Split> splits(nodes.size());
  // Of equal ones the lower feature.
  const auto best = std::ranges::max_element(found, {}, &Found::rank);
  ++level_;
  if (best == found.end() || best->gain <= 0.0) return splits;
  gained_ += best->gain;
  const feature_t feature = features[static_cast<std::size_t>(best - found.begin())];
  const auto scan = make_scan_();
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (may_use(nodes[i], feature)) splits[i] = split(feature, *best, nodes[i], *scan);
  return splits;
}

LevelSearch::Found LevelSearch::search(feature_t feature, std::span<const NodeToSplit> nodes, FeatureScan& scan) const {
  Found best;
  const RandomStream noise(RandomStream::Purpose::noise_of_level, noise_.seed, noise_.tree,
                           level_ * matrix_.n_features() + feature);
  if (matrix_.edges().is_categorical(feature)) {
    for (const NodeToSplit& node : nodes)
      if (may_use(node, feature)) best.gain += scan.best_split(feature, node.bins(matrix_, feature), node.sums).score;
    if (best.gain > 0.0) best.rank = rank(best.gain, noise);
    return best;
  }
  const std::size_t n_positions = std::size_t{matrix_.edges().n_bins(feature)} + 1;
  FeatureScan::Gains gains{std::vector<double>(n_positions), std::vector<double>(n_positions)};
  for (const NodeToSplit& node : nodes)
    if (may_use(node, feature)) scan.add_gains(feature, node.bins(matrix_, feature), node.sums, gains);
  const auto consider = [&](double gain, bin_t position, bool default_left) {
    if (gain <= 0.0) return;
    const double own = rank(gain, noise.after(position));
    if (own > best.rank) best = {own, gain, position, default_left};
  };
  // In the order of XGBoost's scan, whose first one wins among equals. Both ways are equal where no node has missing
  // values.
  for (bin_t position = 0; position < n_positions; ++position) consider(gains.missing_right[position], position, false);
  for (bin_t position = static_cast<bin_t>(n_positions); position-- > 0;)
    if (gains.missing_left[position] != gains.missing_right[position])
      consider(gains.missing_left[position], position, true);
  return best;
}

double LevelSearch::rank(double gain, RandomStream noise) const noexcept {
  return noise_.deviation == 0.0 ? gain : std::sqrt(gained_ + gain) + noise_.deviation * noise.noise();
}

Split LevelSearch::split(feature_t feature, const Found& found, const NodeToSplit& node, FeatureScan& scan) const {
  const auto bins = node.bins(matrix_, feature);
  Split split = matrix_.edges().is_categorical(feature)
                    ? scan.best_split(feature, bins, node.sums)
                    : scan.split_at(feature, bins, node.sums, found.position, found.default_left);
  if (split.is_found()) split.score = found.gain;
  return split;
}

}  // namespace mtboost
