// SPDX-License-Identifier: Apache-2.0
// From XGBoost's name of an objective to the loss.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/arithmetic.hpp"
#include "loss/aft_loss.hpp"
#include "loss/lambdarank_loss.hpp"
#include "loss/loss.hpp"

namespace mtboost {

// Parameters of the formulas, with XGBoost's names and defaults. A loss reads those of its formula.
struct LossParams {
  float scale_pos_weight = 1.0f;
  float huber_slope = 1.0f;
  float max_delta_step = 0.7f;
  float tweedie_variance_power = 1.5f;
  std::vector<float> quantile_alpha;  // a level for each output; empty: medians
  Arithmetic arithmetic = Arithmetic::xgboost_3_0;
  LambdarankParams lambdarank = {};
  AftParams aft = {};
};

// n_outputs: columns of the label matrix, the number of classes of multi:softprob and multi:softmax, or the number of
// levels of reg:quantileerror.
std::unique_ptr<XgboostLoss> make_loss(const std::string& name, std::size_t n_outputs, const LossParams& params);

}  // namespace mtboost
