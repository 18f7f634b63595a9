// SPDX-License-Identifier: Apache-2.0
#include "split/xgboost_scan.hpp"

#include <algorithm>

#include "base/vector_clones.hpp"

namespace mtboost {

XgboostScan::XgboostScan(const BinnedMatrix& matrix, const XgboostParams& params)
    : matrix_(matrix),
      arithmetic_(params),
      min_gain_(params.min_split_loss),
      max_cat_to_onehot_(params.max_cat_to_onehot),
      max_cat_threshold_(params.max_cat_threshold),
      monotone_signs_(params.monotone_constraints) {
  monotone_signs_.resize(matrix.n_features(), 0);
}

Split XgboostScan::best_split(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node) {
  const auto bins = present(feature, slots);
  Candidate best{};
  if (kind(feature) == SplitKind::ordered)
    best = best_ordered_split(feature, bins, node);
  else
    for_each_category_split(feature, bins, node, [&](const Candidate& candidate) {
      if (candidate.gain > best.gain) best = candidate;
    });
  if (best.gain == 0.0) return {};
  return {best.gain, best.gain,  best.rule, best.order,
          best.left, best.right, 0,         listed_bins(best.rule, category_order_)};
}

void XgboostScan::list_candidates(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node,
                                  std::vector<Candidate>& candidates) {
  const auto bins = present(feature, slots);
  if (kind(feature) != SplitKind::ordered)
    return for_each_category_split(feature, bins, node,
                                   [&](const Candidate& candidate) { candidates.push_back(candidate); });
  for_each_direction(feature, bins, node, [&](Direction direction) {
    for (bin_t step = 0; step < bins.size(); ++step)
      if (gains_[step] > 0.0f) candidates.push_back(split_after(direction, step, feature, node));
  });
}

void XgboostScan::add_gains(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node,
                            Gains& gains) {
  const auto bins = present(feature, slots);
  bool has_missing = false;
  for_each_direction(feature, bins, node, [&](Direction direction) {
    if (direction == Direction::missing_right) {
      for (std::size_t step = 0; step < bins.size(); ++step) gains.missing_right[step + 1] += gains_[step];
    } else {
      has_missing = true;
      for (std::size_t step = 0; step < bins.size(); ++step) gains.missing_left[bins.size() - 1 - step] += gains_[step];
    }
  });
  if (has_missing) return;
  for (std::size_t step = 0; step < bins.size(); ++step) gains.missing_left[step + 1] += gains_[step];
}

Split XgboostScan::split_at(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node,
                            bin_t position, bool default_left) {
  const auto bins = present(feature, slots);
  const auto n_bins = static_cast<bin_t>(bins.size());
  Split found, other_way;
  bool has_missing = false;
  for_each_direction(feature, bins, node, [&](Direction direction) {
    const bool is_left = direction == Direction::missing_left;
    has_missing |= is_left;
    if (position == (is_left ? n_bins : 0)) return;
    const bin_t step = is_left ? n_bins - 1 - position : position - 1;
    if (gains_[step] == 0.0f) return;
    const Candidate candidate = split_after(direction, step, feature, node);
    Split& split = is_left == default_left ? found : other_way;
    split = {candidate.gain, candidate.gain, candidate.rule, candidate.order, candidate.left, candidate.right, 0, {}};
  });
  if (has_missing || !other_way.is_found()) return found;
  other_way.rule.default_left = default_left;
  return other_way;
}

std::vector<bin_t> XgboostScan::listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const {
  switch (rule.kind) {
    case SplitKind::partition: return {category_order.begin(), category_order.begin() + rule.position};
    case SplitKind::one_hot: return {rule.position};
    default: return {};
  }
}

SplitKind XgboostScan::kind(feature_t feature) const noexcept {
  if (!matrix_.edges().is_categorical(feature)) return SplitKind::ordered;
  return matrix_.edges().n_bins(feature) < max_cat_to_onehot_ ? SplitKind::one_hot : SplitKind::partition;
}

GradientSums XgboostScan::sum_steps(Direction direction, std::span<const GradientSums> bins) {
  const std::size_t n_bins = bins.size();
  near_gradients_.resize(n_bins);
  near_hessians_.resize(n_bins);
  gains_.resize(n_bins);
  double gradient = 0.0, hessian = 0.0;  // local, because a store below could change members
  for (std::size_t step = 0; step < n_bins; ++step) {
    const GradientSums& bin = bins[direction == Direction::missing_right ? step : n_bins - 1 - step];
    near_gradients_[step] = gradient += bin.gradient;
    near_hessians_[step] = hessian += bin.hessian;
  }
  return {gradient, hessian};
}

MTBOOST_VECTOR_CLONES
void XgboostScan::find_gains(Direction direction, feature_t feature, const NodeSums& node) noexcept {
  arithmetic_.split_gains(near_gradients_, near_hessians_, direction == Direction::missing_right, node,
                          monotone_signs_[feature], gains_);
  float best = 0.0f;
  const float least = min_gain_;
  const std::size_t n_steps = gains_.size();
  float* const gains = gains_.data();
#pragma omp simd reduction(max : best)
  for (std::size_t step = 0; step < n_steps; ++step) {
    const float gain = gains[step];
    const float kept = is_admissible(gain, least) ? gain : 0.0f;
    gains[step] = kept;
    best = kept > best ? kept : best;
  }
  best_gain_ = best;
}

Candidate XgboostScan::split_after(Direction direction, bin_t step, feature_t feature,
                                   const NodeSums& node) const noexcept {
  const auto n_bins = static_cast<bin_t>(gains_.size());
  const GradientSums near{near_gradients_[step], near_hessians_[step]}, far = node.sums - near;
  if (direction == Direction::missing_right)
    return {gains_[step], step, SplitRule{feature, SplitKind::ordered, step + 1, false}, near, far};
  return {gains_[step], n_bins + step, SplitRule{feature, SplitKind::ordered, n_bins - 1 - step, true}, far, near};
}

template <typename Visit>
void XgboostScan::for_each_direction(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                                     Visit&& visit) {
  const bool has_missing = !(sum_steps(Direction::missing_right, bins) == node.sums);
  find_gains(Direction::missing_right, feature, node);
  visit(Direction::missing_right);
  if (!has_missing) return;
  sum_steps(Direction::missing_left, bins);
  find_gains(Direction::missing_left, feature, node);
  visit(Direction::missing_left);
}

Candidate XgboostScan::best_ordered_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) {
  Candidate best{};
  for_each_direction(feature, bins, node, [&](Direction direction) {
    if (best_gain_ <= best.gain) return;
    const auto first = std::ranges::find(gains_, best_gain_);
    best = split_after(direction, static_cast<bin_t>(first - gains_.begin()), feature, node);
  });
  return best;
}

