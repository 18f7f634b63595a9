// SPDX-License-Identifier: Apache-2.0
// Information gain of a split about the classes of several tasks (faddoul2012, section 2.3). With sums of row weights W of
// task j in the node, W_y of its class y, and L, R of those on either side, the split gives the rows of the task
//
//   I_j = W_j IG_j = f(W_j) − f(L_j) − f(R_j) − Σ_y (f(W_y) − f(L_y) − f(R_y)),    f(x) = x log2 x
//
// bits in all, and
//
//   joint   Σ_j I_j / W     sum   Σ_j I_j / W_j     max   max_j I_j / W_j     concat   I_all / W
//
// where "all" is one task that has the classes of all tasks: concat is joint, and the mutual information of task and
// side. Moving one row changes one class of one task, which is how a scan goes through the splits of a feature.
// Naive twin: tests/oracle/naive_mt_decision_tree.py.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"

namespace mtboost {

enum class TaskCriterion : std::uint8_t { joint, sum, max, concat };

// A row of positive weight. Classes are counted through all tasks.
struct LabelledRow {
  double weight;
  std::uint32_t label;
  task_t task;
};

// Which classes, and which tasks, the rows of a node have.
class ClassTotals {
 public:
  struct Task {
    task_t task;
    std::uint32_t begin, end;  // its classes among classes()
    double weight;
  };

  explicit ClassTotals(std::uint32_t n_classes) : weights_(n_classes, 0.0) {}

  // task_of_class: of every class.
  void enter(std::span<const row_t> node_rows, std::span<const LabelledRow> rows,
             std::span<const task_t> task_of_class);

  double weight(std::uint32_t label) const noexcept { return weights_[label]; }
  std::span<const std::uint32_t> classes() const noexcept { return classes_; }  // present; ascending
  std::span<const Task> tasks() const noexcept { return tasks_; }               // present; ascending
  std::span<const std::uint32_t> classes(const Task& task) const noexcept {
    return std::span(classes_).subspan(task.begin, task.end - task.begin);
  }
  double weight() const noexcept;  // of all rows
  double bits() const noexcept;    // Σ_j W_j H_j

 private:
  std::vector<double> weights_;  // of each class; 0 if it is not present
  std::vector<std::uint32_t> classes_;
  std::vector<Task> tasks_;
};

// Gains are compared as float, so that splits that divide the rows alike stay equal however their sums were rounded. Splits
// of equal `max` are many: those between two rows of the one task that gains. Of them the one with more `joint` is better.
struct TaskGain {
  float gain = -1.0f;  // below 0: no split
  float joint = 0.0f;

  auto operator<=>(const TaskGain&) const = default;
};

// The largest of several numbers, each of which may change.
class Tournament {
 public:
  explicit Tournament(std::size_t n) : n_(n), numbers_(2 * n, 0.0) {}

  void set(std::size_t i, double number) noexcept;
  double largest() const noexcept { return numbers_[1]; }

 private:
  std::size_t n_;
  std::vector<double> numbers_;  // number i stands at n + i; each other place holds the larger of 2 place, 2 place + 1
};

// Goes through the splits of a feature, from one end of its values. A split tells the same whichever of its sides is counted,
// so only rows that are moved cost anything. Buffers of one thread.
class InformationGain {
 public:
  InformationGain(TaskCriterion criterion, std::span<const task_t> task_of_class, task_t n_tasks);

  void enter(const ClassTotals& totals);
  // The first rows of an order on one side, one more with each call.
  void begin_scan() noexcept;
  void move(const LabelledRow& row) noexcept;
  TaskGain gain_of_scan() noexcept;
  // Σ_j I_j of the split whose gain was asked for last; of concat, I_all.
  double information() const noexcept { return information_; }

 private:
  struct Class {
    double total = 0.0, whole = 0.0;  // W_y, f(W_y)
    double moved = 0.0;               // L_y
    double sides = 0.0;               // f(L_y) + f(R_y) when last asked for
    std::uint64_t scan = 0;           // in which rows were last moved: the three above are of this one
    bool has_changed = false;
  };
  struct Group {
    double total = 0.0, whole = 0.0;
    double moved = 0.0;
    double classes = 0.0;  // Σ (f(L_y) + f(R_y) − f(W_y))
    double information = 0.0;
    std::uint64_t scan = 0;
    bool has_changed = false;
  };

  TaskCriterion criterion_;
  std::vector<task_t> group_of_class_;  // the task; with concat all are one
  std::vector<Class> classes_;
  std::vector<Group> groups_;
  Tournament tournament_;
  std::vector<std::uint32_t> changed_classes_;
  std::vector<task_t> present_groups_, changed_groups_;
  std::vector<task_t> scanned_groups_;  // of which rows have been moved
  std::uint64_t scan_ = 0;
  double weight_ = 0.0, information_ = 0.0, sum_ = 0.0;
};

}  // namespace mtboost
