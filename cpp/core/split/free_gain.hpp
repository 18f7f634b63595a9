// SPDX-License-Identifier: Apache-2.0
// The gain T(G)²/(H + λ) of a node's sums whose weight nothing limits (chen2016, eq. 6 without ½ and γ; T: soft
// threshold at α): what a task's own sums s^t are made of. In XGBoost's roundings, for LightGBM's trees too: a score
// over tasks is not a number of either library.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "base/types.hpp"

namespace mtboost {

class FreeGain {
 public:
  // is_v34: in the roundings of XGBoost 3.4.
  FreeGain(double reg_lambda, double reg_alpha, bool is_v34) noexcept
      : reg_lambda_(reg_lambda), reg_alpha_(reg_alpha), is_v34_(is_v34) {}

  float operator()(const GradientSums& sums) const noexcept {
    return is_v34_ ? gain_of_weight(sums.gradient, sums.hessian) : closed_form(sums);
  }

  // In the roundings before 3.4.
  float closed_form(const GradientSums& sums) const noexcept {
    const bool is_curved = sums.hessian > 0.0;
    const double pulled = soft_threshold(sums.gradient);
    return static_cast<float>(is_curved ? pulled * pulled : 0.0) /
           static_cast<float>(is_curved ? sums.hessian + reg_lambda_ : 1.0);
  }

  // Of many sums at once: no jumps, so that the compiler takes vector instructions.
  void of_many(std::span<const double> gradients, std::span<const double> hessians,
               std::span<float> gains /* OUT */) const noexcept {
    if (is_v34_)
      for (std::size_t i = 0; i < gains.size(); ++i) gains[i] = gain_of_weight(gradients[i], hessians[i]);
    else
      for (std::size_t i = 0; i < gains.size(); ++i) gains[i] = closed_form({gradients[i], hessians[i]});
  }

  double soft_threshold(double gradient) const noexcept {
    return std::max(gradient - reg_alpha_, 0.0) + std::min(gradient + reg_alpha_, 0.0);
  }

  // -(2Gw + (H + λ)w² + 2α|w|) as XGBoost rounds it since 3.4.
  float gain_of_weight(double gradient, double hessian, float weight) const noexcept {
    const auto square = static_cast<double>(weight * weight);
    return static_cast<float>(
        -(2.0 * gradient * weight + (hessian + reg_lambda_) * square + 2.0 * reg_alpha_ * std::abs(weight)));
  }

 private:
  float gain_of_weight(double gradient, double hessian) const noexcept {
    const double pulled = hessian > 0.0 ? soft_threshold(gradient) : 0.0;
    const double curvature = hessian > 0.0 ? hessian + reg_lambda_ : 1.0;
    return gain_of_weight(gradient, hessian, static_cast<float>(-pulled / curvature));
  }

  double reg_lambda_;
  double reg_alpha_;
  bool is_v34_;
};

}  // namespace mtboost
