// SPDX-License-Identifier: Apache-2.0
#include "split/task_column.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/require.hpp"

namespace mtboost {
namespace {

// What subtracting a sibling's sums leaves of a task that has no rows is less than this part of all sums.
constexpr double kRounding = 1e-9;

// In units of σ².
double gain_by_chance(std::size_t n_tasks) noexcept {
  const double n_further = n_tasks > 2 ? static_cast<double>(n_tasks - 2) : 0.0;
  return 1.0 + n_further * 2.0 / std::numbers::pi;
}

}  // namespace

TaskColumnScan::TaskColumnScan(feature_t column, double price, bool lists_left, std::unique_ptr<FeatureScan> of_tasks,
                               std::unique_ptr<FeatureScan> of_others)
    : column_(column),
      price_(price),
      lists_left_(lists_left),
      of_tasks_(std::move(of_tasks)),
      of_others_(std::move(of_others)),
      last_(of_others_.get()) {}

Split TaskColumnScan::best_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) {
  FeatureScan& scan = feature == column_ ? *of_tasks_ : *of_others_;
  last_ = &scan;
  Split split = scan.best_split(feature, bins, node);
  if (feature != column_ || !split.is_found()) return split;
  const auto n_present = find_present(bins);
  // Rounded to float, as every S is: digits below are noise of the sums and may not overrule the tie rules.
  split.score = static_cast<float>(split.gain - price_ * gain_by_chance(n_present));
  if (split.score <= 0.0) return {};
  if (!lists_left_) send_absent_to_heavier_side(split);
  return split;
}

// Tasks among those that the scan has sorted: LightGBM leaves small ones where missing values go.
std::size_t TaskColumnScan::find_present(std::span<const GradientSums> bins) {
  double gradient = 0.0, hessian = 0.0;
  for (const bin_t bin : of_tasks_->category_order()) {
    gradient += std::abs(bins[bin].gradient);
    hessian += std::abs(bins[bin].hessian);
  }
  is_present_.assign(bins.size(), 0);
  for (const bin_t bin : of_tasks_->category_order())
    is_present_[bin] = std::abs(bins[bin].gradient) > kRounding * gradient || bins[bin].hessian > kRounding * hessian;
  return static_cast<std::size_t>(std::ranges::count(is_present_, 1));
}

// Its mean is nearer to the node's, which is the best guess for a task of which nothing is known here. Listed go right.
void TaskColumnScan::send_absent_to_heavier_side(Split& split) const {
  split.rule.default_left = split.left.hessian >= split.right.hessian;
  std::erase_if(split.listed_bins, [&](bin_t bin) { return is_present_[bin] == 0; });
  if (split.rule.default_left) return;
  for (const bin_t bin : of_tasks_->category_order())
    if (is_present_[bin] == 0) split.listed_bins.push_back(bin);
}

void TaskColumnScan::list_candidates(feature_t, std::span<const GradientSums>, const NodeSums&,
                                     std::vector<Candidate>&) {
  ensure(false, "a score over tasks was asked to rank task splits");
}

void TaskColumnScan::add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               Gains& gains) {
  ensure(feature != column_, "a category was scanned as an ordered feature");
  of_others_->add_gains(feature, bins, node, gains);
}

Split TaskColumnScan::split_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               bin_t position, bool default_left) {
  ensure(feature != column_, "a category was scanned as an ordered feature");
  return of_others_->split_at(feature, bins, node, position, default_left);
}

std::vector<bin_t> TaskColumnScan::listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const {
  return last_->listed_bins(rule, category_order);
}

}  // namespace mtboost
