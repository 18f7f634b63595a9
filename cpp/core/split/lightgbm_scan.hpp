// SPDX-License-Identifier: Apache-2.0
// Lists the splits of one feature in one node as LightGBM does, with the gain of the pooled sums. docs/lightgbm_arithmetic.md
// sections 4 and 5 are the rules; LightgbmBins maps slots to LightGBM's bins.
//   ordered:   bins added up from the right, missing left; then, if there may be missing values, from the left, missing
//              right
//   partition: categories sorted by weight, the lowest left; then the highest left
//   one_hot:   category by category, which goes left
// Listed categories go left, missing values and rare categories right.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "binning/binned_matrix.hpp"
#include "split/feature_scan.hpp"
#include "split/lightgbm_arithmetic.hpp"

namespace mtboost {

class LightgbmScan final : public FeatureScan {
 public:
  LightgbmScan(const BinnedMatrix& matrix, const LightgbmParams& params);

  Split best_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) override;
  void list_candidates(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                       std::vector<Candidate>& candidates) override;
  void add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Gains& gains) override;
  Split split_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
                 bool default_left) override;
  bool has_seen_gain() const noexcept override { return has_seen_gain_; }
  std::vector<bin_t> listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const override;
  const FreeGain& free_gain() const noexcept override { return free_gain_; }

 private:
  using Side = LightgbmArithmetic::Side;

  // What all splits of one scan share.
  struct Node {
    feature_t feature;
    const NodeSums* sums;
    Side whole;
    double rows_per_hessian;
    double l2;
    int direction;  // of the monotone constraint
    double floor;   // a split must gain more
  };

  // Call visit(scan, const Candidate&) for each admissible split; gains are still above `floor`. scan: 0, or 1 for the one
  // from the left.
  template <typename Visit>
  Node for_each_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& sums, Visit&& visit);
  template <typename Visit>
  void scan_ordered(const Node& node, std::span<const GradientSums> bins, Visit&& visit);
  template <typename Visit>
  void scan_partition(const Node& node, std::span<const GradientSums> bins, Visit&& visit);
  template <typename Visit>
  void scan_one_hot(const Node& node, std::span<const GradientSums> bins, Visit&& visit);
  // Considers the split between the side added up so far and the rest. False: no later split of this scan is admitted.
  template <typename Visit>
  bool consider(const Node& node, int scan, const Side& near, bool is_near_left, const SplitRule& rule, Visit&& visit);
  template <typename Visit>
  void gains(const Node& node, int scan, double gain, const Side& left, const SplitRule& rule, Visit&& visit);

  double scaled(double gain, const Node& node) const noexcept;
  static void add(const GradientSums& bin, const Node& node, Side& side) noexcept {
    side.gradient += bin.gradient;
    side.hessian += bin.hessian;
    side.n_rows += estimated_rows(bin.hessian, node);
  }
  // Rounded half up; beyond the range of an int what x86 makes of it.
  static std::int64_t estimated_rows(double hessian, const Node& node) noexcept {
    const double rows = hessian * node.rows_per_hessian + 0.5;
    constexpr double kRange = 2147483648.0;
    return rows > -kRange && rows < kRange ? static_cast<std::int32_t>(rows) : std::numeric_limits<std::int32_t>::min();
  }

  const BinnedMatrix& matrix_;
  LightgbmParams params_;
  LightgbmArithmetic arithmetic_;
  FreeGain free_gain_;
  std::int64_t fewest_rows_;
  bool has_seen_gain_ = false;
  std::uint32_t order_ = 0;
  std::vector<Candidate> candidates_;
};

// min_data_in_leaf, raised where LightGBM raises it.
int fewest_rows(const LightgbmParams& params) noexcept;

}  // namespace mtboost
