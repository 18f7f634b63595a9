// SPDX-License-Identifier: Apache-2.0
// Leaf weight and gain of a side of a split in the arithmetic of LightGBM: double throughout, hessians that carry an ε, and
// rows estimated from hessians. docs/lightgbm_arithmetic.md lists the rules; operations may not change their order.
// Naive twin: tests/oracle/naive_lightgbm.py.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/grow_params.hpp"
#include "base/types.hpp"
#include "split/node_sums.hpp"

namespace mtboost {

// Added to the hessian of each side, so that no division fails; float(1e-15), as LightGBM has it.
inline constexpr double kLightgbmEpsilon = 1e-15f;

class LightgbmArithmetic {
 public:
  explicit LightgbmArithmetic(const LightgbmParams& params) noexcept
      : lambda_l1_(params.lambda_l1),
        max_delta_step_(params.max_delta_step),
        path_smooth_(params.path_smooth),
        has_constraints_(!params.monotone_constraints.empty()) {}

  // One side of a split, its ε included; or the whole node, with the ε of both sides.
  struct Side {
    double gradient = 0.0;
    double hessian = 0.0;
    std::int64_t n_rows = 0;
  };

  bool is_smoothed() const noexcept { return path_smooth_ > kLightgbmEpsilon; }

  // w = -T(G)/(H + λ), clipped to max_delta_step. T: soft threshold at λ₁.
  double clipped_weight(double gradient, double hessian, double l2) const noexcept {
    const double weight = -soft_threshold(gradient) / (hessian + l2);
    return max_delta_step_ > 0.0 && std::abs(weight) > max_delta_step_ ? sign(weight) * max_delta_step_ : weight;
  }

  // Drawn towards the weight of the parent, the more so the fewer rows.
  double weight(const Side& side, double parent_weight, double l2) const noexcept {
    const double own = clipped_weight(side.gradient, side.hessian, l2);
    if (!is_smoothed()) return own;
    const double ratio = static_cast<double>(side.n_rows) / path_smooth_;
    return own * ratio / (ratio + 1) + parent_weight / (ratio + 1);
  }

  double bounded_weight(const Side& side, const NodeSums& parent, double l2) const noexcept {
    const double own = weight(side, parent.weight, l2);
    if (!has_constraints_) return own;
    return own < parent.bounds.lower ? parent.bounds.lower : std::min(own, parent.bounds.upper);
  }

  // -(2Gw + (H + λ)w²)
  double gain_of_weight(const Side& side, double weight, double l2) const noexcept {
    return -(2.0 * soft_threshold(side.gradient) * weight + (side.hessian + l2) * weight * weight);
  }

  // T(G)²/(H + λ), or the gain at a weight that is clipped or smoothed.
  double gain(const Side& side, double parent_weight, double l2) const noexcept {
    if (max_delta_step_ > 0.0 || is_smoothed()) return gain_of_weight(side, weight(side, parent_weight, l2), l2);
    const double pulled = soft_threshold(side.gradient);
    return pulled * pulled / (side.hessian + l2);
  }

  // Of two sides, first plus second; 0 where the weights run against the constraint. Constraints that are all 0 constrain
  // nothing, but change how the gain is computed.
  double gain(const Side& first, const Side& second, const NodeSums& parent, double l2, int direction) const noexcept {
    if (!has_constraints_) return gain(first, parent.weight, l2) + gain(second, parent.weight, l2);
    const double first_weight = bounded_weight(first, parent, l2);
    const double second_weight = bounded_weight(second, parent, l2);
    if ((direction > 0 && first_weight > second_weight) || (direction < 0 && first_weight < second_weight)) return 0.0;
    return gain_of_weight(first, first_weight, l2) + gain_of_weight(second, second_weight, l2);
  }

 private:
  static double sign(double x) noexcept { return static_cast<double>((x > 0.0) - (x < 0.0)); }
  double soft_threshold(double gradient) const noexcept {
    return lambda_l1_ > 0.0 ? sign(gradient) * std::max(0.0, std::abs(gradient) - lambda_l1_) : gradient;
  }

  double lambda_l1_;
  double max_delta_step_;
  double path_smooth_;
  bool has_constraints_;
};

}  // namespace mtboost
