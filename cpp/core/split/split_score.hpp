// SPDX-License-Identifier: Apache-2.0
// Split scores S(s, s^1..s^T) of zhang2019, section 3.2: how good a split is when the rows belong to several tasks.
// s is the gain of the pooled sums, s^t the gain of task t's own rows in the node; T counts the tasks present there.
//
// To add a score, derive from SplitScore. Most need only sums over tasks (TaskGainSums): override score(), and
// upper_bound() if S can be bounded before all task gains are known, because the finder then skips most of the work.
// A score of the whole vector overrides needs_every_task_gain() and scores() instead (CallableScore does).
// Naive twins: tests/oracle/naive.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

// Sums over the tasks present in a node, for one split; r = max(s^t, 0).
struct TaskGainSums {
  double sum = 0.0;               // Σ s^t
  double sum_of_squares = 0.0;    // Σ (s^t)²
  double positive_sum = 0.0;      // Σ r
  double positive_log_sum = 0.0;  // Σ r ln r
  std::int32_t n_positive = 0;    // tasks with s^t > 0

  TaskGainSums& operator+=(const TaskGainSums& other) noexcept {
    sum += other.sum;
    sum_of_squares += other.sum_of_squares;
    positive_sum += other.positive_sum;
    positive_log_sum += other.positive_log_sum;
    n_positive += other.n_positive;
    return *this;
  }
};

class SplitScore {
 public:
  virtual ~SplitScore() = default;

  virtual double score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const = 0;

  // No split scores higher that has this pooled gain, and these sums over n_known of its n_present tasks (0: of none).
  // Must not fall when the pooled gain rises.
  virtual double upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known, task_t n_present) const {
    (void)pooled_gain, (void)known, (void)n_known, (void)n_present;
    return std::numeric_limits<double>::infinity();
  }
  // Which parts of TaskGainSums score() and upper_bound() read: {sum, sum_of_squares}, and those of r.
  virtual bool needs_moments() const { return true; }
  virtual bool needs_positive_sums() const { return true; }

  // In a node with fewer tasks than this, S follows from s alone and rises with it: see score_of_one_task().
  virtual task_t min_tasks() const { return 2; }
  virtual double score_of_one_task(double pooled_gain) const { return pooled_gain; }

  virtual bool needs_every_task_gain() const { return false; }
  // task_gains(split, i) is the gain of the i-th task present.
  virtual void scores(std::span<const float> pooled_gains, const MatrixView<float>& task_gains,
                      std::span<double> scores /* OUT */) const {
    (void)pooled_gains, (void)task_gains, (void)scores;
  }
};

// S = s · (−Σ P_t ln P_t), P_t = r_t / Σ r (eq. 5).
class EntropyScore final : public SplitScore {
 public:
  double score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const override;
  double upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known, task_t n_present) const override;
  bool needs_moments() const override { return false; }
  double score_of_one_task(double) const override { return 0.0; }
};

// S = s − β v, v the sample variance of s^t (eq. 6). β has the unit 1 / loss.
class VarianceScore final : public SplitScore {
 public:
  explicit VarianceScore(double beta);
  double score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const override;
  double upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known, task_t n_present) const override;
  bool needs_positive_sums() const override { return false; }

 private:
  double beta_;
};

// S = s − sqrt(T v): the variance score without a unit. For s^t >= 0 that add up to s it runs from 0, when one task has
// all the gain, to s, when all tasks gain the same, whatever the loss and the number of rows.
class DeviationScore final : public SplitScore {
 public:
  double score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const override;
  double upper_bound(double pooled_gain, const TaskGainSums& known, task_t n_known, task_t n_present) const override;
  bool needs_positive_sums() const override { return false; }
};

// A score written by the user, called with all splits of a feature at once.
class CallableScore final : public SplitScore {
 public:
  using Function = std::function<void(std::span<const float>, const MatrixView<float>&, std::span<double>)>;
  explicit CallableScore(Function function) : function_(std::move(function)) {}
  double score(double pooled_gain, const TaskGainSums& tasks, task_t n_present) const override;
  task_t min_tasks() const override { return 1; }
  bool needs_every_task_gain() const override { return true; }
  void scores(std::span<const float> pooled_gains, const MatrixView<float>& task_gains,
              std::span<double> scores /* OUT */) const override;

 private:
  Function function_;
};

}  // namespace mtboost
