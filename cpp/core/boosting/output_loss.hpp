// SPDX-License-Identifier: Apache-2.0
// Losses of many outputs at once (joly2016, chapter 6): what a model that starts from constants F₀ and adds trees asks
// of them. A label that is NaN is unknown: it has no gradient, no weight and no loss, as if its row were not there for
// that output. Margins and residuals are row-major, (row, output). Naive twin: tests/oracle/naive_projected_boosting.py.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"

namespace mtboost {

// With u = label - margin and p = 1 / (1 + exp(-margin)), or softmax(margins):
enum class OutputLossKind : std::uint8_t {
  squared,   // ½ u²
  absolute,  // |u|
  huber,     // ½ u² up to |u| = δ, then δ |u| - ½ δ²
  logistic,  // -y ln p - (1 - y) ln(1 - p), each output by itself; labels from 0 to 1
  softmax,   // -ln p of the row's class; one label a row, from 0 to n_outputs - 1
};

// Labels of each row, and how much they count.
struct LabelledRows {
  std::span<const float> labels;   // (row, label)
  std::span<const float> weights;  // (row,) or (row, label); empty: 1 each
  std::size_t n_rows;
  std::size_t n_labels;  // of a row

  bool has_weight_per_label() const noexcept { return weights.size() > n_rows; }
  float weight(std::size_t row, std::size_t label) const noexcept {
    if (weights.empty()) return 1.0f;
    return weights[has_weight_per_label() ? row * n_labels + label : row];
  }
  const float* labels_of(std::size_t row) const noexcept { return labels.data() + row * n_labels; }
  // Sum over the known labels of a row.
  double known_weight(std::size_t row) const noexcept {
    double sum = 0.0;
    for (std::size_t label = 0; label < n_labels; ++label)
      if (!std::isnan(labels_of(row)[label])) sum += double{weight(row, label)};
    return sum;
  }
};

class OutputLoss {
 public:
  // huber_delta: δ
  OutputLoss(OutputLossKind kind, std::size_t n_outputs, float huber_delta);

  OutputLossKind kind() const noexcept { return kind_; }
  std::size_t n_outputs() const noexcept { return n_outputs_; }
  std::size_t n_labels() const noexcept { return kind_ == OutputLossKind::softmax ? 1 : n_outputs_; }
  float huber_delta() const noexcept { return huber_delta_; }

  // Refuses classes that are not below n_outputs: the only labels by which memory is addressed.
  void check_classes(const LabelledRows& rows) const;
  // Refuses shapes, labels outside the domain, and weights that are negative or not finite.
  void check(const LabelledRows& rows) const;

  // F₀: the constant of each output that makes the loss smallest. An output without a known label (of weight above 0)
  // gets 0. Where all known labels are 0, or 1, the log-odds would be infinite: probabilities are kept at least
  // 1 / (2 n) from 0 and 1, n the number of known labels; of a class without a row likewise.
  std::vector<float> initial(const LabelledRows& rows, ThreadPool& pool) const;

  // -∂loss/∂margin of one row, without weights; 0 where the label is unknown.
  void residuals(const float* margins, const float* labels, float* residuals /* OUT */) const noexcept;

  // The second derivative that goes with it, or a bound on it: squared, absolute and huber 1, logistic p (1 - p),
  // softmax 2 p (1 - p), which as a diagonal matrix bounds all of it. p is read off label and residual.
  void hessians(const float* residuals, const float* labels, float* hessians /* OUT */) const noexcept;

  // Weighted sum over the known labels of a row.
  double loss_of_row(const float* margins, const LabelledRows& rows, std::size_t row) const noexcept;

  // Weighted mean over all known labels; 0 if there are none.
  double mean_loss(std::span<const float> margins, const LabelledRows& rows, ThreadPool& pool) const;

 private:
  std::vector<float> means(const LabelledRows& rows, ThreadPool& pool) const;  // or their log-odds
  float centre(const LabelledRows& rows, std::size_t output) const;
  std::vector<float> log_priors(const LabelledRows& rows) const;

  OutputLossKind kind_;
  std::size_t n_outputs_;
  float huber_delta_;
};

OutputLossKind output_loss_named(const std::string& name);

}  // namespace mtboost
