// SPDX-License-Identifier: Apache-2.0
#include "loss/softmax_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtboost {

std::string SoftmaxLoss::label_domain() const {
  return "labels that are classes, 0 to " + std::to_string(n_outputs() - 1);
}

bool SoftmaxLoss::accepts(float label) const noexcept {
  return label >= 0.0f && label < static_cast<float>(n_outputs()) && std::floor(label) == label;
}

void SoftmaxLoss::gradients_of_block(const LossRows<float>& rows, std::span<const float>, std::size_t first_row,
                                     std::size_t last_row, GradientPair* pairs) const noexcept {
  constexpr float kMinHessian = 1e-16f;  // after weighting: even a row of weight 0 keeps it
  const std::size_t n_classes = n_outputs();
  for (std::size_t row = first_row; row < last_row; ++row) {
    const auto margins = rows.margins.subspan(row * n_classes, n_classes);
    GradientPair* const row_pairs = pairs + row * n_classes;
    const float label = rows.labels[row];
    const float weight = rows.weight(row);

    // The smallest positive float, not -∞: XGBoost's maximum never falls below 0. If all margins lie under -104 the sum
    // of exponentials is 0, and the pair not finite.
    float largest = std::numeric_limits<float>::min();
    for (const float margin : margins) largest = std::max(largest, margin);
    double sum = 0.0;
    for (std::size_t k = 0; k < n_classes; ++k) {
      row_pairs[k].gradient = std::exp(margins[k] - largest);
      sum += row_pairs[k].gradient;
    }
    for (std::size_t k = 0; k < n_classes; ++k) {
      const float p = row_pairs[k].gradient / static_cast<float>(sum);
      const auto is_label = static_cast<float>(label == static_cast<float>(k));
      row_pairs[k] = {(p - is_label) * weight, std::max(kMinHessian, 2.0f * p * (1.0f - p) * weight)};
    }
  }
}

}  // namespace mtboost
