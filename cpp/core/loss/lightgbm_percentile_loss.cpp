// SPDX-License-Identifier: Apache-2.0
#include "loss/lightgbm_percentile_loss.hpp"

#include <vector>

namespace mtboost::lightgbm {
namespace {

constexpr auto kIsSmaller = Residual<double>::is_smaller;

// Interpolated between two rows, counted from the largest.
double unweighted(std::span<Residual<double>> residuals, double share) noexcept {
  const double position = static_cast<double>(residuals.size() - 1) * (1.0 - share);
  const auto whole = static_cast<std::ptrdiff_t>(position);
  const auto upper = residuals.begin() + whole;
  const auto is_larger = [](const auto& a, const auto& b) { return kIsSmaller(b, a); };
  std::nth_element(residuals.begin(), upper, residuals.end(), is_larger);
  if (upper + 1 == residuals.end()) return upper->value;
  const double lower = std::max_element(upper + 1, residuals.end(), kIsSmaller)->value;
  return upper->value - (upper->value - lower) * (position - static_cast<double>(whole));
}

// The first residual below or at which more than a share of the weight lies, and the one before it, interpolated where
// the weight between them is at least 1. Until LightGBM 4.6 the weight was that of the row after them.
double weighted(std::span<Residual<double>> residuals, double share, WeightedPercentile rule) {
  std::stable_sort(residuals.begin(), residuals.end(), kIsSmaller);
  std::vector<double> sums;
  sums.reserve(residuals.size());
  for (const Residual<double>& residual : residuals)
    sums.push_back(sums.empty() ? residual.weight : sums.back() + residual.weight);
  const double threshold = sums.back() * share;
  const std::size_t last = sums.size() - 1;
  const auto found = std::upper_bound(sums.begin(), sums.end(), threshold) - sums.begin();
  const std::size_t position = std::min(static_cast<std::size_t>(found), last);
  if (position == 0 || position == last) return residuals[position].value;

  const double below = residuals[position - 1].value;
  const double above = residuals[position].value;
  const bool is_mended = rule == WeightedPercentile::lightgbm_4_7;
  const std::size_t start = is_mended ? position - 1 : position;
  const double weight = sums[start + 1] - sums[start];
  if (weight >= 1.0) return (threshold - sums[start]) / weight * (above - below) + below;
  return is_mended ? below : above;
}

// As every value in a tree of LightGBM.
double zero_if_tiny(double value) noexcept { return std::abs(value) <= 1e-35f ? 0.0 : value; }

}  // namespace

double PercentileFormula::leaf_value(std::span<Residual<double>> residuals, bool is_weighted,
                                     double learning_rate) const {
  const double value = is_weighted ? weighted(residuals, share, rule) : unweighted(residuals, share);
  return zero_if_tiny(zero_if_tiny(value) * learning_rate);
}

}  // namespace mtboost::lightgbm
