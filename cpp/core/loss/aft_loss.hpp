// SPDX-License-Identifier: Apache-2.0
// XGBoost's survival:aft (barnwal2022): accelerated failure time. log T = margin + σ Z, where Z is normal, logistic or of
// extreme values, and of the time T of a row an interval is known: two equal bounds are an event, an infinite upper bound
// is right-censored, a lower bound of 0 left-censored. With z = (log bound - margin) / σ the likelihood f of a row is
// the density of Z at z, or the difference of its distribution function at two z.
// Naive twin: tests/oracle/test_survival.py.
#pragma once

#include <string>

#include "loss/loss.hpp"

namespace mtboost {

struct AftParams {
  std::string distribution = "normal";  // or "logistic", "extreme"
  float scale = 1.0f;                   // σ
};

class AftLoss final : public XgboostLoss {
 public:
  AftLoss(std::string name, const AftParams& params);

  void check_labels(std::span<const float> labels) const override;

 private:
  enum class Distribution { normal, logistic, extreme };
  enum class Interval { point, right_open, left_open, bounded };

  // A density of Z at a point, its integral up to it, and its derivatives.
  struct At {
    double pdf, cdf, slope, curvature;
  };

  static Distribution distribution_named(const std::string& name);
  At at(double z) const noexcept;
  GradientPair pair(double lower, double upper, double margin, float weight) const noexcept;
  // Where f is too small for a quotient: its limits for margins far below (is_positive z) or above the interval.
  double gradient_limit(Interval interval, bool is_positive) const noexcept;
  double hessian_limit(Interval interval, bool is_positive) const noexcept;

  std::string label_domain() const override;
  bool accepts(float) const noexcept override { return true; }
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> summary, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;

  Distribution distribution_;
  double sigma_;
};

}  // namespace mtboost
