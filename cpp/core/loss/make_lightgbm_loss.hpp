// SPDX-License-Identifier: Apache-2.0
// From LightGBM's name of an objective to the loss.
#pragma once

#include <memory>
#include <string>

#include "loss/loss.hpp"

namespace mtboost::lightgbm {

// Parameters of the formulas, with LightGBM's names and defaults. A loss reads those of its formula.
struct LossParams {
  double alpha = 0.9;
  double fair_c = 1.0;
  double poisson_max_delta_step = 0.7;
  double tweedie_variance_power = 1.5;
  double sigmoid = 1.0;
  bool is_unbalance = false;
  double scale_pos_weight = 1.0;
  std::string arithmetic = "lightgbm-4.7";  // or "lightgbm-4.5"
  bool lambdarank_norm = true;
  std::size_t lambdarank_truncation_level = 30;
};

// name: LightGBM's main one. n_outputs: the number of classes of multiclass and multiclassova, otherwise 1.
std::unique_ptr<LightgbmLoss> make_loss(const std::string& name, std::size_t n_outputs, const LossParams& params);

}  // namespace mtboost::lightgbm
