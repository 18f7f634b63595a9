// SPDX-License-Identifier: Apache-2.0
#include "forest/split_targets.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {

void NodeWeights::enter(std::span<const row_t> rows) {
  total_ = static_cast<double>(rows.size());
  if (weights_.empty()) return;
  own_.resize(rows.size());
  total_ = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i) total_ += own_[i] = weights_[rows[i]];
}

// One number a row ------------------------------------------------------------------------------------------------------

void ScalarTarget::enter(std::span<const row_t> rows) {
  weights_.enter(rows);
  own_.resize(rows.size());
  sum_ = sum_of_squares_ = 0.0;
  const double first = y_[rows.front()];
  is_pure_ = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double y = y_[rows[i]], weighted = weights_[i] * y;
    is_pure_ &= y == first;
    own_[i] = weighted;
    sum_ += weighted;
    sum_of_squares_ += weighted * y;
  }
}

double ScalarTarget::impurity() const noexcept {
  const double mean = sum_ / weight();
  return std::max(0.0, sum_of_squares_ / weight() - mean * mean);
}

// (S_L W − S W_L)² / (W W_L W_R): the same with one division. A difference that is all rounding is none: splits that gain
// nothing are equal, however they were added up.
double ScalarTarget::gain(double left_sum, double left_weight) const noexcept {
  constexpr double kRounding = 1e-12;
  const double left = left_sum * weight(), right = sum_ * left_weight;
  const double difference = left - right;
  if (std::abs(difference) <= kRounding * (std::abs(left) + std::abs(right))) return 0.0;
  return difference * difference / (weight() * left_weight * (weight() - left_weight));
}

// Comparisons first, then sums in lanes: both become vector instructions, and no jump waits for a comparison.
double ScalarTarget::gain(std::span<const float> values, float threshold, row_t& n_left) {
  constexpr std::size_t kBlock = 64, kLanes = 4;
  const std::size_t n = values.size();
  const double* weights = weights_.data();
  double sums[kLanes]{}, numbers[kLanes]{}, left_weights[kLanes]{};
  alignas(64) float is_left[kBlock];
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t n_block = std::min(kBlock, n - begin);
    const float* value = values.data() + begin;
    const double* own = own_.data() + begin;
    for (std::size_t i = 0; i < n_block; ++i) is_left[i] = value[i] < threshold ? 1.0f : 0.0f;
    std::size_t i = 0;
    for (; i + kLanes <= n_block; i += kLanes)
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums[lane] += static_cast<double>(is_left[i + lane]) * own[i + lane];
        numbers[lane] += static_cast<double>(is_left[i + lane]);
      }
    for (; i < n_block; ++i) {
      sums[0] += static_cast<double>(is_left[i]) * own[i];
      numbers[0] += static_cast<double>(is_left[i]);
    }
    if (weights == nullptr) continue;
    for (i = 0; i < n_block; ++i) left_weights[i % kLanes] += static_cast<double>(is_left[i]) * weights[begin + i];
  }
  const auto total = [](const double* lanes) { return (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]); };
  n_left = static_cast<row_t>(total(numbers));
  return gain(total(sums), total(weights == nullptr ? numbers : left_weights));
}

void ScalarTarget::begin_scan() { left_sum_ = left_weight_ = 0.0; }

void ScalarTarget::move_left(std::size_t i) noexcept {
  left_sum_ += own_[i];
  left_weight_ += weights_[i];
}

double ScalarTarget::gain_of_scan() const noexcept { return gain(left_sum_, left_weight_); }

// Several numbers -------------------------------------------------------------------------------------------------------

void VectorTarget::enter(std::span<const row_t> rows) {
  weights_.enter(rows);
  own_.resize(rows.size() * n_outputs_);
  std::ranges::fill(sums_, 0.0);
  sum_of_squares_ = 0.0;
  is_pure_ = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* from = y_.data() + std::size_t{rows[i]} * n_outputs_;
    float* to = own_.data() + i * n_outputs_;
    for (std::size_t output = 0; output < n_outputs_; ++output) {
      to[output] = from[output];
      const double weighted = weights_[i] * from[output];
      sums_[output] += weighted;
      sum_of_squares_ += weighted * from[output];
      is_pure_ &= to[output] == own_[output];
    }
  }
}

double VectorTarget::impurity() const noexcept {
  double squares = 0.0;
  for (const double sum : sums_) squares += sum * sum;
  return std::max(0.0, (sum_of_squares_ - squares / weight()) / weight());
}

double VectorTarget::gain(double left_weight) const noexcept {
  const double right_weight = weight() - left_weight;
  double squares = 0.0;
  for (std::size_t output = 0; output < n_outputs_; ++output) {
    const double difference = left_[output] / left_weight - (sums_[output] - left_[output]) / right_weight;
    squares += difference * difference;
  }
  return left_weight * right_weight / weight() * squares;
}

double VectorTarget::gain(std::span<const float> values, float threshold, row_t& n_left) {
  begin_scan();
  n_left = 0;
  double* left = left_.data();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_left = values[i] < threshold;
    n_left += is_left;
    const double weight = is_left ? weights_[i] : 0.0;
    left_weight_ += weight;
    const float* own = own_.data() + i * n_outputs_;
    for (std::size_t output = 0; output < n_outputs_; ++output) left[output] += weight * own[output];
  }
  return gain(left_weight_);
}

