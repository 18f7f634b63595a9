// SPDX-License-Identifier: Apache-2.0
#include "loss/loss.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "base/ranges.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 4096;

bool is_finite(const GradientPair& pair) noexcept {
  return std::isfinite(pair.gradient) && std::isfinite(pair.hessian);
}

template <typename T>
std::string exact(T value) {
  std::ostringstream text;
  text.precision(std::numeric_limits<T>::max_digits10);
  text << value;
  return text.str();
}

// "row 57", or "row 57, output 2" where there are several.
std::string place(std::size_t index, std::size_t n_columns) {
  std::string text = "row " + std::to_string(index / n_columns);
  if (n_columns > 1) text += ", output " + std::to_string(index % n_columns);
  return text;
}

void require_size(const char* name, std::size_t found, std::size_t expected) {
  require(found == expected,
          std::string(name) + " must hold " + std::to_string(expected) + " numbers, found " + std::to_string(found));
}

}  // namespace

template <typename Margin>
void Loss<Margin>::check_labels(std::span<const float> labels) const {
  const auto is_refused = [this](float label) { return !accepts(label); };
  const auto first = std::find_if(labels.begin(), labels.end(), is_refused);
  if (first == labels.end()) return;
  const auto n_refused = std::count_if(first, labels.end(), is_refused);
  throw std::invalid_argument(name_ + " needs " + label_domain() + ", but " + std::to_string(n_refused) +
                              (n_refused == 1 ? " label is not: " : " labels are not, the first one at ") +
                              place(static_cast<std::size_t>(first - labels.begin()), n_labels_) + " (value " +
                              exact(*first) + "). Recode the labels or choose another objective.");
}

template <typename Margin>
std::size_t Loss<Margin>::check_shapes(const LossRows<Margin>& rows) const {
  const std::size_t n_rows = rows.margins.size() / n_outputs_;
  require_size("margins", rows.margins.size(), n_rows * n_outputs_);
  require_size("labels", rows.labels.size(), n_rows * n_labels_);
  if (!rows.weights.empty()) require_size("weights", rows.weights.size(), n_rows);
  return n_rows;
}

// Without early exit, so that the compiler can check many pairs at once; a block has just been written to cache.
template <typename Margin>
bool Loss<Margin>::all_finite(std::span<const GradientPair> pairs) noexcept {
  bool all = true;
  for (const GradientPair& pair : pairs) all &= is_finite(pair);
  return all;
}

template <typename Margin>
bool Loss<Margin>::compute(const LossRows<Margin>& rows, ThreadPool& pool, std::span<GradientPair> pairs) const {
  const std::size_t n_rows = rows.margins.size() / n_outputs_;
  const std::vector<Margin> summary = summarise(rows, pool);
  std::atomic<bool> is_usable{true};
  pool.parallel_for((n_rows + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const std::size_t first_row = block * kRowsPerBlock;
    const std::size_t last_row = std::min(first_row + kRowsPerBlock, n_rows);
    gradients_of_block(rows, summary, first_row, last_row, pairs.data());
    if (!all_finite(pairs.subspan(first_row * n_outputs_, (last_row - first_row) * n_outputs_))) is_usable = false;
  });
  return is_usable;
}

template <typename Margin>
void Loss<Margin>::gradients(const LossRows<Margin>& rows, ThreadPool& pool, std::span<GradientPair> pairs) const {
  require_size("pairs", pairs.size(), check_shapes(rows) * n_outputs_);
  if (compute(rows, pool, pairs)) return;

  const auto first = std::find_if_not(pairs.begin(), pairs.end(), is_finite);
  const auto index = static_cast<std::size_t>(first - pairs.begin());
  const std::size_t row = index / n_outputs_;
  const float label = rows.labels[n_labels_ == n_outputs_ ? index : row * n_labels_];
  throw std::runtime_error("the gradient of " + name_ + " is not finite at " + place(index, n_outputs_) + " (margin " +
                           exact(rows.margins[index]) + ", label " + exact(label) + ", weight " +
                           exact(rows.weight(row)) +
                           "). Lower learning_rate, rescale the labels or weights, or check " + kStart + ".");
}

template <typename Margin>
void Loss<Margin>::refit_leaf_values(std::span<const node_t> leaves, const LossRows<Margin>& rows, std::size_t output,
                                     Margin learning_rate, ThreadPool& pool, std::span<Margin> values) const {
  require_size("leaves", leaves.size(), check_shapes(rows));
  require_finite("learning_rate", learning_rate);
  require(output < n_outputs_,
          "output must be below " + std::to_string(n_outputs_) + ", found " + std::to_string(output));
  const auto last = std::max_element(leaves.begin(), leaves.end());
  require(last == leaves.end() || *last < static_cast<node_t>(values.size()),
          "leaves names a node beyond the " + std::to_string(values.size()) + " of leaf_values");
  refit(leaves, rows, output, learning_rate, pool, values);
}

template class Loss<float>;
template class Loss<double>;

}  // namespace mtboost
