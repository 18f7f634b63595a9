// SPDX-License-Identifier: Apache-2.0
// Quantiles as XGBoost finds them since 3.4: of the pinball loss of each level α, with its kink smoothed to a width of
// 0.04 S, S the scale of the output's residuals r = margin - label (residual_scale.hpp). With x = r / (0.04 S) the slope is
// S (tanh x + 1 - 2 α) / 2, and the curvature tanh(x) / x / 0.08, that of the parabola that touches the smoothed loss and
// lies above it elsewhere; at least 3e-4 of its largest. Leaves are Newton steps as of any other loss.
#pragma once

#include <vector>

#include "loss/loss.hpp"

namespace mtboost {

class SmoothQuantileLoss final : public Loss<float> {
 public:
  // levels: from 0 to 1, ascending.
  SmoothQuantileLoss(std::string name, std::vector<float> levels)
      : Loss(std::move(name), levels.size(), 1), levels_(std::move(levels)) {}

 private:
  std::string label_domain() const override { return "finite labels"; }
  bool accepts(float label) const noexcept override;
  std::vector<float> summarise(const LossRows<float>& rows, ThreadPool& pool) const override;
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> scales, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;

  std::vector<float> levels_;
};

}  // namespace mtboost
