// SPDX-License-Identifier: Apache-2.0
// A loss whose outputs do not see each other: one label per output, and a formula from (margin, label, weight) to the
// pair. A formula is a small struct with
//   kLabelDomain               what its labels must be
//   accepts(label)             whether this one is
//   operator()(margin, label, weight)
// The loop is compiled once per formula, so that the virtual call costs once per block and not once per row.
#pragma once

#include <cmath>
#include <string>
#include <utility>

#include "loss/loss.hpp"

namespace mtboost {

// XGBoost's scale_pos_weight, a factor on the weight of labels equal to 1. A table: a branch on labels in random order
// is mispredicted so often that the logistic loss took 10 ns a row instead of 6.
class PositiveFactor {
 public:
  explicit PositiveFactor(float scale_pos_weight) noexcept : factors_{1.0f, scale_pos_weight} {}
  float operator()(float label) const noexcept { return factors_[label == 1.0f]; }

 private:
  float factors_[2];
};

template <typename Margin, typename Formula>
class ElementwiseLoss : public Loss<Margin> {
 public:
  ElementwiseLoss(std::string name, std::size_t n_outputs, Formula formula)
      : Loss<Margin>(std::move(name), n_outputs, n_outputs), formula_(formula) {}

 protected:
  const Formula& formula() const noexcept { return formula_; }

 private:
  std::string label_domain() const final { return Formula::kLabelDomain; }
  bool accepts(float label) const noexcept final { return std::isfinite(label) && Formula::accepts(label); }
  void gradients_of_block(const LossRows<Margin>& rows, std::span<const Margin>, std::size_t first_row,
                          std::size_t last_row, GradientPair* pairs) const noexcept final {
    const std::size_t n_outputs = this->n_outputs();
    std::size_t index = first_row * n_outputs;
    for (std::size_t row = first_row; row < last_row; ++row) {
      const float weight = rows.weight(row);
      for (const std::size_t end = index + n_outputs; index < end; ++index)
        pairs[index] = formula_(rows.margins[index], rows.labels[index], weight);
    }
  }

  Formula formula_;
};

}  // namespace mtboost
