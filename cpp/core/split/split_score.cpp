// SPDX-License-Identifier: Apache-2.0
#include "split/split_score.hpp"

#include <algorithm>
#include <cmath>

#include "base/require.hpp"

namespace mtboost {
namespace {

// Σ (s^t − s̄)² / (T − 1); tasks whose s^t is 0 count.
double sample_variance(const TaskGainSums& tasks, task_t n_present) noexcept {
  const double n = n_present;
  return std::max(0.0, (tasks.sum_of_squares - tasks.sum * tasks.sum / n) / (n - 1.0));
}

}  // namespace

double EntropyScore::score(float pooled_gain, const TaskGainSums& tasks, task_t) const {
  if (tasks.n_positive < 2) return 0.0;  // exactly: rounding may not let a cut that helps one task pass for two
  // −Σ (r/R) ln(r/R) = ln R − Σ r ln r / R
  const double entropy = std::log(tasks.positive_sum) - tasks.positive_log_sum / tasks.positive_sum;
  return pooled_gain * std::max(entropy, 0.0);
}

double EntropyScore::upper_bound(float pooled_gain, task_t n_present) const {
  return pooled_gain * std::log(static_cast<double>(n_present));
}

VarianceScore::VarianceScore(double beta) : beta_(beta) {
  require(beta >= 0.0 && std::isfinite(beta), "beta must be a finite number >= 0");
}

double VarianceScore::score(float pooled_gain, const TaskGainSums& tasks, task_t n_present) const {
  return pooled_gain - beta_ * sample_variance(tasks, n_present);
}

double VarianceScore::upper_bound(float pooled_gain, task_t) const { return pooled_gain; }

double DeviationScore::score(float pooled_gain, const TaskGainSums& tasks, task_t n_present) const {
  return pooled_gain - std::sqrt(n_present * sample_variance(tasks, n_present));
}

double DeviationScore::upper_bound(float pooled_gain, task_t) const { return pooled_gain; }

double CallableScore::score(float, const TaskGainSums&, task_t) const {
  throw std::logic_error("a score of the whole vector was asked for a score of sums");
}

void CallableScore::scores(std::span<const float> pooled_gains, const MatrixView<float>& task_gains,
                           std::span<double> scores) const {
  function_(pooled_gains, task_gains, scores);
  for (const double score : scores) require(std::isfinite(score), "the split score returned a number that is not finite");
}

}  // namespace mtboost
