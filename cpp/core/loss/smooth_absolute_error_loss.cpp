// SPDX-License-Identifier: Apache-2.0
#include "loss/smooth_absolute_error_loss.hpp"

#include <cmath>

namespace mtboost {

void SmoothAbsoluteErrorLoss::gradients_of_block(const LossRows<float>& rows, std::span<const float> scales,
                                                 std::size_t first_row, std::size_t last_row,
                                                 GradientPair* pairs) const noexcept {
  for (std::size_t row = first_row; row < last_row; ++row) {
    const float weight = rows.weight(row);
    for (std::size_t output = 0; output < n_outputs(); ++output) {
      const std::size_t index = row * n_outputs() + output;
      const float residual = rows.margins[index] - rows.labels[index];
      const float norm = std::hypot(scales[output], residual);
      const float curvature = norm > 0.0f ? scales[output] / norm : 1.0f;
      pairs[index] = {weight * residual * curvature, weight * curvature};
    }
  }
}

}  // namespace mtboost
