// SPDX-License-Identifier: Apache-2.0
// Pinball loss of several levels, one output each, of one label per row, as XGBoost has it before 3.4: (1 - α) z where
// z = margin - label is positive, -α z elsewhere. It is least where a share α of the labels lies below; leaves are such
// percentiles.
#pragma once

#include <vector>

#include "loss/xgboost_percentile.hpp"

namespace mtboost {

struct QuantileLevel : XgboostPercentile {
  float level;  // α

  GradientPair operator()(float margin, float label, float weight) const noexcept {
    return {(margin - label >= 0.0f ? 1.0f - level : -level) * weight, weight};
  }

  float leaf_value(std::span<Residual<float>> residuals, bool is_weighted, float learning_rate) const {
    return xgboost_percentile(residuals, level, is_weighted) * learning_rate;
  }
};

class QuantileLoss final : public Loss<float> {
 public:
  // levels: from 0 to 1, in any order.
  QuantileLoss(std::string name, const std::vector<float>& levels);

  bool refits_leaves() const noexcept override { return true; }

 private:
  std::string label_domain() const override { return QuantileLevel::kLabelDomain; }
  bool accepts(float label) const noexcept override;
  void gradients_of_block(const LossRows<float>& rows, std::span<const float> summary, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept override;
  void refit(std::span<const node_t> leaves, const LossRows<float>& rows, std::size_t output, float learning_rate,
             ThreadPool& pool, std::span<float> values /* IN, OUT */) const override;

  std::vector<QuantileLevel> levels_;
};

}  // namespace mtboost
