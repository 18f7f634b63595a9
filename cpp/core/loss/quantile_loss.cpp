// SPDX-License-Identifier: Apache-2.0
#include "loss/quantile_loss.hpp"

#include <cmath>

namespace mtboost {

QuantileLoss::QuantileLoss(std::string name, const std::vector<float>& levels)
    : Loss(std::move(name), levels.size(), 1) {
  levels_.reserve(levels.size());
  for (const float level : levels) levels_.push_back({{}, level});
}

bool QuantileLoss::accepts(float label) const noexcept { return std::isfinite(label); }

void QuantileLoss::gradients_of_block(const LossRows<float>& rows, std::span<const float>, std::size_t first_row,
                                      std::size_t last_row, GradientPair* pairs) const noexcept {
  std::size_t index = first_row * n_outputs();
  for (std::size_t row = first_row; row < last_row; ++row) {
    const float weight = rows.weight(row);
    for (const QuantileLevel& level : levels_) {
      pairs[index] = level(rows.margins[index], rows.labels[row], weight);
      ++index;
    }
  }
}

void QuantileLoss::refit(std::span<const node_t> leaves, const LossRows<float>& rows, std::size_t output,
                         float learning_rate, ThreadPool& pool, std::span<float> values) const {
  refit_percentiles(levels_[output], leaves, rows, n_outputs(), output, learning_rate, kStart, pool, values);
}

}  // namespace mtboost
