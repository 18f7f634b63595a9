// SPDX-License-Identifier: Apache-2.0
#include "loss/absolute_error_loss.hpp"

#include <algorithm>

namespace mtboost {
namespace {

constexpr auto kIsSmaller = Residual<float>::is_smaller;

// The median as XGBoost rounds it: the upper half's step is added in double.
float median(std::span<Residual<float>> residuals) noexcept {
  const auto lower = residuals.begin() + (std::ssize(residuals) - 1) / 2;
  std::nth_element(residuals.begin(), lower, residuals.end(), kIsSmaller);
  if (residuals.size() % 2 == 1) return lower->value;
  const float step = std::min_element(lower + 1, residuals.end(), kIsSmaller)->value - lower->value;
  return static_cast<float>(lower->value + 0.5 * step);
}

// Weights are added in float, in ascending order of the residuals and, among equals, of the rows.
float weighted_median(std::span<Residual<float>> residuals) {
  std::stable_sort(residuals.begin(), residuals.end(), kIsSmaller);
  float sum_weight = 0.0f;
  for (Residual<float>& residual : residuals) residual.weight = sum_weight += residual.weight;
  const auto half = std::find_if(residuals.begin(), residuals.end(),
                                 [&](const Residual<float>& residual) { return residual.weight >= 0.5f * sum_weight; });
  return half->value;
}

}  // namespace

float AbsoluteError::leaf_value(std::span<Residual<float>> residuals, bool is_weighted, float learning_rate) {
  return (is_weighted ? weighted_median(residuals) : median(residuals)) * learning_rate;
}

}  // namespace mtboost
