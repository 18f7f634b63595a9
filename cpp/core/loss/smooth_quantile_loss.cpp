// SPDX-License-Identifier: Apache-2.0
#include "loss/smooth_quantile_loss.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {
namespace {

constexpr float kWidth = 0.04f;           // of the smoothed kink, in units of S
constexpr float kLeastCurvature = 3e-4f;  // in units of the largest

GradientPair pair_of(float residual, float scale, float level, float weight) noexcept {
  if (!(scale > 0.0f) || weight == 0.0f) return {0.0f, 0.0f};
  const float x = residual / (kWidth * scale);
  const float slope = std::tanh(x);
  const float curvature = std::max(x == 0.0f ? 1.0f : slope / x, kLeastCurvature);
  return {weight * (0.5f * scale * (slope + 1.0f - 2.0f * level)), weight * (0.5f / kWidth * curvature)};
}

}  // namespace

void SmoothQuantileLoss::gradients_of_block(const LossRows<float>& rows, std::span<const float> scales,
                                            std::size_t first_row, std::size_t last_row,
                                            GradientPair* pairs) const noexcept {
  std::size_t index = first_row * n_outputs();
  for (std::size_t row = first_row; row < last_row; ++row)
    for (std::size_t output = 0; output < n_outputs(); ++output, ++index)
      pairs[index] = pair_of(rows.margins[index] - rows.labels[row], scales[output], levels_[output], rows.weight(row));
}

}  // namespace mtboost
