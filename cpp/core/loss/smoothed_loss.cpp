// SPDX-License-Identifier: Apache-2.0
#include "loss/smoothed_loss.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {

bool SmoothedLoss::accepts(float label) const noexcept { return std::isfinite(label); }

std::vector<float> SmoothedLoss::summarise(const LossRows<float>& rows, ThreadPool& pool) const {
  // Summed block by block, whatever the number of threads.
  constexpr std::size_t kRowsPerBlock = 4096;
  const std::size_t n_rows = rows.margins.size() / n_outputs();
  const std::size_t n_blocks = (n_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  const std::size_t n_sums = n_outputs() + 1;  // of the roots of each output, and of the weights
  std::vector<double> sums_of_block(n_blocks * n_sums, 0.0);
  pool.parallel_for(n_blocks, [&](std::size_t block) {
    double* sums = &sums_of_block[block * n_sums];
    for (std::size_t row = block * kRowsPerBlock; row < std::min((block + 1) * kRowsPerBlock, n_rows); ++row) {
      const float weight = rows.weight(row);
      for (std::size_t output = 0; output < n_outputs(); ++output) {
        const float label = rows.labels[row * n_labels() + (n_labels() == 1 ? 0 : output)];
        sums[output] += weight * std::sqrt(std::abs(rows.margins[row * n_outputs() + output] - label));
      }
      sums[n_outputs()] += weight;
    }
  });
  std::vector<double> sums(n_sums, 0.0);
  for (std::size_t i = 0; i < sums_of_block.size(); ++i) sums[i % n_sums] += sums_of_block[i];

  std::vector<float> scales(n_outputs(), 0.0f);
  if (sums.back() < least_weight_ || sums.back() == 0.0) return scales;
  for (std::size_t output = 0; output < n_outputs(); ++output) {
    const double mean = sums[output] / sums.back();
    scales[output] = static_cast<float>(mean * mean);
  }
  return scales;
}

}  // namespace mtboost
