// SPDX-License-Identifier: Apache-2.0
#include "grow/xgboost_rules.hpp"

#include <algorithm>
#include <limits>

#include "base/require.hpp"
#include "split/xgboost_scan.hpp"

namespace mtboost {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();

}  // namespace

XgboostRules::XgboostRules(const BinnedMatrix& matrix, const XgboostParams& params)
    : matrix_(matrix), params_(params), arithmetic_(params) {
  require(!matrix.edges().is_of_lightgbm(), "XGBoost's trees grow on XGBoost's bins");
  params.check(matrix.n_features());
}

std::unique_ptr<FeatureScan> XgboostRules::make_scan() const { return std::make_unique<XgboostScan>(matrix_, params_); }

std::unique_ptr<FeatureScan> XgboostRules::make_task_scan() const {
  XgboostParams params = params_;
  params.max_cat_to_onehot = 0;
  params.max_cat_threshold = std::numeric_limits<bin_t>::max();
  return std::make_unique<XgboostScan>(matrix_, params);
}

NodeSums XgboostRules::node(const GradientSums& sums, const WeightBounds& bounds) const noexcept {
  return {sums, arithmetic_.weight(sums, bounds), arithmetic_.gain(sums, bounds), bounds};
}

NodeSums XgboostRules::root(std::span<const row_t> rows, std::span<const GradientPair> gradients,
                            const Histogram& histogram, const Communicator* workers) const {
  GradientSums sums;
  if (matrix_.is_dense() && workers == nullptr) {  // XGBoost's order of summation
    for (const GradientSums& bin : std::span(histogram.pooled).first(matrix_.edges().n_bins(0))) sums += bin;
  } else {
    for (const row_t row : rows) sums += {gradients[row].gradient, gradients[row].hessian};
  }
  if (workers != nullptr) {
    const std::span<GradientSums> array(&sums, 1);
    sum_together(*workers, std::span(&array, 1), "sums of the root");
  }
  return node(sums, {-kLargest, kLargest});
}

std::pair<NodeSums, NodeSums> XgboostRules::children(const NodeSums& parent, const Split& split) const {
  std::pair children{node(split.left, parent.bounds), node(split.right, parent.bounds)};
  auto& [left, right] = children;
  // Monotone constraints: no weight below a split may cross the middle of its two children.
  const feature_t feature = split.rule.feature;
  const int sign = feature < params_.monotone_constraints.size() ? params_.monotone_constraints[feature] : 0;
  const float middle = (static_cast<float>(left.weight) + static_cast<float>(right.weight)) / 2.0f;
  if (sign > 0) left.bounds.upper = right.bounds.lower = middle;
  if (sign < 0) left.bounds.lower = right.bounds.upper = middle;
  return children;
}

// A leaf that was heavy enough to be split off stays so: one that is lighter by a rounding error would get the weight 0.
double XgboostRules::renewed_weight(const NodeSums& leaf, const GradientSums& sums) const noexcept {
  GradientSums own = sums;
  if (leaf.sums.hessian >= params_.min_child_weight)
    own.hessian = std::max(own.hessian, static_cast<double>(params_.min_child_weight));
  return arithmetic_.weight(own, leaf.bounds);
}

void XgboostRules::record(const NodeSums& parent, const Split& split, node_t at, Tree& tree) const {
  const auto index = static_cast<std::size_t>(at);
  const GradientSums sums = split.left + split.right;
  tree.gain[index] = split.gain;
  tree.hessian[index] = sums.hessian;
  tree.base_weight[index] = arithmetic_.weight(sums, parent.bounds);
}

// XGBoost's record of a leaf, the root excepted.
void XgboostRules::finish(Tree& tree) const {
  for (std::size_t node = 1; node < tree.left.size(); ++node)
    if (tree.left[node] == kNoNode) tree.base_weight[node] = tree.value[node];
}

// Larger (S, s) first, then the older node.
bool XgboostRules::is_less_urgent(const Leaf& a, const Leaf& b) const noexcept {
  if (a.split.score != b.split.score) return a.split.score < b.split.score;
  if (a.split.gain != b.split.gain) return a.split.gain < b.split.gain;
  return a.node > b.node;
}

}  // namespace mtboost
