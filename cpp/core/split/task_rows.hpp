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
#include "histogram/histogram.hpp"

namespace mtboost {

class TaskRows {
 public:
  // first_rows[t] is the first stored row of task t; one more entry ends the last task.
  explicit TaskRows(std::vector<row_t> first_rows) : first_rows_(std::move(first_rows)) {
    require(
        first_rows_.size() >= 2 && first_rows_.front() == 0 && std::is_sorted(first_rows_.begin(), first_rows_.end()),
        "first rows of the tasks must ascend from 0");
  }
  task_t n_tasks() const noexcept { return static_cast<task_t>(first_rows_.size() - 1); }
  row_t begin(task_t task) const noexcept { return first_rows_[task]; }
  row_t end(task_t task) const noexcept { return first_rows_[task + 1]; }
  task_t task_of(row_t row) const noexcept {
    return static_cast<task_t>(std::upper_bound(first_rows_.begin(), first_rows_.end(), row) - first_rows_.begin() - 1);
  }
  // The same for a row of task `from` or a later one, in as many steps as their distance has digits.
  task_t task_of(row_t row, task_t from) const noexcept {
    const std::size_t n = n_tasks();
    std::size_t low = from, step = 1;
    for (; low + step < n && first_rows_[low + step] <= row; step *= 2) low += step;
    const auto begin = first_rows_.begin();
    const auto after = std::upper_bound(begin + static_cast<std::ptrdiff_t>(low),
                                        begin + static_cast<std::ptrdiff_t>(std::min(low + step, n)), row);
    return static_cast<task_t>(after - begin - 1);
  }

 private:
  std::vector<row_t> first_rows_;
};

// One task present in a node.
struct PresentTask {
  task_t task;
  std::span<const row_t> rows;
  std::span<const GradientSums> layer;  // of the node's histogram, by slot; empty: the rows must be added up
  // Known after the first look:
  std::span<GradientPair> gradients{};  // of rows, side by side; empty if there is a layer
  GradientSums sums{};
  float gain = 0.0f;  // of the task's rows, unsplit
};

// A task with two rows in a node. Every split that has them on different sides gains the same for it.
struct PairTask {
  row_t rows[2];
  float gain;       // by such a split
  double log_term;  // gain ln gain; 0 if gain <= 0
};

// The part of `node_rows` that belongs to `task`.
inline std::span<const row_t> rows_of_task(const TaskRows& tasks, task_t task, std::span<const row_t> node_rows) {
  const auto begin = std::ranges::lower_bound(node_rows, tasks.begin(task));
  return {begin, std::lower_bound(begin, node_rows.end(), tasks.end(task))};
}

// Calls visit(task, rows) for the slice of each task present among `node_rows`.
template <typename Visit>
void for_each_task(const TaskRows& tasks, std::span<const row_t> node_rows, Visit&& visit) {
  task_t task = 0;
  while (!node_rows.empty()) {
    task = tasks.task_of(node_rows.front(), task);
    std::size_t n_known = 1, n_most = 2;  // rows of the task: of thousands of tasks most have few
    for (; n_most < node_rows.size() && node_rows[n_most - 1] < tasks.end(task); n_most *= 2) n_known = n_most;
    const auto candidates = node_rows.first(std::min(n_most, node_rows.size())).subspan(n_known);
    const auto n_rows =
        n_known + static_cast<std::size_t>(std::ranges::lower_bound(candidates, tasks.end(task)) - candidates.begin());
    visit(task, node_rows.first(n_rows));
    node_rows = node_rows.subspan(n_rows);
  }
}

}  // namespace mtboost
