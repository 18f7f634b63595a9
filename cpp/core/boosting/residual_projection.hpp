// SPDX-License-Identifier: Apache-2.0
// Projections computed from the residuals of their round, unlike the random ones (projection/projection.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/random.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "projection/projection.hpp"

namespace mtboost {

enum class ResidualProjectionKind : std::uint8_t {
  // Outputs, each drawn with a probability p in proportion to its sum of squared residuals, and again each time; times
  // 1 / √(q p), so that E‖Φr‖² is the sum of all squares.
  variance,
  // The directions in which residuals are largest: singular vectors of their matrix, by a few steps of subspace
  // iteration (Halko, Martinsson and Tropp, SIAM Review 53, 2011) from a random start.
  singular,
};
ResidualProjectionKind residual_projection_named(const std::string& name);

// Residuals times weights, row by row.
struct ResidualRows {
  std::span<const float> values;  // (row, output)
  std::span<const row_t> rows;    // those that count
  std::size_t n_outputs;
  const float* of(row_t row) const noexcept { return values.data() + row * n_outputs; }
};

Projection make_residual_projection(ResidualProjectionKind kind, std::size_t n_components,
                                    const ResidualRows& residuals, RandomStream random, ThreadPool& pool);

}  // namespace mtboost
