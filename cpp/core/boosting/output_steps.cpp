// SPDX-License-Identifier: Apache-2.0
#include "boosting/output_steps.hpp"

#include <algorithm>
#include <cmath>

#include "base/require.hpp"
#include "boosting/line_search.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kOutputsPerTile = 16;  // neighbours in memory, and little to hold of each
constexpr double kMostLogOdds = 10.0;

double squared_step(std::span<const LinePoint> points) noexcept {
  double along = 0.0, length = 0.0;
  for (const LinePoint& point : points) {
    along += double{point.weight} * point.offset * point.direction;
    length += double{point.weight} * point.direction * point.direction;
  }
  return length > 0.0 ? along / length : 0.0;
}

}  // namespace

std::vector<double> output_steps(const OutputLoss& loss, std::span<const float> margins, const LabelledRows& rows,
                                 std::span<const float> direction, ThreadPool& pool) {
  const OutputLossKind kind = loss.kind();
  const std::size_t d = loss.n_outputs();
  require(kind != OutputLossKind::softmax, "line searches per output are not defined for softmax");
  require(margins.size() == rows.n_rows * d && direction.size() == rows.n_rows,
          "margins and direction must fit the labels");
  double largest = 0.0;
  for (const float g : direction) largest = std::max(largest, std::abs(double{g}));
  std::vector<double> steps(d, 0.0);
  if (largest == 0.0) return steps;

  pool.parallel_for((d + kOutputsPerTile - 1) / kOutputsPerTile, [&](std::size_t tile) {
    const std::size_t begin = tile * kOutputsPerTile, end = std::min(begin + kOutputsPerTile, d);
    std::vector<std::vector<LinePoint>> points(end - begin);
    for (std::size_t row = 0; row < rows.n_rows; ++row)
      for (std::size_t output = begin; output < end; ++output) {
        const float label = rows.labels_of(row)[output], weight = rows.weight(row, output);
        const float margin = margins[row * d + output];
        if (std::isnan(label) || weight == 0.0f) continue;
        const float offset = kind == OutputLossKind::logistic ? margin : label - margin;
        points[output - begin].push_back({offset, direction[row], weight, label});
      }
    for (std::size_t output = begin; output < end; ++output) {
      const std::span<const LinePoint> own = points[output - begin];
      switch (kind) {
        case OutputLossKind::squared: steps[output] = squared_step(own); break;
        case OutputLossKind::absolute: steps[output] = absolute_step(own); break;
        case OutputLossKind::huber: steps[output] = huber_step(own, loss.huber_delta()); break;
        default: steps[output] = logistic_step(own, kMostLogOdds / largest);
      }
    }
  });
  return steps;
}

}  // namespace mtboost
