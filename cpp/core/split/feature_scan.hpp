// SPDX-License-Identifier: Apache-2.0
// Contract of a scan: the cuts of one feature in one node that a library admits, with the gain of the pooled sums.
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

  // The best cut by gain, or none. bins: sums of the feature's slots in the node, that of missing values last.
  virtual Split best_cut(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) = 0;

  // Appends every admissible cut.
  virtual void list_cuts(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                         std::vector<Candidate>& cuts /* IN-OUT */) = 0;

  // For cuts that several nodes share, of an ordered feature. A cut is its position and where missing values go; in a
  // node without any it is the same cut either way.
  // Adds the gain of every admissible cut at its position.
  struct Gains {
    std::vector<double> missing_right, missing_left;
  };
  virtual void add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node,
                         Gains& gains /* IN-OUT */) = 0;
  // One cut; none if the node does not admit it.
  virtual Split cut_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
                       bool default_left) = 0;

  // Whether the last call saw a cut that gains, admitted or not: LightGBM looks no further at features without.
  virtual bool has_seen_gain() const noexcept { return true; }

  // The categories that the library's models list for a cut of the last scan.
  virtual std::vector<bin_t> listed_bins(const Cut& cut, std::span<const bin_t> category_order) const = 0;

  // After a scan of categories by weight: their bins in ascending order. Bins that are not there always go where missing
  // values go.
  std::span<const bin_t> category_order() const noexcept { return category_order_; }

  virtual const FreeGain& free_gain() const noexcept = 0;

 protected:
  std::vector<bin_t> category_order_;
};

}  // namespace mtboost
