// SPDX-License-Identifier: Apache-2.0
#include "split/xgboost_scan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mtboost {
namespace {

// Cuts below this gain are noise: XGBoost's kRtEps.
constexpr float kMinGain = 1e-6f;

// A bin that no row is in: the cut behind it is the one before it.
bool is_empty(const GradientSums& bin) noexcept { return bin.gradient == 0.0 && bin.hessian == 0.0; }

}  // namespace

XgboostScan::XgboostScan(const BinnedMatrix& matrix, const XgboostParams& params)
    : matrix_(matrix),
      arithmetic_(params),
      min_gain_(params.min_split_loss),
      max_cat_to_onehot_(params.max_cat_to_onehot),
      max_cat_threshold_(params.max_cat_threshold),
      monotone_signs_(params.monotone_constraints) {
  monotone_signs_.resize(matrix.n_features(), 0);
}

Split XgboostScan::best_cut(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) {
  Candidate best{};
  for_each_cut(feature, bins, node, /* repeats: */ false, [&](const Candidate& candidate) {
    if (candidate.gain > best.gain) best = candidate;
  });
  if (best.gain == 0.0) return {};
  return {best.gain, best.gain, best.cut, best.order, best.left, best.right, 0, listed_bins(best.cut, category_order_)};
}

void XgboostScan::list_cuts(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                            std::vector<Candidate>& cuts) {
  for_each_cut(feature, bins, node, /* repeats: */ true,
               [&](const Candidate& candidate) { cuts.push_back(candidate); });
}

void XgboostScan::add_gains(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node,
                            Gains& gains) {
  const auto bins = slots.first(matrix_.cuts().n_bins(feature));
  const auto gain_of = [&](const GradientSums& left, const GradientSums& right) {
    const float gain = admissible_gain(left, right, feature, node);
    return std::isnan(gain) ? 0.0 : static_cast<double>(gain);
  };
  own_gains_.assign(bins.size() + 1, 0.0);
  GradientSums left;
  for (bin_t bin = 0; bin < bins.size(); ++bin) {
    left += bins[bin];
    own_gains_[bin + 1] = is_empty(bins[bin]) ? own_gains_[bin] : gain_of(left, node.sums - left);
  }
  const bool has_missing = !(left == node.sums);
  for (std::size_t position = 0; position < own_gains_.size(); ++position) {
    gains.missing_right[position] += own_gains_[position];
    if (!has_missing) gains.missing_left[position] += own_gains_[position];
  }
  if (!has_missing) return;
  GradientSums right;
  double gain = 0.0;
  for (auto bin = static_cast<bin_t>(bins.size()); bin-- > 0;) {
    right += bins[bin];
    if (!is_empty(bins[bin])) gain = gain_of(node.sums - right, right);
    gains.missing_left[bin] += gain;
  }
}

Split XgboostScan::cut_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
                          bool default_left) {
  Split found, other_way;
  for_each_cut(feature, bins, node, /* repeats: */ true, [&](const Candidate& cut) {
    if (cut.cut.position != position) return;
    (cut.cut.default_left == default_left ? found : other_way) = {cut.gain, cut.gain,  cut.cut, cut.order,
                                                                  cut.left, cut.right, 0,       {}};
  });
  if (has_missing_ || !other_way.is_found()) return found;
  other_way.cut.default_left = default_left;
  return other_way;
}

std::vector<bin_t> XgboostScan::listed_bins(const Cut& cut, std::span<const bin_t> category_order) const {
  switch (cut.kind) {
    case CutKind::partition: return {category_order.begin(), category_order.begin() + cut.position};
    case CutKind::one_hot: return {cut.position};
    default: return {};
  }
}

CutKind XgboostScan::kind(feature_t feature) const noexcept {
  if (!matrix_.cuts().is_categorical(feature)) return CutKind::ordered;
  return matrix_.cuts().n_bins(feature) < max_cat_to_onehot_ ? CutKind::one_hot : CutKind::partition;
}

template <typename Visit>
void XgboostScan::for_each_cut(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node,
                               bool repeats, Visit&& visit) {
  const auto bins = slots.first(matrix_.cuts().n_bins(feature));
  order_ = 0;
  switch (kind(feature)) {
    case CutKind::ordered: return scan_ordered(feature, bins, node, repeats, visit);
    case CutKind::partition: return scan_partition(feature, bins, node, visit);
    case CutKind::one_hot: return scan_one_hot(feature, bins, node, visit);
  }
}

float XgboostScan::admissible_gain(const GradientSums& left, const GradientSums& right, feature_t feature,
                                   const NodeSums& node) const noexcept {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  if (!arithmetic_.may_split(left, right)) return kNone;
  const float gain =
      arithmetic_.split_gain(left, right, node.bounds, monotone_signs_[feature], static_cast<float>(node.gain));
  // Written so that NaN (λ = 0 and a side without hessian) is refused.
  if (!(gain > kMinGain) || gain < min_gain_ || gain == std::numeric_limits<float>::infinity()) return kNone;
  return gain;
}

template <typename Visit>
void XgboostScan::consider(const GradientSums& left, const GradientSums& right, const Cut& cut, const NodeSums& node,
                           Visit&& visit) {
  const std::uint32_t order = order_++;
  const float gain = admissible_gain(left, right, cut.feature, node);
  if (!std::isnan(gain)) visit(Candidate{gain, order, cut, left, right});
}

template <typename Visit>
void XgboostScan::scan_ordered(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               bool repeats, Visit&& visit) {
  const auto n_bins = static_cast<bin_t>(bins.size());
  // In small nodes most bins are empty.
  const auto is_repeat = [&](bin_t bin) { return !repeats && is_empty(bins[bin]); };
  GradientSums left;
  for (bin_t bin = 0; bin < n_bins; ++bin) {
    left += bins[bin];
    if (is_repeat(bin))
      ++order_;
    else
      consider(left, node.sums - left, Cut{feature, CutKind::ordered, bin + 1, false}, node, visit);
  }
  has_missing_ = !(left == node.sums);
  if (!has_missing_) return;
  GradientSums right;
  for (bin_t bin = n_bins; bin-- > 0;) {
    right += bins[bin];
    if (is_repeat(bin))
      ++order_;
    else
      consider(node.sums - right, right, Cut{feature, CutKind::ordered, bin, true}, node, visit);
  }
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
    consider(node.sums - right, right, Cut{feature, CutKind::partition, i + 1, true, false}, node, visit);
  }
  GradientSums left;
  for (bin_t i = n_bins - 1; i + n_scanned > n_bins; --i) {
    left += bins[category_order_[i]];
    consider(left, node.sums - left, Cut{feature, CutKind::partition, i, false, false}, node, visit);
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
    consider(node.sums - right, right, Cut{feature, CutKind::one_hot, bin, true, false}, node, visit);
    right += missing;
    consider(node.sums - right, right, Cut{feature, CutKind::one_hot, bin, false, false}, node, visit);
  }
}

}  // namespace mtboost
