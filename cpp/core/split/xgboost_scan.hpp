// SPDX-License-Identifier: Apache-2.0
// Lists the cuts of one feature in one node, in XGBoost's order, with the gain of the pooled sums.
//   ordered:   missing right, cuts ascending; then, if the node has missing values, missing left, cuts descending
//   partition: categories sorted by weight; missing left, right side growing; then missing right, left side growing
//   one_hot:   category by category, missing left then right
// Listed categories are side A and go right. The node has missing values of a feature iff its bins do not add up to the
// node's sums exactly, which is XGBoost's test; bits therefore matter here. Naive twin: tests/oracle/naive.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "binning/binned_matrix.hpp"
#include "split/feature_scan.hpp"
#include "split/xgboost_arithmetic.hpp"

namespace mtboost {

class XgboostScan final : public FeatureScan {
 public:
  XgboostScan(const BinnedMatrix& matrix, const XgboostParams& params);

  Split best_cut(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) override;
  void list_cuts(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                 std::vector<Candidate>& cuts) override;
  void add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Gains& gains) override;
  Split cut_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
               bool default_left) override;
  std::vector<bin_t> listed_bins(const Cut& cut, std::span<const bin_t> category_order) const override;
  const FreeGain& free_gain() const noexcept override { return arithmetic_.free_gain(); }

 private:
  CutKind kind(feature_t feature) const noexcept;
  // Call visit(const Candidate&) for each admissible cut: gain > kMinGain and >= min_split_loss, both children at least
  // min_child_weight. Without repeats the cut behind an empty bin, whose gain is that of the cut before, is left out.
  template <typename Visit>
  void for_each_cut(feature_t feature, std::span<const GradientSums> slots, const NodeSums& node, bool repeats,
                    Visit&& visit);
  template <typename Visit>
  void scan_ordered(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bool repeats,
                    Visit&& visit);
  // NaN: not admissible.
  float admissible_gain(const GradientSums& left, const GradientSums& right, feature_t feature,
                        const NodeSums& node) const noexcept;
  template <typename Visit>
  void scan_partition(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void scan_one_hot(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void consider(const GradientSums& left, const GradientSums& right, const Cut& cut, const NodeSums& node,
                Visit&& visit);

  const BinnedMatrix& matrix_;
  XgboostArithmetic arithmetic_;
  float min_gain_;
  bin_t max_cat_to_onehot_;
  bin_t max_cat_threshold_;
  std::vector<int> monotone_signs_;
  std::uint32_t order_ = 0;
  bool has_missing_ = false;  // whether the node has missing values of the ordered feature scanned last
  std::vector<double> own_gains_;
};

}  // namespace mtboost
