// SPDX-License-Identifier: Apache-2.0
#include "loss/absolute_error_loss.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace mtboost {
namespace {

struct Residual {
  float value;
  float weight;
};

bool is_smaller(const Residual& a, const Residual& b) noexcept { return a.value < b.value; }

// The median as XGBoost rounds it: the upper half's step is added in double.
float median(std::span<Residual> residuals) noexcept {
  const auto lower = residuals.begin() + (std::ssize(residuals) - 1) / 2;
  std::nth_element(residuals.begin(), lower, residuals.end(), is_smaller);
  if (residuals.size() % 2 == 1) return lower->value;
  const float step = std::min_element(lower + 1, residuals.end(), is_smaller)->value - lower->value;
  return static_cast<float>(lower->value + 0.5 * step);
}

// Weights are added in float, in ascending order of the residuals and, among equals, of the rows.
float weighted_median(std::span<Residual> residuals) {
  std::stable_sort(residuals.begin(), residuals.end(), is_smaller);
  float sum_weight = 0.0f;
  for (Residual& residual : residuals) residual.weight = sum_weight += residual.weight;
  const auto half = std::find_if(residuals.begin(), residuals.end(),
                                 [&](const Residual& residual) { return residual.weight >= 0.5f * sum_weight; });
  return half->value;
}

}  // namespace

void AbsoluteErrorLoss::refit(std::span<const node_t> leaves, const LossRows& rows, std::size_t output,
                              float learning_rate, ThreadPool& pool, std::span<float> values) const {
  // Residuals of each node as a slice of one array (counting sort). A slice starts at starts[node] once it is filled.
  const auto takes_part = [&](std::size_t row) { return leaves[row] >= 0 && rows.weight(row) > 0.0f; };
  std::vector<std::size_t> starts(values.size() + 1, 0);
  for (std::size_t row = 0; row < leaves.size(); ++row)
    if (takes_part(row)) ++starts[static_cast<std::size_t>(leaves[row])];
  std::inclusive_scan(starts.begin(), starts.end(), starts.begin());
  std::vector<Residual> residuals(starts.back());
  for (std::size_t row = leaves.size(); row-- > 0;) {  // backwards, so that each slice is in ascending order of rows
    if (!takes_part(row)) continue;
    const std::size_t index = row * n_outputs() + output;
    const float residual = rows.labels[index] - rows.margins[index];
    if (!std::isfinite(residual))
      throw std::runtime_error("the residual of row " + std::to_string(row) + " is not finite: check base_margin");
    residuals[--starts[static_cast<std::size_t>(leaves[row])]] = {residual, rows.weight(row)};
  }

  pool.parallel_for(values.size(), [&](std::size_t node) {
    const auto slice = std::span(residuals).subspan(starts[node], starts[node + 1] - starts[node]);
    if (slice.empty()) return;
    values[node] = (rows.weights.empty() ? median(slice) : weighted_median(slice)) * learning_rate;
  });
}

}  // namespace mtboost
