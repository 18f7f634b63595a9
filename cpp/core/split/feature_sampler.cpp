// SPDX-License-Identifier: Apache-2.0
#include "split/feature_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mtboost {

FeatureSampler::FeatureSampler(const GrowParams& params, const std::vector<feature_t>& features,
                               std::span<const float> weights, std::uint64_t tree)
    : params_(params), weights_(weights), tree_(tree) {
  of_tree_ =
      draw(features, params.colsample_bytree, RandomStream(RandomStream::Purpose::features_of_tree, params.seed, tree));
}

std::vector<feature_t> FeatureSampler::features(int depth, node_t node) {
  while (of_level_.size() <= static_cast<std::size_t>(depth))
    of_level_.push_back(
        draw(of_tree_, params_.colsample_bylevel,
             RandomStream(RandomStream::Purpose::features_of_level, params_.seed, tree_, of_level_.size())));
  return draw(
      of_level_[static_cast<std::size_t>(depth)], params_.colsample_bynode,
      RandomStream(RandomStream::Purpose::features_of_node, params_.seed, tree_, static_cast<std::uint64_t>(node)));
}

std::vector<feature_t> FeatureSampler::draw(const std::vector<feature_t>& from, double fraction,
                                            RandomStream stream) const {
  if (fraction >= 1.0) return from;
  const auto n = std::max<std::size_t>(1, static_cast<std::size_t>(fraction * static_cast<double>(from.size())));
  // Exponential race: the n earliest arrivals with rates w are a weighted draw without replacement
  // (Efraimidis and Spirakis, 2006). Weight 0 arrives last.
  std::vector<std::pair<double, feature_t>> arrivals;
  arrivals.reserve(from.size());
  for (const feature_t feature : from) {
    const double rate = weights_.empty() ? 1.0 : static_cast<double>(weights_[feature]);
    const double time = -std::log1p(-stream.uniform());
    arrivals.emplace_back(rate > 0.0 ? time / rate : std::numeric_limits<double>::max(), feature);
  }
  std::nth_element(arrivals.begin(), arrivals.begin() + static_cast<std::ptrdiff_t>(n - 1), arrivals.end());
  std::vector<feature_t> drawn;
  for (std::size_t i = 0; i < n; ++i) drawn.push_back(arrivals[i].second);
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

InteractionConstraints::InteractionConstraints(const GrowParams& params, feature_t n_features, bool constrains_root)
    : groups_(params.interaction_constraints), n_features_(n_features), constrains_root_(constrains_root) {
  for (auto& group : groups_) std::sort(group.begin(), group.end());
}

std::vector<feature_t> InteractionConstraints::allowed(std::span<const feature_t> used,
                                                       std::span<const feature_t> candidates) const {
  if (!is_active() || (used.empty() && !constrains_root_)) return {candidates.begin(), candidates.end()};
  std::vector<std::uint8_t> is_allowed(n_features_, 0);
  for (const feature_t feature : used) is_allowed[feature] = 1;
  for (const auto& group : groups_)
    if (std::includes(group.begin(), group.end(), used.begin(), used.end()))
      for (const feature_t feature : group) is_allowed[feature] = 1;
  std::vector<feature_t> result;
  for (const feature_t feature : candidates)
    if (is_allowed[feature] != 0) result.push_back(feature);
  return result;
}

}  // namespace mtboost
