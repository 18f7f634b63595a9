// SPDX-License-Identifier: Apache-2.0
// Every stopping rule and penalty of a tree, with the names, meanings and defaults of its library.
#pragma once

#include <cstdint>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/ranges.hpp"
#include "base/require.hpp"
#include "base/types.hpp"

namespace mtboost {

// What the grower itself obeys, under XGBoost's names; penalties are for the rules of either library.
struct GrowParams {
  int max_depth = 6;   // 0: no limit
  int max_leaves = 0;  // 0: no limit
  bool loss_guided = false;
  double subsample = 1.0;
  double colsample_bytree = 1.0;
  double colsample_bylevel = 1.0;
  double colsample_bynode = 1.0;
  std::vector<int> monotone_constraints;                        // -1, 0, 1 per feature; empty: none
  std::vector<std::vector<feature_t>> interaction_constraints;  // features that may meet on a path; empty: all
  std::uint64_t seed = 0;

  // Throws std::invalid_argument. Trees of either library check their own parameters too.
  void check(feature_t n_features) const {
    require(max_depth > 0 || max_leaves > 0, "max_depth or max_leaves must be positive, or a tree never ends");
    require(loss_guided || max_depth > 0, "grow_policy='depthwise' needs max_depth > 0");
    require_fraction("subsample", subsample);
    require_fraction("colsample_bytree", colsample_bytree);
    require_fraction("colsample_bylevel", colsample_bylevel);
    require_fraction("colsample_bynode", colsample_bynode);
    require(monotone_constraints.size() <= n_features, "monotone_constraints has more entries than features");
    for (const int constraint : monotone_constraints)
      require_number(constraint >= -1 && constraint <= 1, "a monotone constraint", constraint, "-1, 0 or 1");
    for (const auto& group : interaction_constraints)
      for (const feature_t feature : group)
        require(feature < n_features, "interaction_constraints names feature " + std::to_string(feature) +
                                          ", but there are " + std::to_string(n_features));
  }
};

struct XgboostParams : GrowParams {
  float learning_rate = 0.3f;
  float min_split_loss = 0.0f;
  float min_child_weight = 1.0f;
  float reg_lambda = 1.0f;
  float reg_alpha = 0.0f;
  float max_delta_step = 0.0f;  // 0: no limit
  bin_t max_cat_to_onehot = 4;  // fewer categories than this: one against the rest
  bin_t max_cat_threshold = 64;
  Arithmetic arithmetic = Arithmetic::xgboost_3_0;

  void check(feature_t n_features) const {
    GrowParams::check(n_features);
    require_rate("learning_rate", learning_rate);
    require_not_negative("min_split_loss", min_split_loss);
    require_not_negative("min_child_weight", min_child_weight);
    require_not_negative("reg_lambda", reg_lambda);
    require_not_negative("reg_alpha", reg_alpha);
    require_not_negative("max_delta_step", max_delta_step);
  }
};

struct LightgbmParams : GrowParams {
  double learning_rate = 0.1;
  int min_data_in_leaf = 20;
  double min_sum_hessian_in_leaf = 1e-3;
  double min_gain_to_split = 0.0;
  double lambda_l1 = 0.0;
  double lambda_l2 = 0.0;
  double max_delta_step = 0.0;  // 0: no limit
  double path_smooth = 0.0;
  double monotone_penalty = 0.0;
  int max_cat_to_onehot = 4;  // up to this many bins: one category against the rest
  int max_cat_threshold = 32;
  double cat_smooth = 10.0;
  double cat_l2 = 10.0;
  int min_data_per_group = 100;
  std::vector<double> feature_contri;  // factor on the gain, per feature; empty: 1

  // Names are LightGBM's, but for those of GrowParams.
  void check(feature_t n_features) const {
    GrowParams::check(n_features);
    require_rate("learning_rate", learning_rate);
    require_at_least("min_data_in_leaf", min_data_in_leaf, 0);
    require_not_negative("min_sum_hessian_in_leaf", min_sum_hessian_in_leaf);
    require_not_negative("min_gain_to_split", min_gain_to_split);
    require_not_negative("lambda_l1", lambda_l1);
    require_not_negative("lambda_l2", lambda_l2);
    require_finite("max_delta_step", max_delta_step);
    require_not_negative("path_smooth", path_smooth);
    require_not_negative("monotone_penalty", monotone_penalty);
    require_not_negative("cat_smooth", cat_smooth);
    require_not_negative("cat_l2", cat_l2);
    require_at_least("min_data_per_group", min_data_per_group, 0);
    require(feature_contri.empty() || feature_contri.size() == n_features,
            "feature_contri needs one factor per feature");
    for (const double factor : feature_contri) require_finite("feature_contri", factor);
  }
};

}  // namespace mtboost
