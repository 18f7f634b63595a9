// SPDX-License-Identifier: Apache-2.0
// Hinge loss, max(0, 1 - s margin) with s = 1 for the label 1 and -1 for 0. Its slope is constant up to the hinge, so
// that the hessian is 1 there by convention, and next to nothing beyond it.
#pragma once

#include <limits>

#include "loss/elementwise_loss.hpp"

namespace mtboost {

struct Hinge {
  static constexpr const char* kLabelDomain = "labels that are classes, 0 to 1";
  static bool accepts(float label) noexcept { return label == 0.0f || label == 1.0f; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    const float sign = label * 2.0f - 1.0f;
    if (margin * sign >= 1.0f) return {0.0f, std::numeric_limits<float>::min()};
    if (std::isnan(margin)) return {margin, margin};
    return {-sign * weight, weight};
  }
};

using HingeLoss = ElementwiseLoss<float, Hinge>;

}  // namespace mtboost
