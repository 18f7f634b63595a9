// SPDX-License-Identifier: Apache-2.0
// Pseudo-Huber error, δ² (√(1 + (z/δ)²) - 1) with z = margin - label: quadratic near 0, slope δ far away.
#pragma once

#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost {

struct PseudoHuber {
  float huber_slope;  // δ

  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    const float z = margin - label;
    const float squared_slope = huber_slope * huber_slope;
    const float root = std::sqrt(1.0f + z * z / squared_slope);
    const float hessian = squared_slope / ((squared_slope + z * z) * root);
    return {z / root * weight, hessian * weight};
  }
};

using PseudoHuberLoss = ElementwiseLoss<float, PseudoHuber>;

}  // namespace mtboost
