// SPDX-License-Identifier: Apache-2.0
// Absolute error as XGBoost minimises it since 3.4: by parabolas that touch a smoothed loss sqrt(scale² + r²), r = margin
// - label, and lie above it elsewhere. Their curvature is c = scale / sqrt(scale² + r²), their slope c r; far away the
// slope is that of the absolute error but for the factor scale. Leaves are Newton steps as of any other loss.
#pragma once

#include "loss/loss.hpp"

namespace mtboost {

class SmoothAbsoluteErrorLoss final : public Loss<float> {
 public:
  SmoothAbsoluteErrorLoss(std::string name, std::size_t n_outputs) : Loss(std::move(name), n_outputs, n_outputs) {}

 private:
  std::string label_domain() const override { return "finite labels"; }
  bool accepts(float label) const noexcept override;

  // The scale of each output (residual_scale.hpp).
  std::vector<float> summarise(const LossRows<float>& rows, ThreadPool& pool) const override;
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> scales, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;
};

}  // namespace mtboost
