// SPDX-License-Identifier: Apache-2.0
// Absolute error, |margin - label|. Its second derivative is 0 almost everywhere, so that the weight stands in for the
// hessian while the tree grows, and the leaves are then set to what minimises the loss: the median residual.
#pragma once

#include "loss/elementwise_loss.hpp"

namespace mtboost {

struct AbsoluteError {
  static constexpr const char* kLabelDomain = "finite labels";
  static bool accepts(float) noexcept { return true; }

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    const float difference = margin - label;
    const int sign = (difference > 0.0f) - (difference < 0.0f);
    return {static_cast<float>(sign) * weight, weight};
  }
};

class AbsoluteErrorLoss final : public ElementwiseLoss<AbsoluteError> {
 public:
  using ElementwiseLoss::ElementwiseLoss;

  bool refits_leaves() const noexcept override { return true; }

 private:
  // Leaf value = learning_rate · median(label - margin) over the rows of positive weight. Unweighted, the median of an
  // even number of rows lies halfway between two; weighted, it is the first residual that reaches half the weight.
  void refit(std::span<const node_t> leaves, const LossRows& rows, std::size_t output, float learning_rate,
             ThreadPool& pool, std::span<float> values /* IN, OUT */) const override;
};

}  // namespace mtboost
