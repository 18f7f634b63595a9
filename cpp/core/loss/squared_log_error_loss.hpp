// SPDX-License-Identifier: Apache-2.0
// Squared error of logarithms, (ln(1 + margin) - ln(1 + label))² / 2. A margin below -1 counts as just above it. The
// second derivative is at least kMinHessian: the true one is negative where a margin is far above its label.
#pragma once

#include <algorithm>
#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost {

struct SquaredLogError {
  static constexpr const char* kLabelDomain = "labels above -1";
  static bool accepts(float label) noexcept { return label > -1.0f; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    margin = std::isnan(margin) ? margin : std::max(margin, kMinMargin);
    const float above = margin + 1.0f;
    const float gap = std::log1p(margin) - std::log1p(label);
    const double square = double{above} * double{above};  // XGBoost divides in double
    const float hessian = std::max(static_cast<float>((1.0f - gap) / square), kMinHessian);
    return {gap / above * weight, hessian * weight};
  }

  static constexpr float kMinMargin = static_cast<float>(-1.0 + 1e-6);
  static constexpr float kMinHessian = 1e-6f;
};

using SquaredLogErrorLoss = ElementwiseLoss<float, SquaredLogError>;

}  // namespace mtboost
