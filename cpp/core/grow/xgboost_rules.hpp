// SPDX-License-Identifier: Apache-2.0
// XGBoost's side of GrowRules: its hist updater, 3.0 to 3.4. Naive twin: tests/oracle/naive.py.
#pragma once

#include "binning/binned_matrix.hpp"
#include "grow/grow_rules.hpp"
#include "split/xgboost_arithmetic.hpp"

namespace mtboost {

class XgboostRules final : public GrowRules {
 public:
  // What is handed in must outlive the rules; the matrix must be of XGBoost's bins.
  XgboostRules(const BinnedMatrix& matrix, const XgboostParams& params);

  const GrowParams& params() const noexcept override { return params_; }
  std::unique_ptr<FeatureScan> make_scan() const override;
  std::unique_ptr<FeatureScan> make_task_scan() const override;
  NodeSums root(std::span<const row_t> rows, std::span<const GradientPair> gradients, const Histogram& histogram,
                const Communicator* workers) const override;
  std::pair<NodeSums, NodeSums> children(const NodeSums& parent, const Split& split) const override;
  double renewed_weight(const NodeSums& leaf, const GradientSums& sums) const noexcept override;
  double leaf_value(const NodeSums& leaf) const noexcept override {
    return static_cast<float>(leaf.weight) * params_.learning_rate;
  }
  void record(const NodeSums& node, const Split& split, node_t at, Tree& tree) const override;
  void finish(Tree& tree) const override;
  bool may_be_split(const Split& split) const noexcept override {
    return split.left.hessian != 0.0 && split.right.hessian != 0.0;
  }
  bool may_be_searched(const NodeSums& node) const noexcept override {
    return arithmetic_.may_have_children(node.sums);
  }
  bool is_right_summed(const NodeSums& left, const NodeSums& right) const noexcept override {
    return right.sums.hessian < left.sums.hessian;
  }
  bool is_less_urgent(const Leaf& a, const Leaf& b) const noexcept override;

 private:
  NodeSums node(const GradientSums& sums, const WeightBounds& bounds) const noexcept;

  const BinnedMatrix& matrix_;
  const XgboostParams& params_;
  XgboostArithmetic arithmetic_;
};

}  // namespace mtboost
