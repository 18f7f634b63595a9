// SPDX-License-Identifier: Apache-2.0
#include "split/split_score.hpp"

#include <algorithm>
#include <cmath>

#include "base/ranges.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

// Σ (s^t − s̄)² over n tasks; tasks whose s^t is 0 count.
double sum_of_deviations(const TaskGainSums& tasks, task_t n) noexcept {
  return n == 0 ? 0.0 : std::max(0.0, tasks.sum_of_squares - tasks.sum * tasks.sum / n);
}

// −Σ P ln P = ln R − Σ r ln r / R
double entropy(const TaskGainSums& tasks) noexcept {
  return std::max(0.0, std::log(tasks.positive_sum) - tasks.positive_log_sum / tasks.positive_sum);
}

}  // namespace

double EntropyScore::score(double pooled_gain, const TaskGainSums& tasks, task_t) const {
  if (tasks.n_positive < 2) return 0.0;  // exactly: rounding may not let a split that helps one task pass for two
  return pooled_gain * entropy(tasks);
}

// Whatever the unknown tasks gain: the entropy of all is at most ln(exp(entropy of the known) + number of unknown), which
// it reaches if each unknown task gains as much as a known one typically does.
double EntropyScore::upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known,
                                 task_t n_present) const {
  const double n_unknown = n_present - n_known;
  return pooled_gain * std::log(std::max(1.0, (known.n_positive > 0 ? std::exp(entropy(known)) : 0.0) + n_unknown));
}

VarianceScore::VarianceScore(double beta) : beta_(beta) { require_rate("beta", beta); }

double VarianceScore::score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const {
  return pooled_gain - beta_ * sum_of_deviations(tasks, n_present) / (n_present - 1.0);
}

// The squared deviations of some tasks from their own mean add up to no more than those of all from the mean of all.
double VarianceScore::upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known,
                                  task_t n_present) const {
  return pooled_gain - beta_ * sum_of_deviations(known, n_known) / (n_present - 1.0);
}

double DeviationScore::score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const {
  return pooled_gain - std::sqrt(n_present * sum_of_deviations(tasks, n_present) / (n_present - 1.0));
}

double DeviationScore::upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known,
                                   task_t n_present) const {
  return pooled_gain - std::sqrt(n_present * sum_of_deviations(known, n_known) / (n_present - 1.0));
}

double CallableScore::score(double, const TaskGainSums&, task_t) const {
  throw std::logic_error("a score of the whole vector was asked for a score of sums");
}

void CallableScore::scores(std::span<const float> pooled_gains, const MatrixView<float>& task_gains,
                           std::span<double> scores) const {
  function_(pooled_gains, task_gains, scores);
  for (const double score : scores)
    require(std::isfinite(score), "the split score returned a number that is not finite");
}

}  // namespace mtboost
