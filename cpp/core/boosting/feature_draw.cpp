// SPDX-License-Identifier: Apache-2.0
#include "boosting/feature_draw.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

#include "base/require.hpp"

namespace mtboost {

void check_feature_weights(std::span<const double> weights, feature_t n_features) {
  if (weights.empty()) return;
  require(weights.size() == n_features, "feature_weights must hold one number a feature");
  require(std::ranges::all_of(weights, [](double weight) { return weight >= 0.0; }),
          "feature_weights must not be negative, or NaN");
  const double sum = std::reduce(weights.begin(), weights.end());
  require(sum > 0.0 && std::isfinite(sum), "feature_weights must have a finite sum above 0");
}

std::vector<feature_t> drawable_features(feature_t n_features, std::span<const double> weights) {
  std::vector<feature_t> features;
  features.reserve(n_features);
  for (feature_t feature = 0; feature < n_features; ++feature)
    if (weights.empty() || weights[feature] > 0.0) features.push_back(feature);
  return features;
}

FeatureDraw::FeatureDraw(std::vector<feature_t> features, std::span<const double> weights)
    : features_(std::move(features)) {
  if (weights.empty()) return;
  for (const feature_t feature : features_) weights_.push_back(weights[feature]);
  sums_.resize(weights_.size());
  std::partial_sum(weights_.begin(), weights_.end(), sums_.begin());
}

std::vector<feature_t> FeatureDraw::draw(std::size_t n, RandomStream random) const {
  n = std::min(n, features_.size());
  if (weights_.empty()) return draw_evenly(n, random);
  // Those drawn before are drawn again in vain, while that costs less than the race below.
  std::vector<feature_t> drawn;
  std::vector<std::uint8_t> is_drawn(features_.size(), 0);
  for (std::size_t n_attempts = n + features_.size() / 4; n_attempts > 0 && drawn.size() < n; --n_attempts) {
    const auto found = std::ranges::upper_bound(sums_, random.uniform() * sums_.back());
    const auto at = std::min(static_cast<std::size_t>(found - sums_.begin()), features_.size() - 1);
    if (std::exchange(is_drawn[at], std::uint8_t{1}) == 0) drawn.push_back(features_[at]);
  }
  if (drawn.size() == n) return drawn;
  // Exponential race: arrivals at rates w come in the order of such draws (Efraimidis and Spirakis, 2006), also where
  // a few features have nearly all weight.
  std::vector<std::pair<double, feature_t>> arrivals;
  for (std::size_t at = 0; at < features_.size(); ++at)
    if (is_drawn[at] == 0) arrivals.emplace_back(-std::log1p(-random.uniform()) / weights_[at], features_[at]);
  const auto end = arrivals.begin() + static_cast<std::ptrdiff_t>(n - drawn.size());
  std::partial_sort(arrivals.begin(), end, arrivals.end());
  std::transform(arrivals.begin(), end, std::back_inserter(drawn), [](const auto& arrival) { return arrival.second; });
  return drawn;
}

std::vector<feature_t> FeatureDraw::draw_evenly(std::size_t n, RandomStream random) const {
  std::vector<feature_t> drawn = features_;
  for (std::size_t i = 0; i < n; ++i) std::swap(drawn[i], drawn[i + random.below(drawn.size() - i)]);
  drawn.resize(n);
  return drawn;
}

}  // namespace mtboost
