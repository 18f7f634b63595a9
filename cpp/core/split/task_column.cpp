// SPDX-License-Identifier: Apache-2.0
#include "split/task_column.hpp"

#include <algorithm>
#include <numbers>
#include <utility>

#include "base/require.hpp"
#include "split/unseen_values.hpp"

namespace mtboost {
namespace {

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
  const auto has_rows = sorted_with_rows(bins);
  const auto n_tasks = static_cast<std::size_t>(std::ranges::count(has_rows, 1));
  // Rounded to float, as every S is: digits below are noise of the sums and may not overrule the tie rules.
  split.score = static_cast<float>(split.gain - price_ * gain_by_chance(n_tasks));
  if (split.score <= 0.0) return {};
  const auto n_bins = of_tasks_->category_order().size();  // the slot after them is that of missing values
  if (!lists_left_)
    send_unseen(std::span(has_rows).first(n_bins), false, split.left.hessian >= split.right.hessian, split);
  return split;
}

std::vector<std::uint8_t> TaskColumnScan::sorted_with_rows(std::span<const GradientSums> bins) const {
  std::vector<GradientSums> sorted(bins.size());
  for (const bin_t bin : of_tasks_->category_order()) sorted[bin] = bins[bin];
  return bins_with_rows(sorted);
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
