// SPDX-License-Identifier: Apache-2.0
// Lists the cuts of one feature in one node, in XGBoost's order, with the gain of the pooled sums.
//   ordered:   missing right, cuts ascending; then, if the node has missing values, missing left, cuts descending
//   partition: categories sorted by weight; missing left, right side growing; then missing right, left side growing
//   one_hot:   category by category, missing left then right
// The node has missing values of a feature iff its bins do not add up to the node's sums exactly, which is XGBoost's
// test; bits therefore matter here. Naive twin: tests/oracle/naive.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "split/leaf_arithmetic.hpp"
#include "split/split.hpp"

namespace mtboost {

// What a scan needs to know of a node.
struct NodeSums {
  GradientSums sums;
  float gain = 0.0f;
  WeightBounds bounds;
};

struct Candidate {
  float gain;
  std::uint32_t order;
  Cut cut;
  GradientSums left, right;
};

// One per thread: keeps its buffers from scan to scan.
class FeatureScan {
 public:
  FeatureScan(const BinnedMatrix& matrix, const GrowParams& params);

  // Calls visit(const Candidate&) for each admissible cut: gain > kMinGain and >= min_split_loss, both children at least
  // min_child_weight. `bins` are the sums of the feature's bins in the node.
  template <typename Visit>
  void for_each_cut(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);

  CutKind kind(feature_t feature) const noexcept;

  // After a partition scan: the bins in ascending order of weight.
  std::span<const bin_t> category_order() const noexcept { return category_order_; }

  const XgboostArithmetic& arithmetic() const noexcept { return arithmetic_; }

 private:
  template <typename Visit>
  void scan_ordered(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void scan_partition(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void scan_one_hot(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void consider(const GradientSums& left, const GradientSums& right, const Cut& cut, const NodeSums& node, Visit&& visit);

  const BinnedMatrix& matrix_;
  XgboostArithmetic arithmetic_;
  float min_gain_;
  bin_t max_cat_to_onehot_;
  bin_t max_cat_threshold_;
  std::vector<int> monotone_signs_;
  std::vector<bin_t> category_order_;
  std::uint32_t order_ = 0;
};

// The bins that go right; empty for ordered cuts. category_order: that of the scan which listed the cut.
std::vector<bin_t> right_bins(const Cut& cut, std::span<const bin_t> category_order);

inline CutKind FeatureScan::kind(feature_t feature) const noexcept {
  if (!matrix_.cuts().is_categorical(feature)) return CutKind::ordered;
  return matrix_.cuts().n_bins(feature) < max_cat_to_onehot_ ? CutKind::one_hot : CutKind::partition;
}

template <typename Visit>
void FeatureScan::for_each_cut(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               Visit&& visit) {
  order_ = 0;
  switch (kind(feature)) {
    case CutKind::ordered: return scan_ordered(feature, bins, node, visit);
    case CutKind::partition: return scan_partition(feature, bins, node, visit);
    case CutKind::one_hot: return scan_one_hot(feature, bins, node, visit);
  }
}

template <typename Visit>
void FeatureScan::consider(const GradientSums& left, const GradientSums& right, const Cut& cut, const NodeSums& node,
                           Visit&& visit) {
  const std::uint32_t order = order_++;
  if (!arithmetic_.may_split(left, right)) return;
  const float gain = arithmetic_.split_gain(left, right, node.bounds, monotone_signs_[cut.feature], node.gain);
  // Written so that NaN (λ = 0 and a side without hessian) is refused.
  if (!(gain > kMinGain) || gain < min_gain_ || gain == std::numeric_limits<float>::infinity()) return;
  visit(Candidate{gain, order, cut, left, right});
}

template <typename Visit>
void FeatureScan::scan_ordered(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               Visit&& visit) {
  const auto n_bins = static_cast<bin_t>(bins.size());
  GradientSums left;
  for (bin_t bin = 0; bin < n_bins; ++bin) {
    left += bins[bin];
    consider(left, node.sums - left, Cut{feature, CutKind::ordered, bin + 1, false}, node, visit);
  }
  if (left == node.sums) return;  // no missing values here
  GradientSums right;
  for (bin_t bin = n_bins; bin-- > 0;) {
    right += bins[bin];
    consider(node.sums - right, right, Cut{feature, CutKind::ordered, bin, true}, node, visit);
  }
}

template <typename Visit>
void FeatureScan::scan_partition(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
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
    consider(node.sums - right, right, Cut{feature, CutKind::partition, i + 1, true}, node, visit);
  }
  GradientSums left;
  for (bin_t i = n_bins - 1; i + n_scanned > n_bins; --i) {
    left += bins[category_order_[i]];
    consider(left, node.sums - left, Cut{feature, CutKind::partition, i, false}, node, visit);
  }
}

template <typename Visit>
void FeatureScan::scan_one_hot(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               Visit&& visit) {
  GradientSums present;
  for (const GradientSums& bin : bins) present += bin;
  const GradientSums missing = node.sums - present;
  for (bin_t bin = 0; bin < bins.size(); ++bin) {
    GradientSums right = bins[bin];
    consider(node.sums - right, right, Cut{feature, CutKind::one_hot, bin, true}, node, visit);
    right += missing;
    consider(node.sums - right, right, Cut{feature, CutKind::one_hot, bin, false}, node, visit);
  }
}

}  // namespace mtboost
