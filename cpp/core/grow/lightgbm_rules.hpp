// SPDX-License-Identifier: Apache-2.0
// LightGBM's side of GrowRules: its serial tree learner, 4.5 to 4.7, as with one thread. docs/lightgbm_arithmetic.md tells
// the rules. Naive twin: tests/oracle/naive_lightgbm.py.
#pragma once

#include "binning/binned_matrix.hpp"
#include "grow/grow_rules.hpp"
#include "split/lightgbm_arithmetic.hpp"

namespace mtboost {

class LightgbmRules final : public GrowRules {
 public:
  // What is handed in must outlive the rules; the matrix must be of LightGBM's bins.
  LightgbmRules(const BinnedMatrix& matrix, const LightgbmParams& params);

  const GrowParams& params() const noexcept override { return params_; }
  std::unique_ptr<FeatureScan> make_scan() const override;
  std::unique_ptr<FeatureScan> make_task_scan() const override;
  NodeSums root(std::span<const row_t> rows, std::span<const GradientPair> gradients, const Histogram& histogram,
                const Communicator* workers) const override;
  std::pair<NodeSums, NodeSums> children(const NodeSums& parent, const Split& split) const override;
  double leaf_value(const NodeSums& leaf) const noexcept override;
  void record(const NodeSums& node, const Split& split, node_t at, Tree& tree) const override;
  bool lists_left_categories() const noexcept override { return true; }
  bool may_be_split(const Split&) const noexcept override { return true; }
  bool may_be_searched(const NodeSums& node) const noexcept override;
  bool is_right_summed(const NodeSums& left, const NodeSums& right) const noexcept override {
    return left.n_rows >= right.n_rows;
  }
  bool is_less_urgent(const Leaf& a, const Leaf& b) const noexcept override;
  bool inherits_features() const noexcept override { return true; }
  bool constrains_root() const noexcept override { return true; }
  void complete(const NodeSums& node, feature_t first_feature, feature_t last_feature,
                std::span<GradientSums> slots) const override;

 private:
  const BinnedMatrix& matrix_;
  const LightgbmParams& params_;
  LightgbmArithmetic arithmetic_;
};

}  // namespace mtboost
