// SPDX-License-Identifier: Apache-2.0
// LightGBM's losses whose leaves are percentiles of residuals: absolute error, quantile, absolute percentage error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "loss/lightgbm_regression_loss.hpp"
#include "loss/percentile_loss.hpp"

namespace mtboost::lightgbm {

// LightGBM 4.7 mended the interpolation between two rows with weights.
enum class WeightedPercentile : std::uint8_t { lightgbm_4_5, lightgbm_4_7 };

// What the formulas below share. In LightGBM a row of weight 0 counts.
struct PercentileFormula {
  double share;  // of the rows of a leaf, or of their weight, that lies below its value
  WeightedPercentile rule;

  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }
  static bool counts(float) noexcept { return true; }
  static float leaf_weight(float, float weight) noexcept { return weight; }
  double leaf_value(std::span<Residual<double>> residuals, bool is_weighted, double learning_rate) const;
};

// |margin - label|
struct AbsoluteError : PercentileFormula {
  GradientPair operator()(double margin, float label, float weight) const noexcept {
    return {sign(margin - label) * weight, weight};
  }
};

// (1 - α) z where z = margin - label is positive, -α z elsewhere: least where a share α of the labels lies below.
struct Quantile : PercentileFormula {
  GradientPair operator()(double margin, float label, float weight) const noexcept {
    const auto alpha = static_cast<float>(share);  // LightGBM's is float in a leaf too: 0.9 is 0.8999999761581421
    const auto difference = static_cast<float>(margin - label);
    return {(difference >= 0.0f ? 1.0f - alpha : -alpha) * weight, weight};
  }
};

// |margin - label| / max(1, |label|). The divisor is no part of the hessian; in a leaf it is part of the weight.
struct AbsolutePercentageError : PercentileFormula {
  GradientPair operator()(double margin, float label, float weight) const noexcept {
    return {sign(margin - label) * leaf_weight(label, weight), weight};
  }
  static float leaf_weight(float label, float weight) noexcept {
    return 1.0f / std::max(1.0f, std::abs(label)) * weight;
  }
  double leaf_value(std::span<Residual<double>> residuals, bool, double learning_rate) const {
    return PercentileFormula::leaf_value(residuals, true, learning_rate);
  }
};

}  // namespace mtboost::lightgbm
