// SPDX-License-Identifier: Apache-2.0
// Where the two libraries part while a tree grows; the loop of tree_grower is the same for both.
// XGBoost's: xgboost_rules.hpp. LightGBM's: lightgbm_rules.hpp.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/communicator.hpp"
#include "base/grow_params.hpp"
#include "base/types.hpp"
#include "histogram/histogram.hpp"
#include "split/feature_scan.hpp"
#include "split/node_sums.hpp"
#include "split/split.hpp"
#include "tree/tree.hpp"

namespace mtboost {

struct Leaf {
  node_t node = 0;
  int number = 0;  // LightGBM's: a left child keeps its parent's, a right one gets the next
  NodeSums sums;
  Histogram histogram;
  std::vector<feature_t> used;        // features on the path, ascending; kept for interaction constraints only
  std::vector<feature_t> candidates;  // features to be scanned; kept where rules inherit them
  Split split;
};

class GrowRules {
 public:
  virtual ~GrowRules() = default;

  virtual const GrowParams& params() const noexcept = 0;
  virtual std::unique_ptr<FeatureScan> make_scan() const = 0;
  // The same for the task column: all prefixes of its categories, however many or few they are.
  virtual std::unique_ptr<FeatureScan> make_task_scan() const = 0;

  // Sums over the root's rows, whose histogram is there, and its weight. workers: null is a single machine.
  virtual NodeSums root(std::span<const row_t> rows, std::span<const GradientPair> gradients,
                        const Histogram& histogram, const Communicator* workers) const = 0;
  // The two sides of a split, numbers of rows excepted.
  virtual std::pair<NodeSums, NodeSums> children(const NodeSums& parent, const Split& split) const = 0;
  // Weight of a leaf by the sums of its gradients before they were quantized, which only XGBoost's trees are grown by.
  virtual double renewed_weight(const NodeSums& leaf, const GradientSums& /* sums */) const noexcept {
    return leaf.weight;
  }
  // Value of a leaf, learning rate included.
  virtual double leaf_value(const NodeSums& leaf) const noexcept = 0;
  // What the tree records of a node that is split, beside the split itself.
  virtual void record(const NodeSums& node, const Split& split, node_t at, Tree& tree /* IN-OUT */) const = 0;
  // Last touch to a tree.
  virtual void finish(Tree& /* tree, IN-OUT */) const {}

  // Whether listed categories go left.
  virtual bool lists_left_categories() const noexcept { return false; }
  virtual bool may_be_split(const Split& split) const noexcept = 0;
  // Whether a node is large enough for two children of the least size.
  virtual bool may_be_searched(const NodeSums& node) const noexcept = 0;
  // Which of two siblings is summed from its rows.
  virtual bool is_right_summed(const NodeSums& left, const NodeSums& right) const noexcept = 0;
  // Order of loss-guided growth.
  virtual bool is_less_urgent(const Leaf& a, const Leaf& b) const noexcept = 0;
  // Whether a leaf scans only the features in which its parent saw a split that gains.
  virtual bool inherits_features() const noexcept { return false; }
  // Whether interaction constraints hold at the root already: only features of some group.
  virtual bool constrains_root() const noexcept { return false; }
  // Replaces sums that the library does not take from rows. slots: pooled sums of a node just summed.
  virtual void complete(const NodeSums& /* node */, feature_t /* first_feature */, feature_t /* last_feature */,
                        std::span<GradientSums> /* slots, IN-OUT */) const {}
};

}  // namespace mtboost
