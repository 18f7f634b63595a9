// SPDX-License-Identifier: Apache-2.0
#include "loss/make_loss.hpp"

#include <algorithm>
#include <cmath>

#include "base/require.hpp"
#include "loss/absolute_error_loss.hpp"
#include "loss/cox_loss.hpp"
#include "loss/hinge_loss.hpp"
#include "loss/log_link_loss.hpp"
#include "loss/logistic_loss.hpp"
#include "loss/pseudo_huber_loss.hpp"
#include "loss/quantile_loss.hpp"
#include "loss/smooth_absolute_error_loss.hpp"
#include "loss/smooth_quantile_loss.hpp"
#include "loss/softmax_loss.hpp"
#include "loss/squared_error_loss.hpp"
#include "loss/squared_log_error_loss.hpp"

namespace mtboost {
namespace {

void check(const LossParams& params) {
  const auto& [scale, slope, step, power, levels, arithmetic, lambdarank, aft] = params;
  (void)arithmetic;
  (void)aft;
  const auto is_at_least_0 = [](float value) { return std::isfinite(value) && value >= 0.0f; };
  require(is_at_least_0(scale), "scale_pos_weight must be 0 or positive, found " + std::to_string(scale));
  require(is_at_least_0(step), "max_delta_step must be 0 or positive, found " + std::to_string(step));
  require(std::isfinite(slope) && slope > 0.0f, "huber_slope must be positive, found " + std::to_string(slope));
  require(power >= 1.0f && power <= 2.0f,
          "tweedie_variance_power must lie between 1 and 2, found " + std::to_string(power));
  for (const float level : levels)
    require(level >= 0.0f && level <= 1.0f, "quantile_alpha must lie between 0 and 1, found " + std::to_string(level));
  require(lambdarank.n_pairs >= 1, "lambdarank_num_pair_per_sample must be at least 1");
}

}  // namespace

std::unique_ptr<XgboostLoss> make_loss(const std::string& name, std::size_t n_outputs, const LossParams& params) {
  check(params);
  require(n_outputs >= 1, "n_outputs must be at least 1");
  const PositiveFactor positive_factor(params.scale_pos_weight);
  if (name == "reg:squarederror")
    return std::make_unique<SquaredErrorLoss>(name, n_outputs, SquaredError{positive_factor});
  if (name == "reg:squaredlogerror") return std::make_unique<SquaredLogErrorLoss>(name, n_outputs, SquaredLogError{});
  if (name == "reg:absoluteerror") {
    if (params.arithmetic == Arithmetic::xgboost_3_4) return std::make_unique<SmoothAbsoluteErrorLoss>(name, n_outputs);
    return std::make_unique<AbsoluteErrorLoss>(name, n_outputs, AbsoluteError{});
  }
  if (name == "reg:pseudohubererror")
    return std::make_unique<PseudoHuberLoss>(name, n_outputs, PseudoHuber{params.huber_slope});
  if (name == "binary:logistic" || name == "reg:logistic" || name == "binary:logitraw")
    return std::make_unique<LogisticLoss>(name, n_outputs, Logistic{positive_factor});
  if (name == "binary:hinge") return std::make_unique<HingeLoss>(name, n_outputs, Hinge{});
  if (name == "count:poisson") return std::make_unique<PoissonLoss>(name, n_outputs, Poisson{params.max_delta_step});
  if (name == "reg:gamma") return std::make_unique<GammaLoss>(name, n_outputs, Gamma{positive_factor});
  if (name == "reg:tweedie")
    return std::make_unique<TweedieLoss>(name, n_outputs, Tweedie{params.tweedie_variance_power});
  if (name == "reg:quantileerror") {
    const auto levels = params.quantile_alpha.empty() ? std::vector<float>(n_outputs, 0.5f) : params.quantile_alpha;
    require(levels.size() == n_outputs, name + " needs one level of quantile_alpha per output, found " +
                                            std::to_string(levels.size()) + " for " + std::to_string(n_outputs));
    if (params.arithmetic != Arithmetic::xgboost_3_4) return std::make_unique<QuantileLoss>(name, levels);
    require(std::ranges::is_sorted(levels), "quantile_alpha must be ascending since XGBoost 3.4");
    return std::make_unique<SmoothQuantileLoss>(name, levels);
  }
  if (name == "multi:softprob" || name == "multi:softmax") {
    require(n_outputs >= 2, name + " needs n_outputs of at least 2, one per class");
    return std::make_unique<SoftmaxLoss>(name, n_outputs);
  }
  if (name == "rank:ndcg" || name == "rank:pairwise") {
    require(n_outputs == 1, name + " needs n_outputs 1");
    return std::make_unique<LambdarankLoss>(name, name == "rank:ndcg", params.lambdarank);
  }
  if (name == "survival:cox") {
    require(n_outputs == 1, name + " needs n_outputs 1");
    return std::make_unique<CoxLoss>(name);
  }
  if (name == "survival:aft") {
    require(n_outputs == 1, name + " needs n_outputs 1");
    return std::make_unique<AftLoss>(name, params.aft);
  }
  throw std::invalid_argument(
      "no loss is called '" + name +
      "'; known are reg:squarederror, reg:squaredlogerror, reg:absoluteerror, reg:pseudohubererror, "
      "binary:logistic, reg:logistic, binary:logitraw, binary:hinge, count:poisson, reg:gamma, reg:tweedie, "
      "reg:quantileerror, multi:softprob, multi:softmax, rank:ndcg, rank:pairwise, survival:cox, survival:aft");
}

}  // namespace mtboost
