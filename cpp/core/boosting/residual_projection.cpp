// SPDX-License-Identifier: Apache-2.0
#include "boosting/residual_projection.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr int kSteps = 3;
constexpr std::size_t kMostBlocks = 64;

using Doubles = std::vector<double>;

// Sum over rows of what add(row, sums) adds, block by block, so that it does not depend on the threads.
template <typename Add>
Doubles sum_over_rows(const ResidualRows& residuals, std::size_t size, ThreadPool& pool, const Add& add) {
  const std::size_t n_rows = residuals.rows.size();
  const std::size_t per_block = std::max<std::size_t>(1024, (n_rows + kMostBlocks - 1) / kMostBlocks);
  std::vector<Doubles> blocks((n_rows + per_block - 1) / per_block);
  pool.parallel_for(blocks.size(), [&](std::size_t block) {
    Doubles sums(size, 0.0);
    for (std::size_t i = block * per_block; i < std::min((block + 1) * per_block, n_rows); ++i)
      add(residuals.rows[i], sums.data());
    blocks[block] = std::move(sums);
  });
  Doubles all(size, 0.0);
  for (const Doubles& sums : blocks)
    for (std::size_t i = 0; i < size; ++i) all[i] += sums[i];
  return all;
}

Projection draw_outputs(std::size_t q, const ResidualRows& residuals, RandomStream random, ThreadPool& pool) {
  const std::size_t d = residuals.n_outputs;
  Doubles ends = sum_over_rows(residuals, d, pool, [&](row_t row, double* sums) {
    const float* const own = residuals.of(row);
    for (std::size_t j = 0; j < d; ++j) sums[j] += double{own[j]} * own[j];
  });
  const Doubles squares = ends;
  for (std::size_t j = 1; j < d; ++j) ends[j] += ends[j - 1];
  std::vector<float> matrix(q * d, 0.0f);
  for (std::size_t k = 0; k < q && ends.back() > 0.0; ++k) {
    const auto found = std::ranges::upper_bound(ends, random.uniform() * ends.back());
    const auto output = std::min(static_cast<std::size_t>(found - ends.begin()), d - 1);
    matrix[k * d + output] = static_cast<float>(std::sqrt(ends.back() / (static_cast<double>(q) * squares[output])));
  }
  return {matrix, q};
}

// Gram and Schmidt, twice: a column that the others make up becomes 0. columns: (output, component)
void orthonormalise(Doubles& columns, std::size_t q) {
  const std::size_t d = columns.size() / q;
  const auto dot = [&](std::size_t a, std::size_t b) {
    double sum = 0.0;
    for (std::size_t j = 0; j < d; ++j) sum += columns[j * q + a] * columns[j * q + b];
    return sum;
  };
  for (std::size_t k = 0; k < q; ++k) {
    const double before = std::sqrt(dot(k, k));
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t other = 0; other < k; ++other) {
        const double share = dot(k, other);
        for (std::size_t j = 0; j < d; ++j) columns[j * q + k] -= share * columns[j * q + other];
      }
    const double size = std::sqrt(dot(k, k));
    const double scale = size > 1e-10 * before ? 1.0 / size : 0.0;
    for (std::size_t j = 0; j < d; ++j) columns[j * q + k] *= scale;
  }
}

Projection singular_directions(std::size_t q, const ResidualRows& residuals, RandomStream random, ThreadPool& pool) {
  const std::size_t d = residuals.n_outputs;
  Doubles directions(d * q);
  for (double& value : directions) value = random.uniform() - 0.5;
  for (int step = 0; step < kSteps; ++step) {
    orthonormalise(directions, q);
    directions = sum_over_rows(residuals, d * q, pool, [&](row_t row, double* sums) {
      const float* const own = residuals.of(row);
      Doubles parts(q, 0.0);
      for (std::size_t j = 0; j < d; ++j)
        for (std::size_t k = 0; k < q; ++k) parts[k] += own[j] * directions[j * q + k];
      for (std::size_t j = 0; j < d; ++j)
        for (std::size_t k = 0; k < q; ++k) sums[j * q + k] += own[j] * parts[k];
    });
  }
  orthonormalise(directions, q);
  std::vector<float> matrix(q * d);
  for (std::size_t j = 0; j < d; ++j)
    for (std::size_t k = 0; k < q; ++k) matrix[k * d + j] = static_cast<float>(directions[j * q + k]);
  return {matrix, q};
}

}  // namespace

ResidualProjectionKind residual_projection_named(const std::string& name) {
  if (name == "variance") return ResidualProjectionKind::variance;
  require(name == "singular", "there is no projection of residuals named '" + name + "'");
  return ResidualProjectionKind::singular;
}

Projection make_residual_projection(ResidualProjectionKind kind, std::size_t n_components,
                                    const ResidualRows& residuals, RandomStream random, ThreadPool& pool) {
  return kind == ResidualProjectionKind::variance ? draw_outputs(n_components, residuals, random, pool)
                                                  : singular_directions(n_components, residuals, random, pool);
}

}  // namespace mtboost
