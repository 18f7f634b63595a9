// SPDX-License-Identifier: Apache-2.0
// What the splits of a forest are judged by: one number a row, several, or labels. Each kind knows the rows of one node
// and says how much a division of them in two gains:
//
//   gain = W_L W_R / W · Σ_j (S_Lj / W_L − S_Rj / W_R)²,    S sums of w y, W sums of w, j over the outputs
//
// the fall of Σ w ‖y − mean‖². With indicators of classes as outputs this is half the fall of the Gini index (of two
// classes, of one indicator: a quarter), so that trees of classes and of numbers grow alike. The squared difference
// loses nothing to cancellation, as the difference of squares would. Naive twin: tests/oracle/naive_forest.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

// Weights of a tree's rows: empty if all are 1.
using RowWeights = std::span<const double>;

// The rows of one node, in the node's order: "row i" is the i-th of them.
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

  // The values that task splits are found by: w y of row i; with several outputs, of one that is chosen.
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

// Outputs of which a row has few: one class, or several labels with the value 1 or with given values.
struct LabelsView {
  std::span<const std::uint64_t> starts;  // of each row's labels, and their end; empty: one label a row
  std::span<const std::uint32_t> labels;
  std::uint32_t n_labels;
  std::span<const double> values{};  // of each of `labels`; empty: all 1

  std::size_t n_rows() const noexcept { return starts.empty() ? labels.size() : starts.size() - 1; }
  std::span<const std::uint32_t> of_row(std::size_t row) const noexcept {
    return starts.empty() ? labels.subspan(row, 1) : labels.subspan(starts[row], starts[row + 1] - starts[row]);
  }
  // Calls visit(label, value) for each label of a row.
  template <typename Visit>
  void for_each(std::size_t row, Visit&& visit) const {
    const std::size_t begin = starts.empty() ? row : starts[row], end = starts.empty() ? row + 1 : starts[row + 1];
    for (std::size_t i = begin; i < end; ++i) visit(labels[i], values.empty() ? 1.0 : values[i]);
  }
  bool are_equal(std::size_t row, std::size_t other) const noexcept {
    const auto own = of_row(row), others = of_row(other);
    return std::ranges::equal(own, others) &&
           (values.empty() || starts.empty() ||
            std::equal(values.begin() + starts[row], values.begin() + starts[row + 1], values.begin() + starts[other]));
  }
};

// Costs a row its labels, not all of them.
class LabelTarget {
 public:
  LabelTarget(const LabelsView& y, RowWeights weights)
      : y_(y),
        weights_(weights),
        is_present_(y.n_labels, 0),
        sums_(y.n_labels),
        left_(y.n_labels),
        lanes_(y.starts.empty() ? kLanes * y.n_labels : 0) {}

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
  void enter_one_each(std::span<const row_t> rows);
  void enter_several(std::span<const row_t> rows);
  void add(std::uint32_t label, double weighted) {
    if (!is_present_[label]) present_.push_back(label);
    is_present_[label] = 1;
    sums_[label] += weighted;
  }
  // Calls visit(label, w y) for each label of row i.
  template <typename Visit>
  void for_each(std::size_t i, Visit&& visit) const {
    if (has_one_each()) return visit(own_[i], weights_[i]);
    for (std::size_t k = own_starts_[i]; k < own_starts_[i + 1]; ++k) visit(own_[k], own_weighted_[k]);
  }
  // Sums of w y by label into left_, and the sum of w; n_left: the number of rows.
  double sum_left(std::span<const float> values, float threshold, row_t& n_left /* OUT */);
  double sum_left_of_one_each(std::span<const float> values, float threshold, row_t& n_left /* OUT */);
  double gain(double left_weight, double left_squares, double left_products) const noexcept;

  LabelsView y_;
  NodeWeights weights_;
  std::vector<std::uint32_t> own_, own_starts_;                // labels of row i; starts only if it may have several
  std::vector<double> own_weighted_;                           // w y of each of them; only then, too
  std::vector<std::uint8_t> is_present_;                       // by label
  std::vector<double> sums_, left_;                            // by label; 0 for labels that the node lacks
  std::vector<double> lanes_;                                  // (label, lane); all 0 between calls
  std::vector<std::uint32_t> present_;                         // labels that the node has, in order of appearance
  double sum_of_squares_ = 0.0, sum_of_values_squared_ = 0.0;  // Σ S², Σ w y²
  bool is_pure_ = false;
  double left_weight_ = 0.0, left_squares_ = 0.0, left_products_ = 0.0;  // W_L, Σ S_L², Σ S_L S
};

}  // namespace mtboost
