// SPDX-License-Identifier: Apache-2.0
#include "loss/lambdarank_loss.hpp"

#include <algorithm>
#include <cmath>

#include "loss/logistic_loss.hpp"

namespace mtboost {
namespace {

constexpr float kMostRelevant = 31.0f;  // 2^label must fit in 32 bits
constexpr double kMinHessian = 1e-16;

}  // namespace

std::string LambdarankLoss::label_domain() const {
  return params_.exp_gain ? "labels that are whole numbers from 0 to 31, unless ndcg_exp_gain is false"
                          : "labels that are 0 or positive";
}

bool LambdarankLoss::accepts(float label) const noexcept {
  if (!params_.exp_gain) return std::isfinite(label) && label >= 0.0f;
  return label >= 0.0f && label <= kMostRelevant && std::floor(label) == label;
}

double LambdarankLoss::gain(float label) const noexcept {
  return params_.exp_gain ? static_cast<double>((1u << static_cast<unsigned>(label)) - 1u) : label;
}

// XGBoost divides the weights by the mean weight of a group.
double LambdarankLoss::weight_factor(const LossRows<float>& rows) const {
  if (rows.weights.empty()) return 1.0;
  const std::size_t n_groups = rows.groups.size() - 1;
  double sum = 0.0;
  for (std::size_t group = 0; group < n_groups; ++group)
    if (rows.groups[group] < rows.weights.size()) sum += rows.weights[rows.groups[group]];
  return static_cast<double>(n_groups) / sum;
}

double LambdarankLoss::inverse_ideal_dcg(std::span<const float> labels, const Workspace& workspace) const noexcept {
  sort_descending(labels, workspace.order);
  double ideal = 0.0;
  for (std::size_t position = 0; position < std::min(labels.size(), params_.n_pairs); ++position)
    ideal += workspace.discounts[position] * gain(labels[workspace.order[position]]);
  return ideal == 0.0 ? 0.0 : 1.0 / ideal;
}

void LambdarankLoss::gradients_of_group(const LossRows<float>& group, const Workspace& workspace,
                                        std::span<GradientPair> pairs) const noexcept {
  const auto margins = group.margins;
  const auto labels = group.labels;
  const auto weights = group.weights;
  const std::size_t n_rows = margins.size();
  std::fill(pairs.begin(), pairs.end(), GradientPair{0.0f, 0.0f});
  const double inverse_ideal = is_ndcg_ ? inverse_ideal_dcg(labels, workspace) : 0.0;
  const std::span<std::uint32_t> order = workspace.order;
  sort_descending(margins, order);
  const bool has_distances = params_.score_normalization && margins[order.front()] != margins[order.back()];
  double sum = 0.0;  // of the sizes of all gradients
  for (std::size_t first = 0; first < std::min(n_rows, params_.n_pairs); ++first) {
    for (std::size_t second = first + 1; second < n_rows; ++second) {
      if (labels[order[first]] == labels[order[second]]) continue;
      const bool is_in_order = labels[order[first]] > labels[order[second]];
      const std::size_t better_rank = is_in_order ? first : second, worse_rank = is_in_order ? second : first;
      const std::uint32_t better = order[better_rank], worse = order[worse_rank];
      const float distance = margins[better] - margins[worse];
      double change = 1.0;
      if (is_ndcg_) {
        const double better_gain = gain(labels[better]), worse_gain = gain(labels[worse]);
        const double better_discount = workspace.discounts[better_rank];
        const double worse_discount = workspace.discounts[worse_rank];
        const double original = better_gain * better_discount + worse_gain * worse_discount;
        const double swapped = worse_gain * better_discount + better_gain * worse_discount;
        change = std::abs((original - swapped) * inverse_ideal);
      }
      if (has_distances) change /= static_cast<double>(std::abs(distance)) + 0.01;
      const double p = Logistic::probability(distance);
      const auto gradient = static_cast<float>((p - 1.0) * change);
      const auto hessian = static_cast<float>(std::max(p * (1.0 - p), kMinHessian) * change * 2.0);
      pairs[better].gradient += gradient;
      pairs[better].hessian += hessian;
      pairs[worse].gradient -= gradient;
      pairs[worse].hessian += hessian;
      sum += -2.0 * static_cast<double>(gradient);
    }
  }
  const double norm = params_.normalization && sum > 0.0 ? std::log2(1.0 + sum) / sum : 1.0;
  // Three factors, one after the other, as XGBoost rounds.
  for (const auto factor :
       {static_cast<float>(norm), weights.empty() ? 1.0f : weights[0], static_cast<float>(workspace.weight_factor)}) {
    for (GradientPair& pair : pairs) {
      pair.gradient *= factor;
      pair.hessian *= factor;
    }
  }
}

}  // namespace mtboost
