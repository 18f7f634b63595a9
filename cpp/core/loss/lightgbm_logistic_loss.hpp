// SPDX-License-Identifier: Apache-2.0
// LightGBM's logistic losses.
#pragma once

#include <cmath>

#include "loss/elementwise_loss.hpp"

namespace mtboost::lightgbm {

// ln(1 + exp(-l σ margin)) per output, l = 1 for the rows of its class and -1 for all others: "binary" with one output,
// whose class is 1, and "multiclassova" with one output per class.
class OneVersusAllLoss final : public Loss<double> {
 public:
  // is_unbalance: the rarer of class and others gets a weight that makes up for it, by the number of rows.
  OneVersusAllLoss(std::string name, std::size_t n_outputs, double sigmoid, bool is_unbalance, double scale_pos_weight)
      : Loss(std::move(name), n_outputs, 1),
        sigmoid_(sigmoid),
        is_unbalance_(is_unbalance),
        scale_pos_weight_(scale_pos_weight) {}

 private:
  std::string label_domain() const override;
  bool accepts(float label) const noexcept override;
  // Weights of the others and of the class, for each output.
  std::vector<double> summarise(const LossRows<double>& rows, ThreadPool& pool) const override;
  void gradients_of_block(const LossRows<double>& rows, std::span<const double> class_weights, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;

  std::size_t n_classes() const noexcept { return n_outputs() == 1 ? 2 : n_outputs(); }
  float class_of(std::size_t output) const noexcept { return n_outputs() == 1 ? 1.0f : static_cast<float>(output); }

  double sigmoid_;  // σ
  bool is_unbalance_;
  double scale_pos_weight_;
};

// -y ln p - (1 - y) ln(1 - p) with p = 1 / (1 + exp(-margin)), for labels that are probabilities.
struct CrossEntropy {
  static constexpr const char* kLabelDomain = "labels from 0 to 1";
  static bool accepts(float label) noexcept { return label >= 0.0f && label <= 1.0f; }

  GradientPair operator()(double margin, float label, float weight) const noexcept {
    if (margin > -37.0) {
      const double odds = std::exp(-margin);  // of label 0
      return {static_cast<float>(((1.0f - label) - label * odds) / (1.0 + odds) * weight),
              static_cast<float>(odds / ((1.0 + odds) * (1.0 + odds)) * weight)};
    }
    const double p = std::exp(margin);  // to all its digits, but cannot overflow above
    return {static_cast<float>((p - label) * weight), static_cast<float>(p * weight)};
  }
};

}  // namespace mtboost::lightgbm
