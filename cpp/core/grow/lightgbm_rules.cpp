// SPDX-License-Identifier: Apache-2.0
#include "grow/lightgbm_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/require.hpp"
#include "split/lightgbm_scan.hpp"

namespace mtboost {

LightgbmRules::LightgbmRules(const BinnedMatrix& matrix, const LightgbmParams& params)
    : matrix_(matrix), params_(params), arithmetic_(params) {
  require(matrix.edges().is_of_lightgbm(), "LightGBM's trees grow on LightGBM's bins");
  params.check(matrix.n_features());
}

std::unique_ptr<FeatureScan> LightgbmRules::make_scan() const {
  return std::make_unique<LightgbmScan>(matrix_, params_);
}

std::unique_ptr<FeatureScan> LightgbmRules::make_task_scan() const {
  LightgbmParams params = params_;
  params.max_cat_to_onehot = 0;
  params.max_cat_threshold = std::numeric_limits<int>::max();
  return std::make_unique<LightgbmScan>(matrix_, params);
}

NodeSums LightgbmRules::root(std::span<const row_t> rows, std::span<const GradientPair> gradients, const Histogram&,
                             const Communicator* workers) const {
  require(workers == nullptr, "LightGBM's trees grow on one machine");
  NodeSums root;
  for (const row_t row : rows) root.sums += {gradients[row].gradient, gradients[row].hessian};
  root.weight = arithmetic_.clipped_weight(root.sums.gradient, root.sums.hessian, params_.lambda_l2);
  return root;
}

std::pair<NodeSums, NodeSums> LightgbmRules::children(const NodeSums& parent, const Split& split) const {
  const double l2 = params_.lambda_l2 + (split.rule.kind == SplitKind::partition ? params_.cat_l2 : 0.0);
  const auto child = [&](const GradientSums& side, std::int64_t n_rows) {
    NodeSums sums;
    sums.sums = {side.gradient, side.hessian - kLightgbmEpsilon};
    sums.weight = arithmetic_.bounded_weight({side.gradient, side.hessian, n_rows}, parent, l2);
    sums.bounds = parent.bounds;
    return sums;
  };
  std::pair children{child(split.left, split.n_left), child(split.right, parent.n_rows - split.n_left)};
  auto& [left, right] = children;
  const feature_t feature = split.rule.feature;
  if (split.rule.kind != SplitKind::ordered || feature >= params_.monotone_constraints.size()) return children;
  const double middle = (left.weight + right.weight) / 2.0;
  if (params_.monotone_constraints[feature] > 0) {
    left.bounds.upper = std::min(middle, left.bounds.upper);
    right.bounds.lower = std::max(middle, right.bounds.lower);
  } else if (params_.monotone_constraints[feature] < 0) {
    left.bounds.lower = std::max(middle, left.bounds.lower);
    right.bounds.upper = std::min(middle, right.bounds.upper);
  }
  return children;
}

double LightgbmRules::leaf_value(const NodeSums& leaf) const noexcept {
  constexpr double kNextToZero = 1e-35f;
  const double value = leaf.weight * params_.learning_rate;
  return std::isnan(value) || std::abs(value) <= kNextToZero ? 0.0 : value;
}

void LightgbmRules::record(const NodeSums&, const Split& split, node_t at, Tree& tree) const {
  tree.gain[static_cast<std::size_t>(at)] = split.gain + params_.min_gain_to_split;
}

bool LightgbmRules::may_be_searched(const NodeSums& node) const noexcept {
  return node.n_rows >= 2 * static_cast<std::int64_t>(fewest_rows(params_));
}

// Larger (S, s) first, then the lower feature, then the lower leaf number.
bool LightgbmRules::is_less_urgent(const Leaf& a, const Leaf& b) const noexcept {
  if (a.split.score != b.split.score) return a.split.score < b.split.score;
  if (a.split.gain != b.split.gain) return a.split.gain < b.split.gain;
  if (a.split.rule.feature != b.split.rule.feature) return a.split.rule.feature > b.split.rule.feature;
  return a.number > b.number;
}

// The frequent bin gets what the others leave of the node's sums. As bin 0 it has no sums, and none are asked for.
void LightgbmRules::complete(const NodeSums& node, feature_t first_feature, feature_t last_feature,
                             std::span<GradientSums> slots) const {
  for (feature_t feature = first_feature; feature < last_feature; ++feature) {
    const LightgbmBins& of_feature = matrix_.edges().lightgbm(feature);
    if (of_feature.frequent == 0) continue;
    const auto own = slots.subspan(matrix_.slot_offset(feature));
    GradientSums rest = node.sums;
    for (bin_t bin = 0; bin < of_feature.n_bins; ++bin)
      if (bin != of_feature.frequent) rest -= own[of_feature.slot(bin)];
    own[of_feature.slot(of_feature.frequent)] = rest;
  }
}

}  // namespace mtboost
