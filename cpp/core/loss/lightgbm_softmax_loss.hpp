// SPDX-License-Identifier: Apache-2.0
// LightGBM's cross-entropy of K classes, -ln p_label with p = softmax(margins); one output per class, one label a row.
// The hessian is K / (K - 1) p (1 - p), because K - 1 margins would do.
#pragma once

#include "loss/loss.hpp"

namespace mtboost::lightgbm {

class SoftmaxLoss final : public Loss<double> {
 public:
  SoftmaxLoss(std::string name, std::size_t n_classes) : Loss(std::move(name), n_classes, 1) {}

 private:
  std::string label_domain() const override;
  bool accepts(float label) const noexcept override;
  void gradients_of_block(const LossRows<double>& rows, std::span<const double> summary, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;
};

}  // namespace mtboost::lightgbm
