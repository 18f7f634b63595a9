// SPDX-License-Identifier: Apache-2.0
#include "boosting/components.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "base/vector_clones.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 4096;
constexpr int kBits = 24;  // of a float

std::size_t padded(std::size_t n) noexcept { return n <= 2 ? 2 : n <= 4 ? 4 : (n + 7) / 8 * 8; }

template <std::size_t Width, std::size_t Rows>
void project_dense(const float* const* residuals, std::size_t n_outputs, const float* matrix, std::size_t n_components,
                   float* const* components) noexcept {
  float sums[Rows][Width] = {};
  for (std::size_t output = 0; output < n_outputs; ++output, matrix += Width)
    for (std::size_t row = 0; row < Rows; ++row) {
      const float residual = residuals[row][output];
#pragma omp simd
      for (std::size_t k = 0; k < Width; ++k) sums[row][k] += residual * matrix[k];
    }
  for (std::size_t row = 0; row < Rows; ++row) std::copy_n(sums[row], n_components, components[row]);
}

}  // namespace

Directions::Directions(const Projection& projection)
    : n_components_(projection.n_components()), n_outputs_(projection.n_outputs()) {
  const std::size_t q = n_components_;
  std::vector<float> column(q);
  for (std::size_t output = 0; output < n_outputs_; ++output) {
    std::ranges::fill(column, 0.0f);
    projection.add(output, 1.0f, column.data());
    for (std::size_t k = 0; k < q; ++k)
      if (column[k] != 0.0f)
        entries_.push_back({static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(output), column[k]});
  }
  constexpr std::size_t kWidest = 16;  // further components would not stay in registers
  if (q > kWidest || 4 * entries_.size() < q * n_outputs_) return;
  width_ = q <= 1 ? 1 : q <= 4 ? 4 : q <= 8 ? 8 : 16;
  matrix_.assign(n_outputs_ * width_, 0.0f);
  for (const Entry& entry : entries_) matrix_[entry.output * width_ + entry.component] = entry.value;
  entries_.clear();
}

Directions Directions::of_outputs(std::size_t n_outputs) {
  Directions directions(n_outputs);
  directions.is_identity_ = true;
  return directions;
}

MTBOOST_VECTOR_CLONES
void Directions::project(std::span<const float* const> residuals, std::span<float* const> components) const noexcept {
  const auto project_dense_rows = [&]<std::size_t Width>(std::integral_constant<std::size_t, Width>) {
    if (residuals.size() == kRows)
      return project_dense<Width, kRows>(residuals.data(), n_outputs_, matrix_.data(), n_components_,
                                         components.data());
    for (std::size_t row = 0; row < residuals.size(); ++row)
      project_dense<Width, 1>(&residuals[row], n_outputs_, matrix_.data(), n_components_, &components[row]);
  };
  switch (width_) {
    case 1: return project_dense_rows(std::integral_constant<std::size_t, 1>{});
    case 4: return project_dense_rows(std::integral_constant<std::size_t, 4>{});
    case 8: return project_dense_rows(std::integral_constant<std::size_t, 8>{});
    case 16: return project_dense_rows(std::integral_constant<std::size_t, 16>{});
    default: break;
  }
  for (std::size_t row = 0; row < residuals.size(); ++row) {
    if (is_identity_) {
      std::copy_n(residuals[row], n_outputs_, components[row]);
      continue;
    }
    std::fill_n(components[row], n_components_, 0.0f);
    for (const Entry& entry : entries_) components[row][entry.component] += residuals[row][entry.output] * entry.value;
  }
}

Components::Components(std::size_t n_components, row_t n_rows, bool has_weights)
    : n_components_(n_components),
      width_(padded(n_components + (has_weights ? 2 : 1))),
      has_weights_(has_weights),
      values_(n_rows * width_, 0.0f) {}

void Components::round(std::span<const row_t> rows, ThreadPool& pool) {
  const std::size_t n_blocks = (rows.size() + kRowsPerBlock - 1) / kRowsPerBlock, n = count_at();
  const auto rows_of = [&](std::size_t block) {
    return rows.subspan(block * kRowsPerBlock, std::min(kRowsPerBlock, rows.size() - block * kRowsPerBlock));
  };
  std::vector<std::vector<float>> most_of_block(n_blocks);
  pool.parallel_for(n_blocks, [&](std::size_t block) {
    std::vector<float> most(n, 0.0f);
    for (const row_t at : rows_of(block))
      // Not std::max: NaN must be seen.
      for (std::size_t k = 0; k < n; ++k) most[k] = std::abs(row(at)[k]) <= most[k] ? most[k] : std::abs(row(at)[k]);
    most_of_block[block] = std::move(most);
  });
  // Adding and taking away 1.5 · 2^52 units rounds a double to a multiple of the unit.
  std::vector<double> shifts(n, 0.0);
  sum_of_squared_units_ = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    float most = 0.0f;
    for (const auto& of_block : most_of_block) most = of_block[k] <= most ? most : of_block[k];
    if (!std::isfinite(most))
      throw std::runtime_error("a residual is not finite: lower the learning rate, or rescale labels or weights");
    if (most == 0.0f) continue;
    const double unit = std::ldexp(1.0, std::ilogb(most) + 1 - kBits);
    shifts[k] = 1.5 * 0x1.0p52 * unit;
    if (k < n_components_) sum_of_squared_units_ += unit * unit;
  }
  pool.parallel_for(n_blocks, [&](std::size_t block) {
    for (const row_t at : rows_of(block)) {
      float* const own = row(at);
      for (std::size_t k = 0; k < n; ++k) own[k] = static_cast<float>((own[k] + shifts[k]) - shifts[k]);
      if (has_weights_ && own[weight_at()] == 0.0f)  // a weight far below the largest still counts
        own[weight_at()] = static_cast<float>(shifts[weight_at()] / (1.5 * 0x1.0p52));
      own[count_at()] = 1.0f;
    }
  });
}

}  // namespace mtboost
