// SPDX-License-Identifier: Apache-2.0
// Absolute error, |margin - label|; its leaves are medians.
#pragma once

#include "loss/percentile_loss.hpp"

namespace mtboost {

struct AbsoluteError {
  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    const float difference = margin - label;
    const int sign = (difference > 0.0f) - (difference < 0.0f);
    return {static_cast<float>(sign) * weight, weight};
  }

  static bool counts(float weight) noexcept { return weight > 0.0f; }
  static float leaf_weight(float, float weight) noexcept { return weight; }
  // Unweighted, the median of an even number of rows lies halfway between two; weighted, it is the first residual that
  // reaches half the weight.
  static float leaf_value(std::span<Residual<float>> residuals, bool is_weighted, float learning_rate);
};

using AbsoluteErrorLoss = PercentileLoss<float, AbsoluteError>;

}  // namespace mtboost
