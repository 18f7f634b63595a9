// SPDX-License-Identifier: Apache-2.0
#include "boosting/line_search.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace mtboost {
namespace {

constexpr int kMostSteps = 100;  // bisection alone ends before

// u / g, weighted by w |g|: where each point's derivative changes sign.
std::vector<WeightedValue> ratios(std::span<const LinePoint> points) {
  std::vector<WeightedValue> values;
  values.reserve(points.size());
  for (const LinePoint& point : points) {
    if (point.direction == 0.0f) continue;
    const double direction = point.direction;
    values.push_back({point.offset / direction, point.weight * std::abs(direction)});
  }
  return values;
}

}  // namespace

double weighted_median(std::span<WeightedValue> values) {
  std::ranges::sort(values, {}, &WeightedValue::value);
  double total = 0.0;
  for (const WeightedValue& each : values) total += each.weight;
  double sum = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += values[i].weight;
    if (2.0 * sum > total || i + 1 == values.size()) return values[i].value;
    if (2.0 * sum == total) return 0.5 * (values[i].value + values[i + 1].value);
  }
  return 0.0;
}

double absolute_step(std::span<const LinePoint> points) {
  auto values = ratios(points);
  return weighted_median(values);
}

double huber_step(std::span<const LinePoint> points, double delta) {
  auto values = ratios(points);
  if (values.empty()) return 0.0;
  double t = weighted_median(values);  // sorts
  double low = values.front().value, high = values.back().value;
  for (int step = 0; step < kMostSteps && low < high; ++step) {
    double slope = 0.0, curvature = 0.0, size = 0.0;  // of the loss along the line, both with opposite sign
    for (const LinePoint& point : points) {
      const double direction = point.direction, weighted = point.weight * direction;
      const double u = point.offset - t * direction;
      slope += weighted * std::clamp(u, -delta, delta);
      size += std::abs(weighted);
      if (std::abs(u) < delta) curvature += weighted * direction;
    }
    if (std::abs(slope) <= 1e-13 * delta * size) break;
    (slope > 0.0 ? low : high) = t;
    const double next = t + slope / curvature;
    const double last = std::exchange(t, next > low && next < high ? next : 0.5 * (low + high));
    if (std::abs(t - last) <= 1e-13 * std::abs(t)) break;
  }
  return t;
}

}  // namespace mtboost
