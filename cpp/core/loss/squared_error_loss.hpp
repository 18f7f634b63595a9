// SPDX-License-Identifier: Apache-2.0
// Squared error, ½ (margin - label)².
#pragma once

#include "loss/elementwise_loss.hpp"

namespace mtboost {

struct SquaredError {
  PositiveFactor positive_factor;  // here too, as in XGBoost

  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    weight *= positive_factor(label);
    return {(margin - label) * weight, weight};
  }
};

using SquaredErrorLoss = ElementwiseLoss<float, SquaredError>;

}  // namespace mtboost
