// SPDX-License-Identifier: Apache-2.0
#include "boosting/line_search.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "boosting/logistic.hpp"

namespace mtboost {
namespace {

constexpr int kMostSteps = 100;      // bisection alone ends before
constexpr double kPrecision = 1e-6;  // of a step whose margins are floats

// u / g, weighted by w |g|: where each point's derivative changes sign.
std::vector<WeightedValue> ratios(std::span<const LinePoint> points) {
  std::vector<WeightedValue> values;
  values.reserve(points.size());
  for (const LinePoint& point : points) {
    if (point.direction == 0.0f) continue;
    const double direction = point.direction, value = point.offset / direction;
    if (std::isnan(value))  // NaN cannot be ordered
      throw std::runtime_error("a residual is not finite: lower the learning rate, or rescale labels or weights");
    values.push_back({value, point.weight * std::abs(direction)});
  }
  return values;
}

struct Slope {
  double slope = 0.0;  // of the loss along the line, with opposite sign
  double curvature = 0.0;
};

// Term by term first, some hundred points at a time: that loop becomes vector instructions, sums in double do not.
Slope logistic_slope(std::span<const LinePoint> points, float t) {
  constexpr std::size_t kPoints = 256;
  float slopes[kPoints], curvatures[kPoints];
  Slope sums;
  for (; !points.empty(); points = points.subspan(std::min(kPoints, points.size()))) {
    const std::size_t n = std::min(kPoints, points.size());
    for (std::size_t i = 0; i < n; ++i) {
      const LinePoint& point = points[i];
      const float margin = point.offset + t * point.direction, tail = smaller_probability(margin);
      const float weighted = point.weight * point.direction;
      slopes[i] = weighted * (margin > 0.0f ? (point.label - 1.0f) + tail : point.label - tail);
      curvatures[i] = weighted * point.direction * (tail * (1.0f - tail));
    }
    for (std::size_t i = 0; i < n; ++i) {
      sums.slope += double{slopes[i]};
      sums.curvature += double{curvatures[i]};
    }
  }
  return sums;
}

}  // namespace

double weighted_median(std::span<WeightedValue> values) {
  constexpr auto kValue = &WeightedValue::value;
  double total = 0.0, below = 0.0;  // weight of values[0], ..., values[begin - 1]
  for (const WeightedValue& each : values) total += each.weight;
  const auto at = [&](std::size_t i) { return values.begin() + static_cast<std::ptrdiff_t>(i); };
  for (std::size_t begin = 0, end = values.size(); begin < end;) {
    const std::size_t middle = begin + (end - begin) / 2;
    std::ranges::nth_element(at(begin), at(middle), at(end), {}, kValue);
    double sum = below;
    for (std::size_t i = begin; i < middle; ++i) sum += values[i].weight;
    if (2.0 * sum > total) {
      end = middle;
    } else if (2.0 * sum == total && middle > 0) {
      return 0.5 * (std::ranges::max_element(at(0), at(middle), {}, kValue)->value + values[middle].value);
    } else if (below = sum + values[middle].weight; 2.0 * below > total || middle + 1 == values.size()) {
      return values[middle].value;
    } else {
      begin = middle + 1;
      if (begin == end && 2.0 * below == total)
        return 0.5 * (values[middle].value + std::ranges::min_element(at(begin), values.end(), {}, kValue)->value);
    }
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
  double t = weighted_median(values);
  const auto [least, most] = std::ranges::minmax(values, {}, &WeightedValue::value);
  double low = least.value, high = most.value;
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

double logistic_step(std::span<const LinePoint> points, double most) {
  double low = -most, high = most, t = 0.0;
  for (int step = 0; step < kMostSteps; ++step) {
    const auto [slope, curvature] = logistic_slope(points, static_cast<float>(t));
    (slope > 0.0 ? low : high) = t;
    if (slope == 0.0 || low >= high) break;
    double next = t + slope / curvature;
    if (!(next > low && next < high)) {
      // The first steps may want to leave on the side where nothing is known yet: its end is tried before bisection.
      const bool tries_end = (slope > 0.0 ? high == most : low == -most) && std::abs(t) < most;
      next = tries_end ? (slope > 0.0 ? most : -most) : 0.5 * (low + high);
    }
    const double last = std::exchange(t, next);
    if (std::abs(t - last) <= kPrecision * std::abs(t)) break;
  }
  return t;
}

}  // namespace mtboost
