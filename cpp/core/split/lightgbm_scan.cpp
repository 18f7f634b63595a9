// SPDX-License-Identifier: Apache-2.0
#include "split/lightgbm_scan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace mtboost {

using Missing = LightgbmBins::Missing;

int fewest_rows(const LightgbmParams& params) noexcept {
  if (params.path_smooth > kLightgbmEpsilon) return std::max(params.min_data_in_leaf, 2);
  if (params.min_data_in_leaf <= 0 && params.min_sum_hessian_in_leaf <= kLightgbmEpsilon) return 1;
  return params.min_data_in_leaf;
}

LightgbmScan::LightgbmScan(const BinnedMatrix& matrix, const LightgbmParams& params)
    : matrix_(matrix),
      params_(params),
      arithmetic_(params),
      free_gain_(params.lambda_l2, params.lambda_l1, false),
      fewest_rows_(fewest_rows(params)) {}

Split LightgbmScan::best_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& sums) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  Candidate best[2]{{kNone, 0, {}, {}, {}}, {kNone, 0, {}, {}, {}}};
  const Node node = for_each_split(feature, bins, sums, [&](int scan, const Candidate& candidate) {
    if (candidate.gain > best[scan].gain) best[scan] = candidate;
  });
  // The second scan has to beat what subtracting and adding the floor leaves of the first one's gain.
  const bool is_second = best[1].gain > (best[0].gain - node.floor) + node.floor;
  const Candidate& chosen = best[is_second ? 1 : 0];
  if (chosen.gain == kNone) return {};
  const double gain = scaled(chosen.gain - node.floor, node);
  return {gain,        gain,         chosen.rule,   chosen.order,
          chosen.left, chosen.right, chosen.n_left, listed_bins(chosen.rule, category_order_)};
}

void LightgbmScan::list_candidates(feature_t feature, std::span<const GradientSums> bins, const NodeSums& sums,
                                   std::vector<Candidate>& candidates) {
  const std::size_t first = candidates.size();
  const Node node =
      for_each_split(feature, bins, sums, [&](int, const Candidate& candidate) { candidates.push_back(candidate); });
  for (std::size_t i = first; i < candidates.size(); ++i)
    candidates[i].gain = scaled(candidates[i].gain - node.floor, node);
  std::erase_if(candidates, [](const Candidate& candidate) { return !(candidate.gain > 0.0); });
}

void LightgbmScan::add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& sums,
                             Gains& gains) {
  candidates_.clear();
  list_candidates(feature, bins, sums, candidates_);
  for (const Candidate& candidate : candidates_)
    (candidate.rule.default_left ? gains.missing_left : gains.missing_right)[candidate.rule.position] += candidate.gain;
}

Split LightgbmScan::split_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& sums,
                             bin_t position, bool default_left) {
  candidates_.clear();
  list_candidates(feature, bins, sums, candidates_);
  for (const Candidate& candidate : candidates_)
    if (candidate.rule.position == position && candidate.rule.default_left == default_left)
      return {candidate.gain, candidate.gain,  candidate.rule,   candidate.order,
              candidate.left, candidate.right, candidate.n_left, {}};
  return {};
}

std::vector<bin_t> LightgbmScan::listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const {
  switch (rule.kind) {
    case SplitKind::partition: {
      const auto middle = category_order.begin() + rule.position;
      return rule.a_goes_left ? std::vector(category_order.begin(), middle) : std::vector(middle, category_order.end());
    }
    case SplitKind::one_hot: return {rule.position};
    default: return {};
  }
}

// Factor of feature_contri, and of monotone_penalty where the feature is constrained: 1 + ε without a penalty.
double LightgbmScan::scaled(double gain, const Node& node) const noexcept {
  if (!params_.feature_contri.empty()) gain *= params_.feature_contri[node.feature];
  if (node.direction == 0) return gain;
  const double penalty = params_.monotone_penalty;
  const double depth = node.sums->depth;
  if (penalty >= depth + 1.0) return gain * kLightgbmEpsilon;
  if (penalty <= 1.0) return gain * (1.0 - penalty / std::pow(2.0, depth) + kLightgbmEpsilon);
  return gain * (1.0 - std::pow(2.0, penalty - 1.0 - depth) + kLightgbmEpsilon);
}

