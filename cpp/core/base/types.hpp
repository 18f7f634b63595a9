// SPDX-License-Identifier: Apache-2.0
// The numbers the algorithms speak in, and why each has its width.
#pragma once

#include <cstdint>

namespace mtboost {

using row_t = std::uint32_t;      // 4e9 rows; half of size_t, and row lists are read once per level
using feature_t = std::uint32_t;  // XGBoost's width
using bin_t = std::uint32_t;      // bin of one feature as the algorithms see it; stored in 1 or 2 bytes
using slot_t = std::uint32_t;     // bin of any feature: position in a node's histogram
using task_t = std::uint32_t;     // index into the sorted task names
using node_t = std::int32_t;      // XGBoost's width; -1 is "none"

// First and second derivative of the loss of one row in its margin. float, as XGBoost keeps them: half the memory
// traffic of the histogram loop, and the trees must equal XGBoost's.
struct GradientPair {
  float gradient;
  float hessian;
};

// Sums of gradient pairs. double: a node minus its small child would lose the large sibling's low bits otherwise.
struct GradientSums {
  double gradient = 0.0;
  double hessian = 0.0;

  GradientSums& operator+=(const GradientSums& other) noexcept {
    gradient += other.gradient;
    hessian += other.hessian;
    return *this;
  }
  GradientSums& operator-=(const GradientSums& other) noexcept {
    gradient -= other.gradient;
    hessian -= other.hessian;
    return *this;
  }
  friend GradientSums operator+(GradientSums a, const GradientSums& b) noexcept { return a += b; }
  friend GradientSums operator-(GradientSums a, const GradientSums& b) noexcept { return a -= b; }
  friend bool operator==(const GradientSums&, const GradientSums&) noexcept = default;
};

}  // namespace mtboost
