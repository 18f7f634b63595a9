// SPDX-License-Identifier: Apache-2.0
// Logistic loss, -y ln p - (1 - y) ln(1 - p) with p = 1 / (1 + exp(-margin)). Labels between 0 and 1
// are probabilities.
#pragma once

#include <algorithm>
#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost {

struct Logistic {
  PositiveFactor positive_factor;

  static constexpr const char* kLabelDomain = "labels from 0 to 1";
  static bool accepts(float label) noexcept { return label >= 0.0f && label <= 1.0f; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    weight *= positive_factor(label);
    const float p = probability(margin);
    return {(p - label) * weight, std::max(kMinHessian, p * (1.0f - p)) * weight};
  }

  static float probability(float margin) noexcept {
    constexpr float kMaxExponent = 88.7f;  // exp(88.73) overflows
    return 1.0f / (std::exp(std::min(-margin, kMaxExponent)) + 1.0f);
  }

  static constexpr float kMinHessian = 1e-16f;  // a saturated row still counts as present
};

using LogisticLoss = ElementwiseLoss<float, Logistic>;

}  // namespace mtboost
