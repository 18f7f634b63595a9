// SPDX-License-Identifier: Apache-2.0
// LightGBM's losses of a positive mean μ = exp(margin): negative log-likelihoods of Poisson, gamma and Tweedie, up to a
// constant. It takes labels of 0 for gamma too.
#pragma once

#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost::lightgbm {

// μ - y ln μ. The second derivative is μ; LightGBM inflates it by exp(poisson_max_delta_step), which shortens the first
// steps.
struct Poisson {
  double hessian_factor;

  static constexpr const char* kLabelDomain = "labels that are 0 or positive";
  static bool accepts(float label) noexcept { return label >= 0.0f; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    const double mean = std::exp(margin);
    return {static_cast<float>((mean - label) * weight), static_cast<float>(mean * hessian_factor * weight)};
  }
};

// y / μ + ln μ
struct Gamma {
  static constexpr const char* kLabelDomain = "labels that are 0 or positive";
  static bool accepts(float label) noexcept { return label >= 0.0f; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    const double ratio = label * std::exp(-margin);
    return {static_cast<float>((1.0 - ratio) * weight), static_cast<float>(ratio * weight)};
  }
};

// μ^(2-ρ) / (2-ρ) - y μ^(1-ρ) / (1-ρ): compound Poisson-gamma between ρ = 1 (Poisson) and ρ = 2 (gamma).
struct Tweedie {
  double variance_power;  // ρ

  static constexpr const char* kLabelDomain = "labels that are 0 or positive";
  static bool accepts(float label) noexcept { return label >= 0.0f; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    const double a = 1.0 - variance_power;
    const double b = 2.0 - variance_power;
    const double exp_a = std::exp(a * margin);
    const double exp_b = std::exp(b * margin);
    return {static_cast<float>((-label * exp_a + exp_b) * weight),
            static_cast<float>((-label * a * exp_a + b * exp_b) * weight)};
  }
};

}  // namespace mtboost::lightgbm
