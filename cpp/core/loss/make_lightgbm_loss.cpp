// SPDX-License-Identifier: Apache-2.0
#include "loss/make_lightgbm_loss.hpp"

#include <cmath>

#include "base/require.hpp"
#include "loss/lightgbm_lambdarank_loss.hpp"
#include "loss/lightgbm_log_link_loss.hpp"
#include "loss/lightgbm_logistic_loss.hpp"
#include "loss/lightgbm_percentile_loss.hpp"
#include "loss/lightgbm_regression_loss.hpp"
#include "loss/lightgbm_softmax_loss.hpp"

namespace mtboost::lightgbm {
namespace {

void require_positive(const std::string& name, double value) {
  require(std::isfinite(value) && value > 0.0, name + " must be positive, found " + std::to_string(value));
}

void check(const LossParams& params) {
  require_positive("alpha", params.alpha);
  require_positive("fair_c", params.fair_c);
  require_positive("poisson_max_delta_step", params.poisson_max_delta_step);
  require_positive("sigmoid", params.sigmoid);
  require_positive("scale_pos_weight", params.scale_pos_weight);
  const double power = params.tweedie_variance_power;
  require(power >= 1.0 && power < 2.0,
          "tweedie_variance_power must be at least 1 and below 2, found " + std::to_string(power));
  require(params.lambdarank_truncation_level >= 1, "lambdarank_truncation_level must be at least 1");
  require(!params.is_unbalance || std::abs(params.scale_pos_weight - 1.0) <= 1e-6,
          "is_unbalance and scale_pos_weight cannot be set at the same time");
}

WeightedPercentile rule_of(const std::string& arithmetic) {
  if (arithmetic == "lightgbm-4.5") return WeightedPercentile::lightgbm_4_5;
  require(arithmetic == "lightgbm-4.7",
          "arithmetic must be 'lightgbm-4.5' or 'lightgbm-4.7', found '" + arithmetic + "'");
  return WeightedPercentile::lightgbm_4_7;
}

Quantile quantile(double alpha, WeightedPercentile rule) {
  const auto rounded = static_cast<float>(alpha);
  require(rounded > 0.0f && rounded < 1.0f,
          "alpha of quantile must lie between 0 and 1, found " + std::to_string(alpha));
  return {{rounded, rule}};
}

}  // namespace

std::unique_ptr<LightgbmLoss> make_loss(const std::string& name, std::size_t n_outputs, const LossParams& params) {
  check(params);
  const WeightedPercentile rule = rule_of(params.arithmetic);
  const auto needs = [&](bool is_met, const char* what) { require(is_met, name + " needs n_outputs " + what); };
  const auto elementwise = [&]<typename Formula>(Formula formula) {
    needs(n_outputs == 1, "1");
    return std::make_unique<ElementwiseLoss<double, Formula>>(name, 1, formula);
  };
  const auto percentile = [&]<typename Formula>(Formula formula) {
    needs(n_outputs == 1, "1");
    return std::make_unique<PercentileLoss<double, Formula>>(name, 1, formula);
  };
  const auto one_versus_all = [&] {
    return std::make_unique<OneVersusAllLoss>(name, n_outputs, params.sigmoid, params.is_unbalance,
                                              params.scale_pos_weight);
  };
  if (name == "regression") return elementwise(SquaredError{});
  if (name == "regression_l1") return percentile(AbsoluteError{{0.5, rule}});
  if (name == "huber") return elementwise(Huber{params.alpha});
  if (name == "fair") return elementwise(Fair{params.fair_c});
  if (name == "poisson") return elementwise(Poisson{std::exp(params.poisson_max_delta_step)});
  if (name == "quantile") return percentile(quantile(params.alpha, rule));
  if (name == "mape") return percentile(AbsolutePercentageError{{0.5, rule}});
  if (name == "gamma") return elementwise(Gamma{});
  if (name == "tweedie") return elementwise(Tweedie{params.tweedie_variance_power});
  if (name == "cross_entropy") return elementwise(CrossEntropy{});
  if (name == "binary") {
    needs(n_outputs == 1, "1");
    return one_versus_all();
  }
  if (name == "multiclass" || name == "multiclassova") {
    needs(n_outputs >= 2, "of at least 2, one per class");
    if (name == "multiclassova") return one_versus_all();
    return std::make_unique<SoftmaxLoss>(name, n_outputs);
  }
  if (name == "lambdarank") {
    needs(n_outputs == 1, "1");
    return std::make_unique<LambdarankLoss>(name, params.sigmoid, params.lambdarank_norm,
                                            params.lambdarank_truncation_level);
  }
  throw std::invalid_argument("no loss is called '" + name +
                              "'; known are regression, regression_l1, huber, fair, poisson, quantile, mape, gamma, "
                              "tweedie, binary, cross_entropy, multiclass, multiclassova, lambdarank");
}

}  // namespace mtboost::lightgbm
