// SPDX-License-Identifier: Apache-2.0
#include "forest/information_gain.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {
namespace {

// The side that is not counted is what is left over of a total, which may round to a little less than nothing.
double x_log_x(double x) noexcept { return x > 0.0 ? x * std::log2(x) : 0.0; }

// Less than that many bits a row is rounding.
constexpr double kLeastGain = 1e-12;

float as_gain(double bits) noexcept { return bits < kLeastGain ? 0.0f : static_cast<float>(bits); }

}  // namespace

// Totals ----------------------------------------------------------------------------------------------------------------

void ClassTotals::enter(std::span<const row_t> node_rows, std::span<const LabelledRow> rows,
                        std::span<const task_t> task_of_class) {
  for (const std::uint32_t label : classes_) weights_[label] = 0.0;
  classes_.clear();
  tasks_.clear();
  for (const row_t row : node_rows) {
    const LabelledRow& own = rows[row];
    if (weights_[own.label] == 0.0) classes_.push_back(own.label);
    weights_[own.label] += own.weight;
  }
  std::ranges::sort(classes_);
  for (std::uint32_t i = 0; i < classes_.size(); ++i) {
    const task_t task = task_of_class[classes_[i]];
    if (tasks_.empty() || tasks_.back().task != task) tasks_.push_back({task, i, i, 0.0});
    ++tasks_.back().end;
    tasks_.back().weight += weights_[classes_[i]];
  }
}

double ClassTotals::weight() const noexcept {
  double sum = 0.0;
  for (const Task& task : tasks_) sum += task.weight;
  return sum;
}

double ClassTotals::bits() const noexcept {
  double sum = 0.0;
  for (const Task& task : tasks_) {
    double own = x_log_x(task.weight);
    for (const std::uint32_t label : classes(task)) own -= x_log_x(weights_[label]);
    sum += std::max(0.0, own);
  }
  return sum;
}

// The largest -----------------------------------------------------------------------------------------------------------

void Tournament::set(std::size_t i, double number) noexcept {
  std::size_t place = n_ + i;
  numbers_[place] = number;
  for (place /= 2; place > 0; place /= 2) numbers_[place] = std::max(numbers_[2 * place], numbers_[2 * place + 1]);
}

// The scan --------------------------------------------------------------------------------------------------------------

InformationGain::InformationGain(TaskCriterion criterion, std::span<const task_t> task_of_class, task_t n_tasks)
    : criterion_(criterion),
      group_of_class_(task_of_class.begin(), task_of_class.end()),
      classes_(task_of_class.size()),
      groups_(criterion == TaskCriterion::concat ? 1 : n_tasks),
      tournament_(groups_.size()) {
  if (criterion == TaskCriterion::concat) std::ranges::fill(group_of_class_, task_t{0});
  // move() must not allocate.
  changed_classes_.reserve(classes_.size());
  changed_groups_.reserve(groups_.size());
  scanned_groups_.reserve(groups_.size());
}

void InformationGain::enter(const ClassTotals& totals) {
  begin_scan();
  for (const task_t group : present_groups_) groups_[group].total = 0.0;
  present_groups_.clear();
  for (const std::uint32_t label : totals.classes()) {
    Class& own = classes_[label];
    own.total = totals.weight(label);
    own.whole = x_log_x(own.total);
    Group& group = groups_[group_of_class_[label]];
    if (group.total == 0.0) present_groups_.push_back(group_of_class_[label]);
    group.total += own.total;
  }
  weight_ = totals.weight();
  for (const task_t group : present_groups_) groups_[group].whole = x_log_x(groups_[group].total);
}

void InformationGain::begin_scan() noexcept {
  ++scan_;
  if (criterion_ == TaskCriterion::max)
    for (const task_t group : scanned_groups_) tournament_.set(group, 0.0);
  scanned_groups_.clear();
  changed_classes_.clear();
  changed_groups_.clear();
  information_ = sum_ = 0.0;
}

void InformationGain::move(const LabelledRow& row) noexcept {
  Class& own = classes_[row.label];
  const task_t group = group_of_class_[row.label];
  Group& all = groups_[group];
  if (all.scan != scan_) {
    all.scan = scan_;
    all.moved = all.classes = all.information = 0.0;
    all.has_changed = false;
    scanned_groups_.push_back(group);
  }
  if (own.scan != scan_) {
    own.scan = scan_;
    own.moved = 0.0;
    own.sides = own.whole;
    own.has_changed = false;
  }
  own.moved += row.weight;
  all.moved += row.weight;
  if (!own.has_changed) {
    own.has_changed = true;
    changed_classes_.push_back(row.label);
  }
  if (!all.has_changed) {
    all.has_changed = true;
    changed_groups_.push_back(group);
  }
}

TaskGain InformationGain::gain_of_scan() noexcept {
  for (const std::uint32_t label : changed_classes_) {
    Class& own = classes_[label];
    const double sides = x_log_x(own.moved) + x_log_x(own.total - own.moved);
    groups_[group_of_class_[label]].classes += sides - own.sides;
    own.sides = sides;
    own.has_changed = false;
  }
  for (const task_t group : changed_groups_) {
    Group& own = groups_[group];
    const double information = own.whole - x_log_x(own.moved) - x_log_x(own.total - own.moved) + own.classes;
    information_ += information - own.information;
    sum_ += (information - own.information) / own.total;
    own.information = information;
    own.has_changed = false;
    if (criterion_ == TaskCriterion::max) tournament_.set(group, information / own.total);
  }
  changed_classes_.clear();
  changed_groups_.clear();
  const float joint = as_gain(information_ / weight_);
  switch (criterion_) {
    case TaskCriterion::sum: return {as_gain(sum_), 0.0f};
    case TaskCriterion::max: return {as_gain(tournament_.largest()), joint};
    default: return {joint, 0.0f};
  }
}

}  // namespace mtboost
