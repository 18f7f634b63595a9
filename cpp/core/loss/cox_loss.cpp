// SPDX-License-Identifier: Apache-2.0
#include "loss/cox_loss.hpp"

#include <cmath>

#include "base/require.hpp"

namespace mtboost {
namespace {

// order: the rows of one group, the earliest first.
void gradients_of_group(const LossRows<float>& rows, std::span<const std::uint32_t> order,
                        std::span<GradientPair> pairs /* OUT */) noexcept {
  double at_risk = 0.0;
  for (const std::uint32_t row : order) at_risk += std::exp(rows.margins[row]);  // in float, as XGBoost

  double hazard = 0.0;          // sum over the events so far of 1 / at_risk
  double squared_hazard = 0.0;  // of 1 / at_risk^2
  double leaving = 0.0;         // exp(margin) of rows at the last time: they leave the risk set when time moves on
  double last_time = 0.0, last_exp = 0.0;
  for (const std::uint32_t row : order) {
    const double margin = rows.margins[row];
    const double exp_margin = std::exp(margin);
    const double label = rows.labels[row];
    const double time = std::abs(label);
    leaving += last_exp;
    if (last_time < time) {
      at_risk -= leaving;
      leaving = 0.0;
    }
    if (label > 0.0) {
      hazard += 1.0 / at_risk;
      squared_hazard += 1.0 / (at_risk * at_risk);
    }
    const double weight = rows.weight(row);
    const double gradient = exp_margin * hazard - static_cast<float>(label > 0.0);
    const double hessian = exp_margin * hazard - exp_margin * exp_margin * squared_hazard;
    pairs[row] = {static_cast<float>(gradient * weight), static_cast<float>(hessian * weight)};
    last_time = time;
    last_exp = exp_margin;
  }
}

// Times that fall would put rows in the wrong risk sets.
void check_risk_sets(const LossRows<float>& rows) {
  const std::size_t n_rows = rows.margins.size();
  const auto begins = rows.groups;
  require(!begins.empty() && begins.front() == 0 && begins.back() == n_rows,
          "groups must begin with 0 and end with the number of rows, " + std::to_string(n_rows));
  require(rows.order.size() == n_rows, "order must hold " + std::to_string(n_rows) + " rows");
  std::vector<bool> is_seen(n_rows);
  for (std::size_t group = 1; group < begins.size(); ++group) {
    require(begins[group - 1] <= begins[group], "groups must not decrease");
    float last_time = 0.0f;
    for (std::size_t at = begins[group - 1]; at < begins[group]; ++at) {
      const std::uint32_t row = rows.order[at];
      require(row < n_rows && !is_seen[row], "order must name each row once");
      is_seen[row] = true;
      const float time = std::abs(rows.labels[row]);
      require(last_time <= time, "order must sort the rows of a group by time");
      last_time = time;
    }
  }
}

}  // namespace

std::string CoxLoss::label_domain() const { return "times of events, or minus the times at which rows were censored"; }

bool CoxLoss::accepts(float label) const noexcept { return std::isfinite(label); }

bool CoxLoss::compute(const LossRows<float>& rows, ThreadPool& pool, std::span<GradientPair> pairs) const {
  check_risk_sets(rows);
  pool.parallel_for(rows.groups.size() - 1, [&](std::size_t group) {
    const std::size_t first = rows.groups[group];
    gradients_of_group(rows, rows.order.subspan(first, rows.groups[group + 1] - first), pairs);
  });
  return all_finite(pairs);
}

}  // namespace mtboost
