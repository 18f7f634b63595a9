// SPDX-License-Identifier: Apache-2.0
#include "loss/lightgbm_softmax_loss.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mtboost::lightgbm {

std::string SoftmaxLoss::label_domain() const {
  return "labels that are classes, 0 to " + std::to_string(n_outputs() - 1);
}

bool SoftmaxLoss::accepts(float label) const noexcept {
  return label >= 0.0f && label < static_cast<float>(n_outputs()) && std::floor(label) == label;
}

void SoftmaxLoss::gradients_of_block(const LossRows<double>& rows, std::span<const double>, std::size_t first_row,
                                     std::size_t last_row, GradientPair* pairs) const noexcept {
  const std::size_t n_classes = n_outputs();
  const double factor = static_cast<double>(n_classes) / static_cast<double>(n_classes - 1);
  for (std::size_t row = first_row; row < last_row; ++row) {
    const auto margins = rows.margins.subspan(row * n_classes, n_classes);
    GradientPair* const row_pairs = pairs + row * n_classes;
    const float label = rows.labels[row];
    const float weight = rows.weight(row);

    const double largest = *std::max_element(margins.begin(), margins.end());
    double sum = 0.0;
    for (std::size_t k = 0; k < n_classes; ++k) {
      const double exponential = std::exp(margins[k] - largest);
      row_pairs[k] = std::bit_cast<GradientPair>(exponential);  // kept where the pair of the same size will be
      sum += exponential;
    }
    for (std::size_t k = 0; k < n_classes; ++k) {
      const double p = std::bit_cast<double>(row_pairs[k]) / sum;
      const auto is_label = static_cast<double>(label == static_cast<float>(k));
      row_pairs[k] = {static_cast<float>((p - is_label) * weight), static_cast<float>(factor * p * (1.0 - p) * weight)};
    }
  }
}

}  // namespace mtboost::lightgbm
