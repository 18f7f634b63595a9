// SPDX-License-Identifier: Apache-2.0
// The percentile of residuals that XGBoost sets as the value of a leaf (adaptive trees). Naive twin: tests/oracle.
#pragma once

#include <span>

#include "loss/percentile_loss.hpp"

namespace mtboost {

// A share `level` of the residuals lies below. Without weights it is interpolated between the residuals next to the place
// level * (n + 1), counted from 1; with weights it is the first residual that reaches the share of the weight. There must
// be a residual; their order changes.
float xgboost_percentile(std::span<Residual<float>> residuals, float level, bool is_weighted);

// What the formulas below XGBoost's losses with such leaves share: a row of weight 0 does not count.
struct XgboostPercentile {
  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }
  static bool counts(float weight) noexcept { return weight > 0.0f; }
  static float leaf_weight(float, float weight) noexcept { return weight; }
};

}  // namespace mtboost