void VectorTarget::begin_scan() {
  std::ranges::fill(left_, 0.0);
  left_weight_ = 0.0;
}

void VectorTarget::move_left(std::size_t i) noexcept {
  const double weight = weights_[i];
  left_weight_ += weight;
  for (std::size_t output = 0; output < n_outputs_; ++output) left_[output] += weight * own_[i * n_outputs_ + output];
}

double VectorTarget::gain_of_scan() const noexcept { return gain(left_weight_); }

// Labels ----------------------------------------------------------------------------------------------------------------

void LabelTarget::enter(std::span<const row_t> rows) {
  weights_.enter(rows);
  for (const std::uint32_t label : present_) sums_[label] = is_present_[label] = 0;
  present_.clear();
  if (has_one_each())
    enter_one_each(rows);
  else
    enter_several(rows);
  sum_of_squares_ = 0.0;
  for (const std::uint32_t label : present_) sum_of_squares_ += sums_[label] * sums_[label];
}

void LabelTarget::enter_one_each(std::span<const row_t> rows) {
  own_.resize(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) add(own_[i] = y_.labels[rows[i]], weights_[i]);
  sum_of_values_squared_ = weight();
  is_pure_ = present_.size() == 1;
}

void LabelTarget::enter_several(std::span<const row_t> rows) {
  own_.clear();
  own_weighted_.clear();
  own_starts_.assign(1, 0);
  sum_of_values_squared_ = 0.0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    y_.for_each(rows[i], [&](std::uint32_t label, double value) {
      const double weighted = weights_[i] * value;
      add(label, weighted);
      own_.push_back(label);
      own_weighted_.push_back(weighted);
      sum_of_values_squared_ += weighted * value;
    });
    own_starts_.push_back(static_cast<std::uint32_t>(own_.size()));
  }
  is_pure_ = std::ranges::all_of(rows, [&](row_t row) { return y_.are_equal(row, rows.front()); });
}

double LabelTarget::impurity() const noexcept {
  return std::max(0.0, (sum_of_values_squared_ - sum_of_squares_ / weight()) / weight());
}

double LabelTarget::gain(double left_weight, double left_squares, double left_products) const noexcept {
  const double right_squares = sum_of_squares_ - 2.0 * left_products + left_squares;
  const double gain =
      left_squares / left_weight + right_squares / (weight() - left_weight) - sum_of_squares_ / weight();
  return std::max(0.0, gain);
}

double LabelTarget::gain(std::span<const float> values, float threshold, row_t& n_left) {
  const double left_weight =
      has_one_each() ? sum_left_of_one_each(values, threshold, n_left) : sum_left(values, threshold, n_left);
  double squares = 0.0, products = 0.0;
  for (const std::uint32_t label : present_) {
    const double left = left_[label];
    squares += left * left;
    products += left * sums_[label];
    left_[label] = 0.0;
  }
  return gain(left_weight, squares, products);
}

double LabelTarget::sum_left(std::span<const float> values, float threshold, row_t& n_left) {
  n_left = 0;
  double left_weight = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] < threshold)) continue;
    ++n_left;
    left_weight += weights_[i];
    for_each(i, [&](std::uint32_t label, double weighted) { left_[label] += weighted; });
  }
  return left_weight;
}

// In lanes: neighbouring rows often share a label, and an addition to its sum would wait for the one before.
double LabelTarget::sum_left_of_one_each(std::span<const float> values, float threshold, row_t& n_left) {
  const float* value = values.data();
  const std::uint32_t* own = own_.data();
  const double* weights = weights_.data();
  double* lanes = lanes_.data();
  double left_weights[kLanes]{};
  row_t numbers[kLanes]{};
  const auto add = [&](std::size_t i, std::size_t lane) {
    const row_t is_left = value[i] < threshold;
    const double weight = weights == nullptr ? is_left : is_left * weights[i];
    numbers[lane] += is_left;
    left_weights[lane] += weight;
    lanes[kLanes * own[i] + lane] += weight;
  };
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  for (; i < values.size(); ++i) add(i, 0);
  const auto take_total = [](auto* from) {
    const auto total = (from[0] + from[1]) + (from[2] + from[3]);
    std::fill_n(from, kLanes, 0);
    return total;
  };
  for (const std::uint32_t label : present_) left_[label] = take_total(lanes + kLanes * label);
  n_left = take_total(numbers);
  return take_total(left_weights);
}

void LabelTarget::begin_scan() {
  for (const std::uint32_t label : present_) left_[label] = 0.0;
  left_weight_ = left_squares_ = left_products_ = 0.0;
}

void LabelTarget::move_left(std::size_t i) noexcept {
  left_weight_ += weights_[i];
  for_each(i, [&](std::uint32_t label, double weighted) {
    double& left = left_[label];
    left_squares_ += weighted * (2.0 * left + weighted);
    left_products_ += weighted * sums_[label];
    left += weighted;
  });
}

double LabelTarget::gain_of_scan() const noexcept { return gain(left_weight_, left_squares_, left_products_); }

double LabelTarget::weighted_label(std::size_t i, std::size_t choice) const noexcept {
  double found = 0.0;
  for_each(i, [&](std::uint32_t label, double weighted) { found += label == present_[choice] ? weighted : 0.0; });
  return found;
}

}  // namespace mtboost
