// SPDX-License-Identifier: Apache-2.0
// The tasks of a node as one more feature (simm2014, section 3): φ_t is the mean label of task t in the node, drawn
// toward the mean γ of all its rows (eqs. 4 to 7), and a split of φ sends tasks of low labels left.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"

namespace mtboost {

class TaskFeature {
 public:
  // tasks: of each row of the table. alpha: how many rows γ counts for.
  TaskFeature(std::span<const task_t> tasks, task_t n_tasks, double alpha)
      : tasks_(tasks), alpha_(alpha), label_sums_(n_tasks), weights_(n_tasks), phi_(n_tasks) {}

  // choice: which of the target's outputs is the label. Returns φ of the task of each row.
  template <typename Target>
  std::span<const float> values(std::span<const row_t> rows, const Target& target, std::size_t choice) {
    present_.clear();
    double label_sum = 0.0, weight = 0.0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const task_t task = tasks_[rows[i]];
      if (weights_[task] == 0.0) present_.push_back(task);
      const double label = target.weighted_label(i, choice);
      label_sums_[task] += label;
      weights_[task] += target.row_weight(i);
      label_sum += label;
    }
    for (const task_t task : present_) weight += weights_[task];
    prior_ = label_sum / weight;
    for (const task_t task : present_) {
      phi_[task] = static_cast<float>((label_sums_[task] + alpha_ * prior_) / (weights_[task] + alpha_));
      label_sums_[task] = weights_[task] = 0.0;
    }
    values_.clear();
    for (const row_t row : rows) values_.push_back(phi_[tasks_[row]]);
    return values_;
  }

  // Of the node last asked for: tasks that have rows, and γ, which all others follow.
  std::span<const task_t> present() const noexcept { return present_; }
  float phi(task_t task) const noexcept { return phi_[task]; }
  bool prior_goes_left(float threshold) const noexcept { return prior_ < threshold; }

 private:
  std::span<const task_t> tasks_;
  double alpha_;
  double prior_ = 0.0;
  std::vector<double> label_sums_, weights_;  // of each task; 0 between calls
  std::vector<float> phi_;
  std::vector<task_t> present_;
  std::vector<float> values_;
};

}  // namespace mtboost
