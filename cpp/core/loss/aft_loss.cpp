// SPDX-License-Identifier: Apache-2.0
#include "loss/aft_loss.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/require.hpp"

namespace mtboost {
namespace {

// XGBoost keeps gradients and hessians within these.
constexpr double kMostGradient = 15.0;
constexpr double kLeastHessian = 1e-16;
constexpr double kMostHessian = 15.0;
constexpr double kTinyDenominator = 1e-12;

bool is_usable(float lower, float upper) noexcept {
  return std::isfinite(lower) && lower >= 0.0f && upper >= lower && upper > 0.0f;
}

}  // namespace

AftLoss::AftLoss(std::string name, const AftParams& params)
    : XgboostLoss(std::move(name), 1, 2), distribution_(distribution_named(params.distribution)), sigma_(params.scale) {
  require(std::isfinite(params.scale) && params.scale > 0.0f,
          "aft_loss_distribution_scale must be positive, found " + std::to_string(params.scale));
}

AftLoss::Distribution AftLoss::distribution_named(const std::string& name) {
  if (name == "normal") return Distribution::normal;
  if (name == "logistic") return Distribution::logistic;
  require(name == "extreme", "aft_loss_distribution must be normal, logistic or extreme, found " + name);
  return Distribution::extreme;
}

std::string AftLoss::label_domain() const {
  return "two bounds of the time of each row, 0 <= lower <= upper, the lower one finite and the upper one positive";
}

void AftLoss::check_labels(std::span<const float> labels) const {
  std::size_t n_refused = 0, first = 0;
  for (std::size_t row = 0; row < labels.size() / 2; ++row) {
    if (is_usable(labels[2 * row], labels[2 * row + 1])) continue;
    if (n_refused++ == 0) first = row;
  }
  require(n_refused == 0, name() + " needs " + label_domain() + ", but those of " + std::to_string(n_refused) +
                              (n_refused == 1 ? " row are not: row " : " rows are not, the first one row ") +
                              std::to_string(first) + " (" + std::to_string(labels[2 * first]) + " to " +
                              std::to_string(labels[2 * first + 1]) +
                              "). Equal bounds are an event, an infinite upper bound is right-censored.");
}

AftLoss::At AftLoss::at(double z) const noexcept {
  if (distribution_ == Distribution::normal) {
    const double pdf = std::exp(-z * z / 2.0) / std::sqrt(2.0 * std::numbers::pi);
    return {pdf, 0.5 * (1 + std::erf(z / std::sqrt(2.0))), -z * pdf, (z * z - 1.0) * pdf};
  }
  const double w = std::exp(z);
  const bool is_far = std::isinf(w) || std::isinf(w * w);
  if (distribution_ == Distribution::logistic) {
    const double sum = 1 + w;
    const double pdf = is_far ? 0.0 : w / (sum * sum);
    return {pdf, std::isinf(w) ? 1.0 : w / sum, std::isinf(w) ? 0.0 : pdf * (1 - w) / sum,
            is_far ? 0.0 : pdf * (w * w - 4 * w + 1) / (sum * sum)};
  }
  const double tail = std::exp(-w);
  const double pdf = std::isinf(w) ? 0.0 : w * tail;
  return {pdf, 1 - tail, std::isinf(w) ? 0.0 : (1 - w) * pdf, is_far ? 0.0 : (w * w - 3 * w + 1) * pdf};
}

double AftLoss::gradient_limit(Interval interval, bool is_positive) const noexcept {
  if (interval == (is_positive ? Interval::left_open : Interval::right_open)) return 0.0;
  if (distribution_ == Distribution::logistic) return (is_positive ? -1.0 : 1.0) / sigma_;
  if (is_positive) return -kMostGradient;
  return distribution_ == Distribution::normal ? kMostGradient : 1.0 / sigma_;
}

double AftLoss::hessian_limit(Interval interval, bool is_positive) const noexcept {
  if (distribution_ == Distribution::logistic) return kLeastHessian;
  if (interval == (is_positive ? Interval::left_open : Interval::right_open)) return kLeastHessian;
  if (distribution_ == Distribution::normal) return 1.0 / (sigma_ * sigma_);
  return is_positive ? kMostHessian : kLeastHessian;
}

// The derivatives of -log f in the margin are f' / (σ f) and -(f f'' - f'^2) / (σ f)^2.
GradientPair AftLoss::pair(double lower, double upper, double margin, float weight) const noexcept {
  Interval interval = Interval::point;
  double f, slope, curvature, square;  // square: of the denominator of the gradient
  bool is_positive;
  if (lower == upper) {
    const double z = (std::log(lower) - margin) / sigma_;
    const At event = at(z);
    f = event.pdf, slope = event.slope, curvature = event.curvature;
    square = sigma_ * sigma_ * f * f;
    is_positive = z > 0;
  } else {
    At high{0.0, 1.0, 0.0, 0.0}, low{0.0, 0.0, 0.0, 0.0};
    double z_high = 0.0, z_low = 0.0;
    interval = Interval::bounded;
    if (std::isinf(upper)) {
      interval = Interval::right_open;
    } else {
      high = at(z_high = (std::log(upper) - margin) / sigma_);
    }
    if (lower <= 0.0) {
      interval = Interval::left_open;
    } else {
      low = at(z_low = (std::log(lower) - margin) / sigma_);
    }
    f = high.cdf - low.cdf, slope = high.pdf - low.pdf, curvature = high.slope - low.slope;
    square = (sigma_ * f) * (sigma_ * f);
    is_positive = z_high > 0 || z_low > 0;
  }
  double gradient = slope / (sigma_ * f);
  if (sigma_ * f < kTinyDenominator && !std::isfinite(gradient)) gradient = gradient_limit(interval, is_positive);
  double hessian = -(f * curvature - slope * slope) / square;
  if (square < kTinyDenominator && !std::isfinite(hessian)) hessian = hessian_limit(interval, is_positive);
  return {static_cast<float>(std::clamp(gradient, -kMostGradient, kMostGradient)) * weight,
          static_cast<float>(std::clamp(hessian, kLeastHessian, kMostHessian)) * weight};
}

void AftLoss::gradients_of_block(const LossRows<float>& rows, std::span<const float>, std::size_t first_row,
                                 std::size_t last_row, GradientPair* pairs) const noexcept {
  for (std::size_t row = first_row; row < last_row; ++row)
    pairs[row] = pair(rows.labels[2 * row], rows.labels[2 * row + 1], rows.margins[row], rows.weight(row));
}

}  // namespace mtboost
