// SPDX-License-Identifier: Apache-2.0
// Absolute error, |margin - label|; its leaves are medians.
#pragma once

#include "loss/xgboost_percentile.hpp"

namespace mtboost {

struct AbsoluteError : XgboostPercentile {
  GradientPair operator()(float margin, float label, float weight) const noexcept {
    const float difference = margin - label;
    const int sign = (difference > 0.0f) - (difference < 0.0f);
    return {static_cast<float>(sign) * weight, weight};
  }

  static float leaf_value(std::span<Residual<float>> residuals, bool is_weighted, float learning_rate) {
    return xgboost_percentile(residuals, 0.5f, is_weighted) * learning_rate;
  }
};

using AbsoluteErrorLoss = PercentileLoss<float, AbsoluteError>;

}  // namespace mtboost
