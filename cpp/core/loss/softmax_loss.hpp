// SPDX-License-Identifier: Apache-2.0
// Cross-entropy of K classes, -ln p_label with p = softmax(margins); one output per class, one label per row.
// The hessian is XGBoost's 2 p (1 - p), twice the diagonal of the true one: as a diagonal matrix, a bound on all K × K of
// it (diagonal dominance).
#pragma once

#include "loss/loss.hpp"

namespace mtboost {

class SoftmaxLoss final : public Loss<float> {
 public:
  SoftmaxLoss(std::string name, std::size_t n_classes) : Loss(std::move(name), n_classes, 1) {}

 private:
  std::string label_domain() const override;
  bool accepts(float label) const noexcept override;
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> summary, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;
};

}  // namespace mtboost