template <typename Visit>
void XgboostScan::for_each_category_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                                          Visit&& visit) {
  order_ = 0;
  if (kind(feature) == SplitKind::partition)
    scan_partition(feature, bins, node, visit);
  else
    scan_one_hot(feature, bins, node, visit);
}

template <typename Visit>
void XgboostScan::consider(const GradientSums& left, const GradientSums& right, const SplitRule& rule,
                           const NodeSums& node, Visit&& visit) {
  const std::uint32_t order = order_++;
  const float gain = arithmetic_.split_gain(left, right, node, monotone_signs_[rule.feature]);
  if (is_admissible(gain, min_gain_)) visit(Candidate{gain, order, rule, left, right});
}

template <typename Visit>
void XgboostScan::scan_partition(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                                 Visit&& visit) {
  const auto n_bins = static_cast<bin_t>(bins.size());
  category_order_.resize(n_bins);
  std::vector<float> weights(n_bins);
  for (bin_t bin = 0; bin < n_bins; ++bin) {
    category_order_[bin] = bin;
    weights[bin] = arithmetic_.weight(bins[bin]);
  }
  std::stable_sort(category_order_.begin(), category_order_.end(),
                   [&](bin_t a, bin_t b) { return weights[a] < weights[b]; });
  const bin_t n_scanned = std::min(max_cat_threshold_, n_bins);
  GradientSums right;
  for (bin_t i = 0; i + 1 < n_scanned; ++i) {
    right += bins[category_order_[i]];
    consider(node.sums - right, right, SplitRule{feature, SplitKind::partition, i + 1, true, false}, node, visit);
  }
  GradientSums left;
  for (bin_t i = n_bins - 1; i + n_scanned > n_bins; --i) {
    left += bins[category_order_[i]];
    consider(left, node.sums - left, SplitRule{feature, SplitKind::partition, i, false, false}, node, visit);
  }
}

template <typename Visit>
void XgboostScan::scan_one_hot(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               Visit&& visit) {
  GradientSums present;
  for (const GradientSums& bin : bins) present += bin;
  const GradientSums missing = node.sums - present;
  for (bin_t bin = 0; bin < bins.size(); ++bin) {
    GradientSums right = bins[bin];
    consider(node.sums - right, right, SplitRule{feature, SplitKind::one_hot, bin, true, false}, node, visit);
    right += missing;
    consider(node.sums - right, right, SplitRule{feature, SplitKind::one_hot, bin, false, false}, node, visit);
  }
}

}  // namespace mtboost
