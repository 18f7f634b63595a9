// SPDX-License-Identifier: Apache-2.0
// LightGBM's lambdarank (burges2010): of each group all pairs of rows with different labels of which the model ranks
// one among the first truncation_level, weighted by the change of NDCG if the two are swapped. With norm a pair is
// divided by the distance of its margins, and a group by the sum of its gradients. The gain of a label is 2^label - 1.
// Probabilities come from a table of 2^20 entries, as in LightGBM.
#pragma once

#include "loss/ranking_loss.hpp"

namespace mtboost::lightgbm {

class LambdarankLoss final : public RankingLoss<double> {
 public:
  LambdarankLoss(std::string name, double sigmoid, bool norm, std::size_t truncation_level);

 private:
  std::string label_domain() const override;
  bool accepts(float label) const noexcept override;
  void gradients_of_group(const LossRows<double>& group, const Workspace& workspace,
                          std::span<GradientPair> pairs /* OUT */) const noexcept override;

  double probability(double distance) const noexcept;
  double inverse_ideal_dcg(std::span<const float> labels, const Workspace& workspace) const noexcept;

  double sigmoid_;
  bool norm_;
  std::size_t truncation_level_;
  double least_;             // distance of the first entry of the table; the last one has -least_
  double entries_per_unit_;  // entries for a distance of 1
  std::vector<double> table_;
};

}  // namespace mtboost::lightgbm
