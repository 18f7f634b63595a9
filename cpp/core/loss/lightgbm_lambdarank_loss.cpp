// SPDX-License-Identifier: Apache-2.0
#include "loss/lightgbm_lambdarank_loss.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost::lightgbm {
namespace {

constexpr std::size_t kTableSize = std::size_t{1} << 20;
constexpr double kTableEnd = 50.0;
constexpr float kMostRelevant = 30.0f;  // the last label that LightGBM has a gain for by default

double gain(float label) noexcept { return static_cast<double>((1u << static_cast<unsigned>(label)) - 1u); }

}  // namespace

LambdarankLoss::LambdarankLoss(std::string name, double sigmoid, bool norm, std::size_t truncation_level)
    : RankingLoss(std::move(name)),
      sigmoid_(sigmoid),
      norm_(norm),
      truncation_level_(truncation_level),
      least_(-kTableEnd / sigmoid / 2),
      entries_per_unit_(static_cast<double>(kTableSize) / (-least_ - least_)),
      table_(kTableSize) {
  for (std::size_t entry = 0; entry < kTableSize; ++entry) {
    const double distance = static_cast<double>(entry) / entries_per_unit_ + least_;
    table_[entry] = 1.0 / (1.0 + std::exp(distance * sigmoid_));
  }
}

std::string LambdarankLoss::label_domain() const { return "labels that are whole numbers from 0 to 30"; }

bool LambdarankLoss::accepts(float label) const noexcept {
  return label >= 0.0f && label <= kMostRelevant && std::floor(label) == label;
}

double LambdarankLoss::probability(double distance) const noexcept {
  if (distance <= least_) return table_.front();
  if (distance >= -least_) return table_.back();
  return table_[static_cast<std::size_t>((distance - least_) * entries_per_unit_)];
}

double LambdarankLoss::inverse_ideal_dcg(std::span<const float> labels, const Workspace& workspace) const noexcept {
  sort_descending(labels, workspace.order);
  double ideal = 0.0;
  for (std::size_t position = 0; position < std::min(labels.size(), truncation_level_); ++position)
    ideal += workspace.discounts[position] * gain(labels[workspace.order[position]]);
  return ideal > 0.0 ? 1.0 / ideal : ideal;
}

void LambdarankLoss::gradients_of_group(const LossRows<double>& group, const Workspace& workspace,
                                        std::span<GradientPair> pairs) const noexcept {
  const auto margins = group.margins;
  const auto labels = group.labels;
  const auto weights = group.weights;
  const std::size_t n_rows = margins.size();
  std::fill(pairs.begin(), pairs.end(), GradientPair{0.0f, 0.0f});
  const double inverse_ideal = inverse_ideal_dcg(labels, workspace);
  const std::span<std::uint32_t> order = workspace.order;
  sort_descending(margins, order);
  const bool has_distances = norm_ && margins[order.front()] != margins[order.back()];
  double sum = 0.0;  // of the sizes of all gradients
  for (std::size_t first = 0; first + 1 < n_rows && first < truncation_level_; ++first) {
    for (std::size_t second = first + 1; second < n_rows; ++second) {
      if (labels[order[first]] == labels[order[second]]) continue;
      const bool is_in_order = labels[order[first]] > labels[order[second]];
      const std::size_t better_rank = is_in_order ? first : second, worse_rank = is_in_order ? second : first;
      const std::uint32_t better = order[better_rank], worse = order[worse_rank];
      const double distance = margins[better] - margins[worse];
      const double gap = gain(labels[better]) - gain(labels[worse]);
      const double discount = std::abs(workspace.discounts[better_rank] - workspace.discounts[worse_rank]);
      double change = gap * discount * inverse_ideal;
      if (has_distances) change /= static_cast<double>(0.01f) + std::abs(distance);
      const double p = probability(distance);
      const double gradient = p * (-sigmoid_ * change);
      const double hessian = p * (1.0 - p) * (sigmoid_ * sigmoid_ * change);
      pairs[worse].gradient -= static_cast<float>(gradient);
      pairs[worse].hessian += static_cast<float>(hessian);
      pairs[better].gradient += static_cast<float>(gradient);
      pairs[better].hessian += static_cast<float>(hessian);
      sum -= 2 * gradient;
    }
  }
  if (norm_ && sum > 0.0) {
    const double factor = std::log2(1 + sum) / sum;
    for (GradientPair& pair : pairs) {
      pair.gradient = static_cast<float>(pair.gradient * factor);
      pair.hessian = static_cast<float>(pair.hessian * factor);
    }
  }
  for (std::size_t row = 0; row < weights.size(); ++row) {
    pairs[row].gradient *= weights[row];
    pairs[row].hessian *= weights[row];
  }
}

}  // namespace mtboost::lightgbm