template <typename Visit>
LightgbmScan::Node LightgbmScan::for_each_split(feature_t feature, std::span<const GradientSums> bins,
                                                const NodeSums& sums, Visit&& visit) {
  order_ = 0;
  has_seen_gain_ = false;
  const LightgbmBins& of_feature = matrix_.edges().lightgbm(feature);
  Node node{feature,
            &sums,
            {sums.sums.gradient, sums.sums.hessian + 2 * kLightgbmEpsilon, sums.n_rows},
            0.0,
            params_.lambda_l2,
            0,
            0.0};
  node.rows_per_hessian = static_cast<double>(sums.n_rows) / node.whole.hessian;
  if (of_feature.is_categorical) {
    node.floor = arithmetic_.is_smoothed() ? arithmetic_.gain_of_weight(node.whole, sums.weight, node.l2)
                                           : arithmetic_.gain(node.whole, 0.0, node.l2);
    node.floor += params_.min_gain_to_split;
    if (of_feature.n_bins <= static_cast<bin_t>(std::max(params_.max_cat_to_onehot, 0))) {
      scan_one_hot(node, bins, visit);
    } else {
      node.l2 += params_.cat_l2;
      scan_partition(node, bins, visit);
    }
  } else {
    if (feature < params_.monotone_constraints.size()) node.direction = params_.monotone_constraints[feature];
    node.floor = arithmetic_.gain(node.whole, sums.weight, node.l2) + params_.min_gain_to_split;
    scan_ordered(node, bins, visit);
  }
  return node;
}

template <typename Visit>
void LightgbmScan::gains(const Node& node, int scan, double gain, const Side& left, const SplitRule& rule,
                         Visit&& visit) {
  const std::uint32_t order = order_++;
  if (gain <= node.floor) return;
  has_seen_gain_ = true;  // also where it is NaN: a side without gradient and hessian
  if (std::isnan(gain)) return;
  const GradientSums left_sums{left.gradient, left.hessian};
  visit(scan, Candidate{gain, order, rule, left_sums, GradientSums{node.whole.gradient, node.whole.hessian} - left_sums,
                        left.n_rows});
}

template <typename Visit>
bool LightgbmScan::consider(const Node& node, int scan, const Side& near, bool is_near_left, const SplitRule& rule,
                            Visit&& visit) {
  const double lightest = params_.min_sum_hessian_in_leaf;
  if (near.n_rows < fewest_rows_ || near.hessian < lightest) return true;
  const Side far{node.whole.gradient - near.gradient, node.whole.hessian - near.hessian,
                 node.whole.n_rows - near.n_rows};
  if (far.n_rows < fewest_rows_ || far.hessian < lightest) return false;
  const Side& left = is_near_left ? near : far;
  const Side& right = is_near_left ? far : near;
  gains(node, scan, arithmetic_.gain(left, right, *node.sums, node.l2, node.direction), left, rule, visit);
  return true;
}

template <typename Visit>
void LightgbmScan::scan_ordered(const Node& node, std::span<const GradientSums> bins, Visit&& visit) {
  const LightgbmBins& of_feature = matrix_.edges().lightgbm(node.feature);
  const bin_t n_present = of_feature.n_present();
  const bool goes_both_ways = of_feature.n_bins > 2 && of_feature.missing != Missing::none;
  const auto split_at = [&](bin_t position, bool default_left) {
    return SplitRule{node.feature, SplitKind::ordered, position, default_left};
  };

  Side right{0.0, kLightgbmEpsilon, 0};
  if (of_feature.missing == Missing::nan && !goes_both_ways) {  // one bin of values, one of NaN
    if (n_present == 0 || bins.size() <= n_present) return;
    add(bins[n_present], node, right);
    consider(node, 0, right, false, split_at(n_present, false), visit);
    return;
  }
  for (bin_t slot = n_present; slot-- > 0 && of_feature.number(slot) > 0;) {
    add(bins[slot], node, right);
    if (!consider(node, 0, right, false, split_at(slot, true), visit)) break;
  }
  if (!goes_both_ways) return;

  Side left{0.0, kLightgbmEpsilon, 0};
  bin_t slot = 0;
  if (of_feature.frequent == 0) {  // LightGBM keeps no sums of this bin
    if (of_feature.missing == Missing::nan) {
      left = {node.whole.gradient, node.whole.hessian - kLightgbmEpsilon, node.whole.n_rows};
      for (bin_t other = 1; other < bins.size(); ++other) {
        left.gradient -= bins[other].gradient;
        left.hessian -= bins[other].hessian;
        left.n_rows -= estimated_rows(bins[other].hessian, node);
      }
      if (!consider(node, 1, left, true, split_at(1, false), visit)) return;
    }
    if (of_feature.number(slot) == 0) ++slot;
  }
  for (; slot < n_present && of_feature.number(slot) + 1 < of_feature.n_bins; ++slot) {
    add(bins[slot], node, left);
    if (!consider(node, 1, left, true, split_at(slot + 1, false), visit)) return;
  }
}

