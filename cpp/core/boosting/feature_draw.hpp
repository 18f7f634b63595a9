// SPDX-License-Identifier: Apache-2.0
// Draws the features that a node considers, without replacement, with equal probability or by weight (eruhimov2007,
// section 3): each in turn with a probability proportional to its weight among those that are left. A weight of 0 is
// never drawn. Naive twin: tests/oracle/naive_projected_boosting.py.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"

namespace mtboost {

// Throws std::invalid_argument unless weights are one number a feature, not negative, and have a sum above 0; or none.
void check_feature_weights(std::span<const double> weights, feature_t n_features);

class FeatureDraw {
 public:
  // weights: of each feature of the table, all above 0 for those to draw from; empty: equal chances.
  FeatureDraw(std::vector<feature_t> features, std::span<const double> weights);

  // Those to draw from, as they were given.
  const std::vector<feature_t>& features() const noexcept { return features_; }

  // n of them, or all if there are no more, in the order in which they were drawn.
  std::vector<feature_t> draw(std::size_t n, RandomStream random) const;

 private:
  std::vector<feature_t> draw_evenly(std::size_t n, RandomStream random) const;

  std::vector<feature_t> features_;
  std::vector<double> weights_, sums_;  // of each of them; of those up to each; empty: equal chances
};

// Features of the table that can be drawn: all, or those whose weight is not 0.
std::vector<feature_t> drawable_features(feature_t n_features, std::span<const double> weights);

}  // namespace mtboost
