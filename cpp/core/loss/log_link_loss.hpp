// SPDX-License-Identifier: Apache-2.0
// Losses of a positive mean μ = exp(margin): negative log-likelihoods of Poisson, gamma and Tweedie, up to a constant.
#pragma once

#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost {

// μ - y ln μ. The second derivative is μ; XGBoost inflates it to μ exp(max_delta_step), which shortens the first steps.
struct Poisson {
  float max_delta_step;

  static constexpr const char* kLabelDomain = "labels that are 0 or positive";
  static bool accepts(float label) noexcept { return label >= 0.0f; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    return {(std::exp(margin) - label) * weight, std::exp(margin + max_delta_step) * weight};
  }
};

// y / μ + ln μ
struct Gamma {
  PositiveFactor positive_factor;  // here too, as in XGBoost

  static constexpr const char* kLabelDomain = "positive labels";
  static bool accepts(float label) noexcept { return label > 0.0f; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    weight *= positive_factor(label);
    const float ratio = label / std::exp(margin);
    return {(1.0f - ratio) * weight, ratio * weight};
  }
};

// μ^(2-ρ) / (2-ρ) - y μ^(1-ρ) / (1-ρ): compound Poisson-gamma between ρ = 1 (Poisson) and ρ = 2 (gamma).
struct Tweedie {
  float variance_power;  // ρ

  static constexpr const char* kLabelDomain = "labels that are 0 or positive";
  static bool accepts(float label) noexcept { return label >= 0.0f; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    const float a = 1.0f - variance_power;
    const float b = 2.0f - variance_power;
    const float exp_a = std::exp(a * margin);
    const float exp_b = std::exp(b * margin);
    return {(-label * exp_a + exp_b) * weight, (-label * a * exp_a + b * exp_b) * weight};
  }
};

using PoissonLoss = ElementwiseLoss<float, Poisson>;
using GammaLoss = ElementwiseLoss<float, Gamma>;
using TweedieLoss = ElementwiseLoss<float, Tweedie>;

}  // namespace mtboost
