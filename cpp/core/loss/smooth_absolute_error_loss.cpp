// SPDX-License-Identifier: Apache-2.0
#include "loss/smooth_absolute_error_loss.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {
namespace {

// Summed block by block, whatever the number of threads.
constexpr std::size_t kRowsPerBlock = 4096;
// Of less weight in all than this, rows have no scale.
constexpr double kMinWeight = 1e-6;

}  // namespace

bool SmoothAbsoluteErrorLoss::accepts(float label) const noexcept { return std::isfinite(label); }

std::vector<float> SmoothAbsoluteErrorLoss::summarise(const LossRows<float>& rows, ThreadPool& pool) const {
  const std::size_t n_rows = rows.margins.size() / n_outputs();
  const std::size_t n_blocks = (n_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const std::size_t n_sums = n_outputs() + 1;  // of the roots of each output, and of the weights
  std::vector<double> sums_of_block(n_blocks * n_sums, 0.0);
  pool.parallel_for(n_blocks, [&](std::size_t block) {
    double* sums = &sums_of_block[block * n_sums];
    for (std::size_t row = block * kRowsPerBlock; row < std::min((block + 1) * kRowsPerBlock, n_rows); ++row) {
      const float weight = rows.weight(row);
      for (std::size_t output = 0; output < n_outputs(); ++output) {
        const std::size_t index = row * n_outputs() + output;
        sums[output] += weight * std::sqrt(std::abs(rows.margins[index] - rows.labels[index]));
      }
      sums[n_outputs()] += weight;
    }
  });
  std::vector<double> sums(n_sums, 0.0);
  for (std::size_t i = 0; i < sums_of_block.size(); ++i) sums[i % n_sums] += sums_of_block[i];

  std::vector<float> scales(n_outputs(), 0.0f);
  if (sums.back() < kMinWeight) return scales;
  for (std::size_t output = 0; output < n_outputs(); ++output) {
    const double mean = sums[output] / sums.back();
    scales[output] = static_cast<float>(mean * mean);
  }
  return scales;
}

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
