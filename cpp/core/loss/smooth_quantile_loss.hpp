// SPDX-License-Identifier: Apache-2.0
// Quantiles as XGBoost finds them since 3.4: by the pinball loss of each level α, whose kink is smoothed to a width of
// 0.04 S. S is the scale of the output's residuals r = margin - label (smoothed_loss.hpp). With x = r / (0.04 S) the slope
// is S (tanh x + 1 - 2 α) / 2. The curvature tanh(x) / x / 0.08 is that of a parabola which touches the smoothed loss at r
// and lies above it elsewhere; it is kept above 3e-4 of its value at r = 0. Leaf values are Newton steps.
#pragma once

#include <vector>

#include "loss/smoothed_loss.hpp"

namespace mtboost {

class SmoothQuantileLoss final : public SmoothedLoss {
 public:
  // levels: from 0 to 1, ascending.
  SmoothQuantileLoss(std::string name, std::vector<float> levels)
      : SmoothedLoss(std::move(name), levels.size(), 1, 0.0), levels_(std::move(levels)) {}

 private:
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> scales, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;

  std::vector<float> levels_;
};

}  // namespace mtboost
