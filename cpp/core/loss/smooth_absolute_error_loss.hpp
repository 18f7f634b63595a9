// SPDX-License-Identifier: Apache-2.0
// Absolute error as XGBoost minimises it since 3.4: by parabolas that touch a smoothed loss sqrt(scale² + r²), r = margin
// - label, and lie above it elsewhere. Their curvature is c = scale / sqrt(scale² + r²), their slope c r; far away the
// slope is that of the absolute error but for the factor scale. Leaves are Newton steps as of any other loss.
#pragma once

#include "loss/smoothed_loss.hpp"

namespace mtboost {

class SmoothAbsoluteErrorLoss final : public SmoothedLoss {
 public:
  SmoothAbsoluteErrorLoss(std::string name, std::size_t n_outputs)
      : SmoothedLoss(std::move(name), n_outputs, n_outputs, 1e-6) {}  // the least weight is XGBoost's, too

 private:
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> scales, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;
};

}  // namespace mtboost
