// SPDX-License-Identifier: Apache-2.0
#include "histogram/gradient_grid.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 65536;
constexpr int kBits = 15;
constexpr double kMostSteps = 1 << kBits;

std::size_t n_blocks(std::span<const row_t> rows) noexcept { return (rows.size() + kRowsPerBlock - 1) / kRowsPerBlock; }

std::span<const row_t> block_of(std::span<const row_t> rows, std::size_t block) noexcept {
  const auto later = rows.subspan(block * kRowsPerBlock);
  return later.first(std::min(kRowsPerBlock, later.size()));
}

// Smallest power of two of which `largest` has at most kMostSteps; neither it nor its inverse is subnormal.
double step_for(float largest) noexcept {
  constexpr int kSmallest = -126;
  int exponent = 0;
  std::frexp(largest, &exponent);  // largest < 2^exponent
  return std::ldexp(1.0, std::max(exponent - kBits, kSmallest));
}

// ⌊x + u⌋ for a uniform u of 32 random bits. Of a positive number, truncating is ⌊ ⌋ without a call.
double round_at_random(double x, std::uint32_t bits) noexcept {
  const double shifted = x + bits * 0x1.0p-32 + kMostSteps;
  return static_cast<double>(static_cast<std::int32_t>(shifted)) - kMostSteps;
}

}  // namespace

GradientGrid::GradientGrid(std::span<const row_t> rows, std::span<const GradientPair> gradients, ThreadPool& pool) {
  std::vector<GradientPair> largest(n_blocks(rows));
  std::vector<std::uint8_t> is_finite(largest.size(), 1);
  pool.parallel_for(largest.size(), rows.size(), [&](std::size_t block) {
    GradientPair most{0.0f, 0.0f};
    float zero = 0.0f;  // NaN once a number is not finite
    for (const row_t row : block_of(rows, block)) {
      const auto& [gradient, hessian] = gradients[row];
      most = {std::max(most.gradient, std::abs(gradient)), std::max(most.hessian, std::abs(hessian))};
      zero += 0.0f * gradient + 0.0f * hessian;
    }
    largest[block] = most;
    is_finite[block] = zero == 0.0f ? 1 : 0;
  });
  require(std::ranges::find(is_finite, 0) == is_finite.end(), "quantized gradients must be finite");
  GradientPair most{0.0f, 0.0f};
  for (const auto& [gradient, hessian] : largest)
    most = {std::max(most.gradient, gradient), std::max(most.hessian, hessian)};
  gradient_step_ = step_for(most.gradient);
  hessian_step_ = step_for(most.hessian);
  steps_per_gradient_ = static_cast<float>(1.0 / gradient_step_);
  steps_per_hessian_ = static_cast<float>(1.0 / hessian_step_);
}

void GradientGrid::round(std::span<const row_t> rows, const RandomStream& stream, std::span<GradientPair> gradients,
                         ThreadPool& pool) const {
  pool.parallel_for(n_blocks(rows), rows.size(), [&](std::size_t block) {
    for (const row_t row : block_of(rows, block)) {
      const std::uint64_t bits = stream.after(row).next();
      auto& [gradient, hessian] = gradients[row];
      gradient = static_cast<float>(
          round_at_random(double{gradient} * steps_per_gradient_, static_cast<std::uint32_t>(bits >> 32)) *
          gradient_step_);
      hessian = static_cast<float>(
          round_at_random(double{hessian} * steps_per_hessian_, static_cast<std::uint32_t>(bits)) * hessian_step_);
    }
  });
}

}  // namespace mtboost
