// SPDX-License-Identifier: Apache-2.0
// XGBoost's survival:cox, by strata: the negative partial log-likelihood of proportional hazards, in which each group of
// rows (a task) has its own baseline hazard and its own risk sets. A label is the time of an event, or minus the time at
// which a row was censored. With one group the gradients are XGBoost's, whose rows of equal time see only the events
// before them in the order, and whose weights multiply gradients, not risk sets.
// Naive twin: tests/oracle/test_survival.py.
#pragma once

#include <string>

#include "loss/loss.hpp"

namespace mtboost {

class CoxLoss final : public XgboostLoss {
 public:
  explicit CoxLoss(std::string name) : XgboostLoss(std::move(name), 1, 1) {}

  bool needs_risk_sets() const noexcept override { return true; }

 private:
  std::string label_domain() const override;
  bool accepts(float label) const noexcept override;
  void gradients_of_block(const LossRows<float>&, std::span<const float>, std::size_t, std::size_t,
                          GradientPair*) const noexcept override {}
  bool compute(const LossRows<float>& rows, ThreadPool& pool, std::span<GradientPair> pairs /* OUT */) const override;
};

}  // namespace mtboost
