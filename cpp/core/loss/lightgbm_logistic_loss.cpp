// SPDX-License-Identifier: Apache-2.0
#include "loss/lightgbm_logistic_loss.hpp"

#include <algorithm>

namespace mtboost::lightgbm {

std::string OneVersusAllLoss::label_domain() const {
  return "labels that are classes, 0 to " + std::to_string(n_classes() - 1);
}

bool OneVersusAllLoss::accepts(float label) const noexcept {
  return label >= 0.0f && label < static_cast<float>(n_classes()) && std::floor(label) == label;
}

std::vector<double> OneVersusAllLoss::summarise(const LossRows<double>& rows, ThreadPool&) const {
  std::vector<double> weights(2 * n_outputs(), 1.0);
  for (std::size_t output = 0; output < n_outputs(); ++output) {
    double& of_others = weights[2 * output];
    double& of_class = weights[2 * output + 1];
    if (is_unbalance_) {
      const auto n_class = static_cast<double>(std::count(rows.labels.begin(), rows.labels.end(), class_of(output)));
      const double n_others = static_cast<double>(rows.labels.size()) - n_class;
      if (n_class > n_others && n_others > 0.0) of_others = n_class / n_others;
      if (n_others >= n_class && n_class > 0.0) of_class = n_others / n_class;
    }
    of_class *= scale_pos_weight_;
  }
  return weights;
}

void OneVersusAllLoss::gradients_of_block(const LossRows<double>& rows, std::span<const double> class_weights,
                                          std::size_t first_row, std::size_t last_row,
                                          GradientPair* pairs) const noexcept {
  const double signed_sigmoids[2] = {-sigmoid_, sigmoid_};  // a table: see PositiveFactor
  for (std::size_t row = first_row; row < last_row; ++row) {
    const float weight = rows.weight(row);
    for (std::size_t output = 0; output < n_outputs(); ++output) {
      const std::size_t index = row * n_outputs() + output;
      const bool is_class = rows.labels[row] == class_of(output);
      const double signed_sigmoid = signed_sigmoids[is_class];
      const double class_weight = class_weights[2 * output + is_class];
      const double response = -signed_sigmoid / (1.0 + std::exp(signed_sigmoid * rows.margins[index]));
      const double size = std::abs(response);
      pairs[index] = {static_cast<float>(response * class_weight * weight),
                      static_cast<float>(size * (sigmoid_ - size) * class_weight * weight)};
    }
  }
}

}  // namespace mtboost::lightgbm
