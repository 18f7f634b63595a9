// SPDX-License-Identifier: Apache-2.0
// What the cuts of a forest are judged by: one number a row, several, or labels. Each kind knows the rows of one node
// and says how much a division of them in two gains:
//
//   gain = W_L W_R / W · Σ_j (S_Lj / W_L − S_Rj / W_R)²,    S sums of w y, W sums of w, j over the outputs
//
// the fall of Σ w ‖y − mean‖². With indicators of classes as outputs this is half the fall of the Gini index (of two
// classes, of one indicator: a quarter), so that trees of classes and of numbers grow alike. The squared difference
// loses nothing to cancellation, as the difference of squares would. Naive twin: tests/oracle/naive_forest.py.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

// Weights of a tree's rows: empty if all are 1.
using RowWeights = std::span<const double>;

// The rows of one node, in an order of their own: "row i" is the i-th of them.
class NodeWeights {
 public:
  explicit NodeWeights(RowWeights weights) : weights_(weights) {}
  void enter(std::span<const row_t> rows);
  double total() const noexcept { return total_; }
  double operator[](std::size_t i) const noexcept { return weights_.empty() ? 1.0 : own_[i]; }
  const double* data() const noexcept { return weights_.empty() ? nullptr : own_.data(); }  // null: all 1

 private:
  RowWeights weights_;
  std::vector<double> own_;  // of row i; empty: all 1
  double total_ = 0.0;
};

// One number a row: regression, or two classes.
class ScalarTarget {
 public:
  ScalarTarget(std::span<const double> y, RowWeights weights) : y_(y), weights_(weights) {}

  void enter(std::span<const row_t> rows);
  double weight() const noexcept { return weights_.total(); }
  double impurity() const noexcept;  // mean squared distance to the mean
  bool is_pure() const noexcept { return is_pure_; }

  // The i with values[i] < threshold against the others. n_left: their number.
  double gain(std::span<const float> values, float threshold, row_t& n_left /* OUT */);

  // The first rows of an order on the left, one more with each call.
  void begin_scan();
  void move_left(std::size_t i) noexcept;
  double gain_of_scan() const noexcept;

  // What a task split may look at: w y of row i; with several outputs, of one that is chosen.
  std::size_t n_choices() const noexcept { return 1; }
  double weighted_label(std::size_t i, std::size_t) const noexcept { return own_[i]; }
  double row_weight(std::size_t i) const noexcept { return weights_[i]; }

 private:
  double gain(double left_sum, double left_weight) const noexcept;

  std::span<const double> y_;
  NodeWeights weights_;
  std::vector<double> own_;  // w y of row i
  double sum_ = 0.0, sum_of_squares_ = 0.0;
  bool is_pure_ = false;
  double left_sum_ = 0.0, left_weight_ = 0.0;
};

// Several numbers a row: outputs of a regression, or their projections.
class VectorTarget {
 public:
  // y: (row, output), whole rows side by side.
  VectorTarget(std::span<const float> y, std::size_t n_outputs, RowWeights weights)
      : y_(y), n_outputs_(n_outputs), weights_(weights), sums_(n_outputs), left_(n_outputs) {}

  void enter(std::span<const row_t> rows);
  double weight() const noexcept { return weights_.total(); }
  double impurity() const noexcept;
  bool is_pure() const noexcept { return is_pure_; }
  double gain(std::span<const float> values, float threshold, row_t& n_left /* OUT */);
  void begin_scan();
  void move_left(std::size_t i) noexcept;
  double gain_of_scan() const noexcept;
  std::size_t n_choices() const noexcept { return n_outputs_; }
  double weighted_label(std::size_t i, std::size_t output) const noexcept {
    return weights_[i] * own_[i * n_outputs_ + output];
  }
  double row_weight(std::size_t i) const noexcept { return weights_[i]; }

 private:
  double gain(double left_weight) const noexcept;

  std::span<const float> y_;
  std::size_t n_outputs_;
  NodeWeights weights_;
  std::vector<float> own_;    // (row i, output)
  std::vector<double> sums_;  // of w y by output
  std::vector<double> left_;
  double sum_of_squares_ = 0.0;
  bool is_pure_ = false;
  double left_weight_ = 0.0;
};

// Which of many outputs a row has: one class, or several labels, each with 1.
struct LabelsView {
  std::span<const std::uint64_t> starts;  // of each row's labels, and their end; empty: one label a row
  std::span<const std::uint32_t> labels;
  std::uint32_t n_labels;

  std::span<const std::uint32_t> of_row(std::size_t row) const noexcept {
    return starts.empty() ? labels.subspan(row, 1) : labels.subspan(starts[row], starts[row + 1] - starts[row]);
  }
};

// Costs a row its labels, not all of them.
class LabelTarget {
 public:
  LabelTarget(const LabelsView& y, RowWeights weights)
      : y_(y), weights_(weights), sums_(y.n_labels), left_(y.n_labels), lanes_(y.starts.empty() ? kLanes * y.n_labels : 0) {}

  void enter(std::span<const row_t> rows);
  double weight() const noexcept { return weights_.total(); }
  double impurity() const noexcept;
  bool is_pure() const noexcept { return is_pure_; }
  double gain(std::span<const float> values, float threshold, row_t& n_left /* OUT */);
  void begin_scan();
  void move_left(std::size_t i) noexcept;
  double gain_of_scan() const noexcept;
  std::size_t n_choices() const noexcept { return present_.size(); }
  double weighted_label(std::size_t i, std::size_t choice) const noexcept;
  double row_weight(std::size_t i) const noexcept { return weights_[i]; }

 private:
  static constexpr std::size_t kLanes = 4;

  bool has_one_each() const noexcept { return y_.starts.empty(); }
  std::span<const std::uint32_t> labels(std::size_t i) const noexcept {
    if (has_one_each()) return std::span(own_).subspan(i, 1);
    return std::span(own_).subspan(own_starts_[i], own_starts_[i + 1] - own_starts_[i]);
  }
  // Sums of weights by label into left_, of all labels; n_left: the number of rows.
  double sum_left(std::span<const float> values, float threshold, row_t& n_left /* OUT */);
  double sum_left_of_one_each(std::span<const float> values, float threshold, row_t& n_left /* OUT */);
  double gain(double left_weight, double left_squares, double left_products) const noexcept;

  LabelsView y_;
  NodeWeights weights_;
  std::vector<std::uint32_t> own_, own_starts_;  // labels of row i; starts only if it may have several
  std::vector<double> sums_, left_;              // by label; 0 for labels that the node lacks
  std::vector<double> lanes_;                    // (label, lane); all 0 between calls
  std::vector<std::uint32_t> present_;           // labels that the node has, in order of appearance
  double sum_of_squares_ = 0.0;
  bool is_pure_ = false;
  double left_weight_ = 0.0, left_squares_ = 0.0, left_products_ = 0.0;  // W_L, Σ S_L², Σ S_L S
};

}  // namespace mtboost
