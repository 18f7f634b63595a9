// SPDX-License-Identifier: Apache-2.0
// An elementwise loss whose second derivative is 0 almost everywhere. The weight replaces it while the tree grows,
// and the leaves are then set to what minimises the loss: a percentile of the residuals label - margin. Its formula has,
// besides what ElementwiseLoss needs,
//   counts(weight)                                     whether a row of this weight takes part
//   leaf_weight(label, weight)                         its weight among the residuals
//   leaf_value(residuals, is_weighted, learning_rate)  of a leaf with at least one; their order may be changed
#pragma once

#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "loss/elementwise_loss.hpp"

namespace mtboost {

template <typename Margin>
struct Residual {
  Margin value;
  float weight;

  static bool is_smaller(const Residual& a, const Residual& b) noexcept { return a.value < b.value; }
};

// Sets the leaves of the tree of one output. Rows have a label for each output, or one for all of them; start is what
// messages call the margins that training starts from.
template <typename Margin, typename Formula>
void refit_percentiles(const Formula& formula, std::span<const node_t> leaves, const LossRows<Margin>& rows,
                       std::size_t n_outputs, std::size_t output, Margin learning_rate, const char* start,
                       ThreadPool& pool, std::span<Margin> values /* IN, OUT */) {
  // Residuals of each node as a slice of one array (counting sort). A slice starts at starts[node] once it is filled.
  const auto takes_part = [&](std::size_t row) { return leaves[row] >= 0 && formula.counts(rows.weight(row)); };
  const std::size_t n_labels = leaves.empty() ? 1 : rows.labels.size() / leaves.size();
  std::vector<std::size_t> starts(values.size() + 1, 0);
  for (std::size_t row = 0; row < leaves.size(); ++row)
    if (takes_part(row)) ++starts[static_cast<std::size_t>(leaves[row])];
  std::inclusive_scan(starts.begin(), starts.end(), starts.begin());
  std::vector<Residual<Margin>> residuals(starts.back());
  for (std::size_t row = leaves.size(); row-- > 0;) {  // backwards, so that each slice is in ascending order of rows
    if (!takes_part(row)) continue;
    const float label = rows.labels[n_labels == 1 ? row : row * n_labels + output];
    const Margin residual = label - rows.margins[row * n_outputs + output];
    if (!std::isfinite(residual))
      throw std::runtime_error("the residual of row " + std::to_string(row) + " is not finite: check " + start);
    residuals[--starts[static_cast<std::size_t>(leaves[row])]] = {residual,
                                                                  formula.leaf_weight(label, rows.weight(row))};
  }

  pool.parallel_for(values.size(), [&](std::size_t node) {
    const auto slice = std::span(residuals).subspan(starts[node], starts[node + 1] - starts[node]);
    if (!slice.empty()) values[node] = formula.leaf_value(slice, !rows.weights.empty(), learning_rate);
  });
}

template <typename Margin, typename Formula>
class PercentileLoss final : public ElementwiseLoss<Margin, Formula> {
 public:
  using ElementwiseLoss<Margin, Formula>::ElementwiseLoss;

  bool refits_leaves() const noexcept override { return true; }

 private:
  void refit(std::span<const node_t> leaves, const LossRows<Margin>& rows, std::size_t output, Margin learning_rate,
             ThreadPool& pool, std::span<Margin> values /* IN, OUT */) const override {
    refit_percentiles(this->formula(), leaves, rows, this->n_outputs(), output, learning_rate, this->kStart, pool,
                      values);
  }
};

}  // namespace mtboost
