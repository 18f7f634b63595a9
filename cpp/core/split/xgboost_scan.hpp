// SPDX-License-Identifier: Apache-2.0
// Lists the splits of one feature in one node, in XGBoost's order, with the gain of the pooled sums.
//   ordered:   missing right, splits ascending; then, if the node has missing values, missing left, splits descending;
//              first the sums of all candidates, then their gains in one loop
//   partition: categories sorted by weight; missing left, right side growing; then missing right, left side growing
//   one_hot:   category by category, missing left then right
// Listed categories are side A and go right. The node has missing values of a feature iff its bins do not add up to the
// node's sums exactly, which is XGBoost's test; bits therefore matter here. Naive twin: tests/oracle/naive.py.
#pragma once

#include <cstdint>
#include <limits>
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

  Split best_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) override;
  void list_candidates(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                       std::vector<Candidate>& candidates) override;
  void add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Gains& gains) override;
  Split split_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
                 bool default_left) override;
  std::vector<bin_t> listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const override;
  const FreeGain& free_gain() const noexcept override { return arithmetic_.free_gain(); }

 private:
  // Splits below this gain are noise: XGBoost's kRtEps.
  static constexpr float kMinGain = 1e-6f;

  SplitKind kind(feature_t feature) const noexcept;
  std::span<const GradientSums> present(feature_t feature, std::span<const GradientSums> slots) const noexcept {
    return slots.first(matrix_.edges().n_bins(feature));
  }
  // Of the gain of a split. Written so that NaN (λ = 0 and a side without hessian) is refused.
  static bool is_admissible(float gain, float least) noexcept {
    return (gain > kMinGain) & (gain >= least) & (gain < std::numeric_limits<float>::infinity());
  }

  // ---- ordered: near_ and gains_ of one direction at a time
  // The steps of a direction add the bins to its near side: the left one, ascending, or the right one, descending.
  enum class Direction : std::uint8_t { missing_right, missing_left };
  // Sums of the near side after each step. Returns those after the last.
  GradientSums sum_steps(Direction direction, std::span<const GradientSums> bins);
  // Gain of the split after each step, 0 where it is not admissible, and the largest.
  void find_gains(Direction direction, feature_t feature, const NodeSums& node) noexcept;
  Candidate split_after(Direction direction, bin_t step, feature_t feature, const NodeSums& node) const noexcept;
  // Calls visit(direction) after each direction's gains have been found.
  template <typename Visit>
  void for_each_direction(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  Candidate best_ordered_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node);

  // ---- categories: call visit(const Candidate&) for each admissible split
  template <typename Visit>
  void for_each_category_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               Visit&& visit);
  template <typename Visit>
  void scan_partition(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void scan_one_hot(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Visit&& visit);
  template <typename Visit>
  void consider(const GradientSums& left, const GradientSums& right, const SplitRule& rule, const NodeSums& node,
                Visit&& visit);

  const BinnedMatrix& matrix_;
  XgboostArithmetic arithmetic_;
  float min_gain_;
  bin_t max_cat_to_onehot_;
  bin_t max_cat_threshold_;
  std::vector<int> monotone_signs_;
  std::uint32_t order_ = 0;
  std::vector<double> near_gradients_, near_hessians_;
  std::vector<float> gains_;
  float best_gain_ = 0.0f;
};

}  // namespace mtboost
