// SPDX-License-Identifier: Apache-2.0
// Which stored rows belong to which task, and what the tasks present in a node bring along.
// Always holds: rows are stored grouped by task (BinnedMatrix::caller_rows), so the tasks of a node are slices of its
// ascending row list and one task's sums are needed at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/require.hpp"
#include "base/types.hpp"
#include "split/leaf_arithmetic.hpp"

namespace mtboost {

class TaskRows {
 public:
  // first_rows[t] is the first stored row of task t; one more entry ends the last task.
  explicit TaskRows(std::vector<row_t> first_rows) : first_rows_(std::move(first_rows)) {
    require(first_rows_.size() >= 2 && first_rows_.front() == 0 && std::is_sorted(first_rows_.begin(), first_rows_.end()),
            "first rows of the tasks must ascend from 0");
  }
  task_t n_tasks() const noexcept { return static_cast<task_t>(first_rows_.size() - 1); }
  row_t begin(task_t task) const noexcept { return first_rows_[task]; }
  row_t end(task_t task) const noexcept { return first_rows_[task + 1]; }
  task_t task_of(row_t row) const noexcept {
    return static_cast<task_t>(std::upper_bound(first_rows_.begin(), first_rows_.end(), row) - first_rows_.begin() - 1);
  }

 private:
  std::vector<row_t> first_rows_;
};

// One task present in a node: its rows are node_rows[begin, end).
struct PresentTask {
  std::size_t begin;
  std::size_t end;
  GradientSums sums;
  float gain;  // of the task's rows, uncut
};

inline std::vector<PresentTask> present_tasks(const TaskRows& tasks, std::span<const row_t> node_rows,
                                              std::span<const GradientPair> gradients,
                                              const XgboostArithmetic& arithmetic) {
  std::vector<PresentTask> present;
  for (std::size_t begin = 0; begin < node_rows.size();) {
    const row_t last_row = tasks.end(tasks.task_of(node_rows[begin]));
    PresentTask task{begin, begin, {}, 0.0f};
    for (; task.end < node_rows.size() && node_rows[task.end] < last_row; ++task.end) {
      const GradientPair& pair = gradients[node_rows[task.end]];
      task.sums += GradientSums{pair.gradient, pair.hessian};
    }
    task.gain = arithmetic.free_gain(task.sums);
    begin = task.end;
    present.push_back(task);
  }
  return present;
}

}  // namespace mtboost
