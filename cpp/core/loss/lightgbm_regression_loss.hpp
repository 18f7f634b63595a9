// SPDX-License-Identifier: Apache-2.0
// LightGBM's regression losses of the difference margin - label whose leaves are Newton steps.
#pragma once

#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost::lightgbm {

inline float sign(double value) noexcept { return static_cast<float>((value > 0.0) - (value < 0.0)); }

// ½ (margin - label)²
struct SquaredError {
  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    return {static_cast<float>(margin - label) * weight, weight};
  }
};

// Quadratic up to alpha, slope alpha beyond it. The hessian is that of the quadratic everywhere.
struct Huber {
  double alpha;

  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    const double difference = margin - label;
    const double slope = std::abs(difference) <= alpha ? difference * weight : sign(difference) * weight * alpha;
    return {static_cast<float>(slope), weight};
  }
};

// c² (|z|/c - ln(1 + |z|/c)) with z = margin - label: quadratic near 0, slope towards c far away.
struct Fair {
  double c;

  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    const double z = margin - label;
    const double size = std::abs(z) + c;
    return {static_cast<float>(c * z / size * weight), static_cast<float>(c * c / (size * size) * weight)};
  }
};

}  // namespace mtboost::lightgbm
