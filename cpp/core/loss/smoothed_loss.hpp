// SPDX-License-Identifier: Apache-2.0
// What the losses share whose kink XGBoost smooths since 3.4: the unit in which it does so. Of each output it is (mean of
// sqrt|margin - label|)² over all rows by weight. Large residuals hardly move it, and it falls as the model improves.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "loss/loss.hpp"

namespace mtboost {

class SmoothedLoss : public Loss<float> {
 protected:
  // Where all rows together weigh less than least_weight, or nothing, scales are 0.
  SmoothedLoss(std::string name, std::size_t n_outputs, std::size_t n_labels, double least_weight)
      : Loss(std::move(name), n_outputs, n_labels), least_weight_(least_weight) {}

 private:
  std::string label_domain() const override { return "finite labels"; }
  bool accepts(float label) const noexcept override;
  // The scale of each output.
  std::vector<float> summarise(const LossRows<float>& rows, ThreadPool& pool) const override;

  double least_weight_;
};

}  // namespace mtboost
