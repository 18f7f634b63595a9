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
        most_weight_(params.max_delta_step == 0.0f ? std::numeric_limits<float>::infinity() : params.max_delta_step),
        min_child_weight_(params.min_child_weight),
        is_v34_(params.arithmetic == Arithmetic::xgboost_3_4),
        is_closed_form_(!is_v34_ && params.max_delta_step == 0.0f && params.monotone_constraints.empty()) {}

  // w = -T(G)/(H + λ), T: soft threshold at α; 0 without hessian (before 3.4: below min_child_weight); clipped to
  // max_delta_step.
  float weight(const GradientSums& sums) const noexcept {
    const bool counts = (sums.hessian > 0.0) & (is_v34_ | (sums.hessian >= min_child_weight_));
    const double weight =
        (counts ? -free_gain_.soft_threshold(sums.gradient) : 0.0) / (counts ? sums.hessian + reg_lambda_ : 1.0);
    return static_cast<float>(std::clamp(weight, -most_weight_, most_weight_));
  }
  float weight(const GradientSums& sums, const WeightBounds& bounds) const noexcept {
    return static_cast<float>(std::clamp(static_cast<double>(weight(sums)), bounds.lower, bounds.upper));
  }

  // T(G)²/(H + λ), or -(2Gw + (H + λ)w²) where a limit on w may bind. XGBoost 3.0 to 3.3 decide that from the
  // parameters alone, XGBoost 3.4 always goes by w.
  float gain(const GradientSums& sums, const WeightBounds& bounds) const noexcept {
    if (is_closed_form_) return free_gain_.closed_form(sums);
    const float own = weight(sums, bounds);
    return is_v34_ ? gain_of_weight<true>(sums, own) : gain_of_weight<false>(sums, own);
  }

  // Gain of both sides less the node's own, -infinity where a side is too light or a monotone constraint is violated.
  float split_gain(const GradientSums& left, const GradientSums& right, const NodeSums& node,
                   int monotone_sign) const noexcept {
    if (is_closed_form_) return closed_form_gain(left, right, node);
    return is_v34_ ? limited_gain<true>(left, right, node, monotone_sign)
                   : limited_gain<false>(left, right, node, monotone_sign);
  }

  // The same for many splits of a node, by the sums of one of their sides. There are no branches, so that the compiler
  // can use vector instructions.
  void split_gains(std::span<const double> gradients, std::span<const double> hessians, bool are_left,
                   const NodeSums& node, int monotone_sign, std::span<float> gains /* OUT */) const noexcept {
    const XgboostArithmetic arithmetic = *this;  // copies, because a store to gains could change members
    const NodeSums whole = node;
    const auto sums = [&](std::size_t i) { return GradientSums{gradients[i], hessians[i]}; };
    const auto find_all = [&](auto&& gain_of) {
      for (std::size_t i = 0; i < gains.size(); ++i) gains[i] = gain_of(sums(i), whole.sums - sums(i));
    };
    // Where a side lies matters to monotone constraints only.
    const int sign = are_left ? monotone_sign : -monotone_sign;
    if (is_closed_form_)
      find_all([&](const auto& near, const auto& far) { return arithmetic.closed_form_gain(near, far, whole); });
    else if (is_v34_)
      find_all(
          [&](const auto& near, const auto& far) { return arithmetic.limited_gain<true>(near, far, whole, sign); });
    else
      find_all(
          [&](const auto& near, const auto& far) { return arithmetic.limited_gain<false>(near, far, whole, sign); });
  }

  // Whether two children of a node with these sums may both have min_child_weight. Written so that a NaN may.
  bool may_have_children(const GradientSums& sums) const noexcept {
    constexpr double kRounding = 1e-6;  // far more than a sum of hessians loses
    return !(sums.hessian < (2.0 - kRounding) * static_cast<double>(min_child_weight_));
  }

  const FreeGain& free_gain() const noexcept { return free_gain_; }

 private:
  static constexpr float kNone = -std::numeric_limits<float>::infinity();

  float closed_form_gain(const GradientSums& left, const GradientSums& right, const NodeSums& node) const noexcept {
    const float gain = (free_gain_.closed_form(left) + free_gain_.closed_form(right)) - static_cast<float>(node.gain);
    const bool may_split = (left.hessian >= min_child_weight_) & (right.hessian >= min_child_weight_);
    return may_split ? gain : kNone;
  }
  template <bool is_v34>
  float limited_gain(const GradientSums& left, const GradientSums& right, const NodeSums& node,
                     int monotone_sign) const noexcept {
    const float left_weight = weight(left, node.bounds), right_weight = weight(right, node.bounds);
    const float gain = (gain_of_weight<is_v34>(left, left_weight) + gain_of_weight<is_v34>(right, right_weight)) -
                       static_cast<float>(node.gain);
    bool may_split = (left.hessian >= min_child_weight_) & (right.hessian >= min_child_weight_);
    if constexpr (is_v34) may_split = may_split & (left.hessian > 0.0) & (right.hessian > 0.0);
    const bool is_violated =
        ((monotone_sign > 0) & (left_weight > right_weight)) | ((monotone_sign < 0) & (left_weight < right_weight));
    return may_split & !is_violated ? gain : kNone;
  }

  template <bool is_v34>
  float gain_of_weight(const GradientSums& sums, float weight) const noexcept {
    float gain = 0.0f;
    if constexpr (is_v34) {
      gain = free_gain_.gain_of_weight(sums.gradient, sums.hessian, weight);
    } else {
      const auto gradient = static_cast<float>(sums.gradient);
      const auto hessian = static_cast<float>(sums.hessian);
      gain = -(2.0f * gradient * weight + (hessian + static_cast<float>(reg_lambda_)) * (weight * weight));
    }
    return sums.hessian > 0.0 ? gain : 0.0f;
  }

  FreeGain free_gain_;
  double reg_lambda_;
  double most_weight_;
  float min_child_weight_;
  bool is_v34_;
  bool is_closed_form_;
};

}  // namespace mtboost
