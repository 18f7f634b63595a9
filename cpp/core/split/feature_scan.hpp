// SPDX-License-Identifier: Apache-2.0
// Contract of a scan: the splits of one feature in one node that a library admits, with the gain of the pooled sums.
// XGBoost's: xgboost_scan.hpp; LightGBM's: lightgbm_scan.hpp.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"
#include "split/free_gain.hpp"
#include "split/node_sums.hpp"
#include "split/split.hpp"

namespace mtboost {

// One per thread: keeps its buffers from scan to scan.
class FeatureScan {
 public:
  virtual ~FeatureScan() = default;

  // The best split by gain, or none. bins: sums of the feature's slots in the node, that of missing values last.
  virtual Split best_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) = 0;

  // Appends every admissible split.
  virtual void list_candidates(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                               std::vector<Candidate>& candidates /* IN-OUT */) = 0;

  // For splits that several nodes share, of an ordered feature. A split is its position and where missing values go; in a
  // node without any it is the same split either way.
  // Adds the gain of every admissible split at its position.
  struct Gains {
    std::vector<double> missing_right, missing_left;
  };
  virtual void add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                         Gains& gains /* IN-OUT */) = 0;
  // One split; none if the node does not admit it.
  virtual Split split_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
                         bool default_left) = 0;

  // Whether the last call saw a split that gains, admitted or not: LightGBM looks no further at features without.
  virtual bool has_seen_gain() const noexcept { return true; }

  // The categories that the library's models list for a split of the last scan.
  virtual std::vector<bin_t> listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const = 0;

  // After a scan of categories by weight: their bins in ascending order. Bins that are not there always go where missing
  // values go.
  std::span<const bin_t> category_order() const noexcept { return category_order_; }

  virtual const FreeGain& free_gain() const noexcept = 0;

 protected:
  std::vector<bin_t> category_order_;
};

}  // namespace mtboost
