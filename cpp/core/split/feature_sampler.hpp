// SPDX-License-Identifier: Apache-2.0
// Which features a node may use: XGBoost's colsample_bytree, _bylevel and _bynode, each drawn from the one before,
// optionally with feature weights, narrowed by interaction constraints.
// The distribution is XGBoost's (without replacement, max(1, ⌊fraction · n⌋) features); the draws are not: its stream
// depends on the C++ library it was built with. A draw here depends on (seed, tree, level or node) alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "base/random.hpp"
#include "base/types.hpp"

namespace mtboost {

class FeatureSampler {
 public:
  // features: those to draw from, ascending. weights: one per feature, or empty for equal chances.
  FeatureSampler(const GrowParams& params, const std::vector<feature_t>& features, std::span<const float> weights,
                 std::uint64_t tree);

  // Features of a node, ascending.
  std::vector<feature_t> features(int depth, node_t node);

 private:
  std::vector<feature_t> draw(const std::vector<feature_t>& from, double fraction, RandomStream stream) const;

  const GrowParams& params_;
  std::span<const float> weights_;
  std::uint64_t tree_;
  std::vector<feature_t> of_tree_;
  std::vector<std::vector<feature_t>> of_level_;
};

// Features that may follow those already used on a path: the used ones, and every group that holds all of them.
class InteractionConstraints {
 public:
  // constrains_root: at the root, too, only features of some group may be used.
  InteractionConstraints(const GrowParams& params, feature_t n_features, bool constrains_root);
  bool is_active() const noexcept { return !groups_.empty(); }

  // used: features on the path to the node, ascending.
  std::vector<feature_t> allowed(std::span<const feature_t> used, std::span<const feature_t> candidates) const;

 private:
  std::vector<std::vector<feature_t>> groups_;  // each ascending
  feature_t n_features_;
  bool constrains_root_;
};

}  // namespace mtboost
