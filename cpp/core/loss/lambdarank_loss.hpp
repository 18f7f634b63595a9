// SPDX-License-Identifier: Apache-2.0
// XGBoost's rank:ndcg and rank:pairwise (burges2010), with lambdarank_pair_method=topk: of each group all pairs of rows
// with different labels of which the model ranks one among the first n_pairs. A pair counts by the change of NDCG if
// its rows are swapped (rank:ndcg), or once (rank:pairwise); with score_normalization it is divided by the distance of
// the two margins, with normalization the group by the sum of its gradients. Weights belong to groups: a group has that
// of its first row.
#pragma once

#include "loss/ranking_loss.hpp"

namespace mtboost {

struct LambdarankParams {
  std::size_t n_pairs = 32;  // lambdarank_num_pair_per_sample
  bool normalization = true;
  bool score_normalization = true;
  bool exp_gain = true;  // the gain of a label is 2^label - 1, else the label
};

class LambdarankLoss final : public RankingLoss<float> {
 public:
  // is_ndcg: rank:ndcg, else rank:pairwise.
  LambdarankLoss(std::string name, bool is_ndcg, const LambdarankParams& params)
      : RankingLoss(std::move(name)), is_ndcg_(is_ndcg), params_(params) {}

 private:
  std::string label_domain() const override;
  bool accepts(float label) const noexcept override;
  double weight_factor(const LossRows<float>& rows) const override;
  void gradients_of_group(const LossRows<float>& group, const Workspace& workspace,
                          std::span<GradientPair> pairs /* OUT */) const noexcept override;

  double gain(float label) const noexcept;
  double inverse_ideal_dcg(std::span<const float> labels, const Workspace& workspace) const noexcept;

  bool is_ndcg_;
  LambdarankParams params_;
};

}  // namespace mtboost