template <typename Visit>
void LightgbmScan::scan_one_hot(const Node& node, std::span<const GradientSums> bins, Visit&& visit) {
  const double lightest = params_.min_sum_hessian_in_leaf;
  for (bin_t slot = 0; slot < matrix_.edges().lightgbm(node.feature).n_present(); ++slot) {
    const auto& [gradient, hessian] = bins[slot];
    const std::int64_t n_left = estimated_rows(hessian, node);
    const Side left{gradient, hessian + kLightgbmEpsilon, n_left};
    const Side right{node.whole.gradient - gradient, node.whole.hessian - hessian - kLightgbmEpsilon,
                     node.whole.n_rows - n_left};
    if (left.n_rows < fewest_rows_ || hessian < lightest || right.n_rows < fewest_rows_ || right.hessian < lightest)
      continue;
    gains(node, 0, arithmetic_.gain(right, left, *node.sums, node.l2, 0), left,
          SplitRule{node.feature, SplitKind::one_hot, slot, false}, visit);
  }
}

template <typename Visit>
void LightgbmScan::scan_partition(const Node& node, std::span<const GradientSums> bins, Visit&& visit) {
  category_order_.clear();
  for (bin_t slot = 0; slot < matrix_.edges().lightgbm(node.feature).n_present(); ++slot)
    if (static_cast<double>(estimated_rows(bins[slot].hessian, node)) >= params_.cat_smooth)
      category_order_.push_back(slot);
  const auto weight = [&](bin_t slot) { return bins[slot].gradient / (bins[slot].hessian + params_.cat_smooth); };
  std::stable_sort(category_order_.begin(), category_order_.end(),
                   [&](bin_t a, bin_t b) { return weight(a) < weight(b); });
  const auto n_used = static_cast<bin_t>(category_order_.size());
  const bin_t most = std::min(static_cast<bin_t>(std::max(params_.max_cat_threshold, 0)), (n_used + 1) / 2);
  const double lightest = params_.min_sum_hessian_in_leaf;
  for (const bool from_lowest : {true, false}) {
    Side left{0.0, kLightgbmEpsilon, 0};
    std::int64_t n_group = 0;
    for (bin_t i = 0; i < most; ++i) {
      const GradientSums& bin = bins[category_order_[from_lowest ? i : n_used - 1 - i]];
      add(bin, node, left);
      n_group += estimated_rows(bin.hessian, node);
      const Side right{node.whole.gradient - left.gradient, node.whole.hessian - left.hessian,
                       node.whole.n_rows - left.n_rows};
      if (left.n_rows < fewest_rows_ || left.hessian < lightest) continue;
      if (right.n_rows < std::max<std::int64_t>(fewest_rows_, params_.min_data_per_group) || right.hessian < lightest)
        break;
      if (n_group < params_.min_data_per_group) continue;
      n_group = 0;
      const SplitRule rule{node.feature, SplitKind::partition, from_lowest ? i + 1 : n_used - 1 - i, false,
                           from_lowest};
      gains(node, 0, arithmetic_.gain(left, right, *node.sums, node.l2, 0), left, rule, visit);
    }
  }
}

}  // namespace mtboost
