// SPDX-License-Identifier: Apache-2.0
#include "loss/xgboost_percentile.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace mtboost {
namespace {

constexpr auto kIsSmaller = Residual<float>::is_smaller;

// The place, and the step to the next residual, are doubles as in XGBoost.
float unweighted(std::span<Residual<float>> residuals, double level) noexcept {
  const auto n_rows = static_cast<double>(residuals.size());
  const double place = std::clamp(level * (n_rows + 1.0), 1.0, n_rows);
  const double whole = std::floor(place);
  const auto lower = residuals.begin() + static_cast<std::ptrdiff_t>(whole) - 1;
  std::nth_element(residuals.begin(), lower, residuals.end(), kIsSmaller);
  if (place == whole) return lower->value;
  const float step = std::min_element(lower + 1, residuals.end(), kIsSmaller)->value - lower->value;
  return static_cast<float>(lower->value + (place - whole) * step);
}

// Weights are added in float, in ascending order of the residuals and, among equals, of the rows.
float weighted(std::span<Residual<float>> residuals, double level) {
  std::stable_sort(residuals.begin(), residuals.end(), kIsSmaller);
  float sum_weight = 0.0f;
  for (Residual<float>& residual : residuals) residual.weight = sum_weight += residual.weight;
  const auto threshold = static_cast<float>(sum_weight * level);
  const auto found = std::find_if(residuals.begin(), residuals.end() - 1,
                                  [&](const Residual<float>& residual) { return residual.weight >= threshold; });
  return found->value;
}

}  // namespace

float xgboost_percentile(std::span<Residual<float>> residuals, float level, bool is_weighted) {
  return is_weighted ? weighted(residuals, level) : unweighted(residuals, level);
}

}  // namespace mtboost
