// SPDX-License-Identifier: Apache-2.0
// Leaf weight and gain of a node's sums (chen2016, eq. 5 and 6; no ½ and no γ), in the arithmetic of XGBoost's hist
// updater: sums in double, but quotients, products and sums of gains rounded to float where XGBoost rounds them. The
// order of these roundings decides between splits that are equal on paper, so it may not be "simplified".
// XGBoost 3.4 rounds in another order than 3.0 to 3.3, and lets α and hessians of 0 count where they did not.
// Naive twin: tests/oracle/naive.py. LightGBM's: lightgbm_arithmetic.hpp.
#pragma once

#include <algorithm>
#include <limits>
#include <span>

#include "base/grow_params.hpp"
#include "base/types.hpp"
#include "split/free_gain.hpp"
#include "split/node_sums.hpp"

namespace mtboost {

class XgboostArithmetic {
 public:
  explicit XgboostArithmetic(const XgboostParams& params) noexcept
      : free_gain_(params.reg_lambda, params.reg_alpha, params.arithmetic == Arithmetic::xgboost_3_4),
        reg_lambda_(params.reg_lambda),
        max_delta_step_(params.max_delta_step),
        min_child_weight_(params.min_child_weight),
        is_v34_(params.arithmetic == Arithmetic::xgboost_3_4),
        are_weights_free_(params.max_delta_step == 0.0f && params.monotone_constraints.empty()) {}

  // w = -T(G)/(H + λ), T: soft threshold at α; 0 without hessian (before 3.4: below min_child_weight); clipped to
  // max_delta_step.
  float weight(const GradientSums& sums) const noexcept {
    if (sums.hessian <= 0.0 || (!is_v34_ && sums.hessian < min_child_weight_)) return 0.0f;
    double weight = -free_gain_.soft_threshold(sums.gradient) / (sums.hessian + reg_lambda_);
    if (max_delta_step_ != 0.0f)
      weight = std::clamp(weight, -static_cast<double>(max_delta_step_), static_cast<double>(max_delta_step_));
    return static_cast<float>(weight);
  }
  float weight(const GradientSums& sums, const WeightBounds& bounds) const noexcept {
    return static_cast<float>(std::clamp(static_cast<double>(weight(sums)), bounds.lower, bounds.upper));
  }

  // T(G)²/(H + λ), or -(2Gw + (H + λ)w²) where a limit on w may bind. XGBoost 3.0 to 3.3 decide that from the
  // parameters alone, XGBoost 3.4 always goes by w.
  float gain(const GradientSums& sums, const WeightBounds& bounds) const noexcept {
    return are_weights_free_ && !is_v34_ ? free_gain_(sums) : gain_of_weight(sums, weight(sums, bounds));
  }

  // Gain of both sides less the node's own, -infinity where a side is too light or a monotone constraint is violated.
  float split_gain(const GradientSums& left, const GradientSums& right, const NodeSums& node,
                   int monotone_sign) const noexcept {
    if (!are_weights_free_) return limited_gain(left, right, node, monotone_sign);
    return is_v34_ ? free_gain<true>(left, right, node) : free_gain<false>(left, right, node);
  }

  // The same for many splits of a node, by the sums of one of their sides. Where nothing limits weights there are no
  // branches, so that the compiler can use vector instructions.
  void split_gains(std::span<const double> gradients, std::span<const double> hessians, bool are_left,
                   const NodeSums& node, int monotone_sign, std::span<float> gains /* OUT */) const noexcept {
    const auto sums = [&](std::size_t i) { return GradientSums{gradients[i], hessians[i]}; };
    if (are_weights_free_) {
      is_v34_ ? free_gains<true>(gradients, hessians, node, gains)
              : free_gains<false>(gradients, hessians, node, gains);
    } else if (are_left) {
      for (std::size_t i = 0; i < gains.size(); ++i)
        gains[i] = limited_gain(sums(i), node.sums - sums(i), node, monotone_sign);
    } else {
      for (std::size_t i = 0; i < gains.size(); ++i)
        gains[i] = limited_gain(node.sums - sums(i), sums(i), node, monotone_sign);
    }
  }

  // Whether two children of a node with these sums may both have min_child_weight. Written so that a NaN may.
  bool may_have_children(const GradientSums& sums) const noexcept {
    constexpr double kRounding = 1e-6;  // far more than a sum of hessians loses
    return !(sums.hessian < (2.0 - kRounding) * static_cast<double>(min_child_weight_));
  }

  const FreeGain& free_gain() const noexcept { return free_gain_; }

 private:
  static constexpr float kNone = -std::numeric_limits<float>::infinity();

  bool may_split(const GradientSums& left, const GradientSums& right) const noexcept {
    return left.hessian >= min_child_weight_ && right.hessian >= min_child_weight_ &&
           (!is_v34_ || (left.hessian > 0.0 && right.hessian > 0.0));
  }
  // Where nothing limits weights; without branches. A side without hessian has no gain that XGBoost 3.4 would use.
  template <bool is_v34>
  float free_gain(const GradientSums& left, const GradientSums& right, const NodeSums& node) const noexcept {
    const float gain = (free_gain_.of<is_v34>(left) + free_gain_.of<is_v34>(right)) - static_cast<float>(node.gain);
    bool may_split = (left.hessian >= min_child_weight_) & (right.hessian >= min_child_weight_);
    if constexpr (is_v34) may_split = may_split & (left.hessian > 0.0) & (right.hessian > 0.0);
    return may_split ? gain : kNone;
  }
  template <bool is_v34>
  void free_gains(std::span<const double> gradients, std::span<const double> hessians, const NodeSums& node,
                  std::span<float> gains /* OUT */) const noexcept {
    const XgboostArithmetic arithmetic = *this;  // copies, because a store to gains could change members
    const NodeSums whole = node;
    for (std::size_t i = 0; i < gains.size(); ++i) {
      const GradientSums near{gradients[i], hessians[i]};
      gains[i] = arithmetic.free_gain<is_v34>(near, whole.sums - near, whole);
    }
  }
  float limited_gain(const GradientSums& left, const GradientSums& right, const NodeSums& node,
                     int monotone_sign) const noexcept {
    if (!may_split(left, right)) return kNone;
    const float left_weight = weight(left, node.bounds);
    const float right_weight = weight(right, node.bounds);
    if ((monotone_sign > 0 && left_weight > right_weight) || (monotone_sign < 0 && left_weight < right_weight))
      return kNone;
    return (gain_of_weight(left, left_weight) + gain_of_weight(right, right_weight)) - static_cast<float>(node.gain);
  }

  float gain_of_weight(const GradientSums& sums, float weight) const noexcept {
    if (sums.hessian <= 0.0) return 0.0f;
    if (is_v34_) return free_gain_.gain_of_weight(sums.gradient, sums.hessian, weight);
    const auto gradient = static_cast<float>(sums.gradient);
    const auto hessian = static_cast<float>(sums.hessian);
    return -(2.0f * gradient * weight + (hessian + static_cast<float>(reg_lambda_)) * (weight * weight));
  }

  FreeGain free_gain_;
  double reg_lambda_;
  float max_delta_step_;
  float min_child_weight_;
  bool is_v34_;
  bool are_weights_free_;
};

}  // namespace mtboost
