// SPDX-License-Identifier: Apache-2.0
#include "grow/sorted_growth.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/require.hpp"
#include "base/vector_clones.hpp"
#include "split/unseen_values.hpp"
#include "tree/tree.hpp"

namespace mtboost {
namespace {

constexpr float kMinGain = 1e-6f;  // XGBoost's kRtEps: smaller gains are noise
constexpr double kMargin = 1e-5;   // beyond the least and the largest value, beside the value itself

// Position of the lowest bit that is set, as a power of two; the largest int for 0.
int lowest_bit(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = bits >> 23 & 0xff;
  std::uint32_t digits = bits & 0x7fffff;
  if (exponent != 0) digits |= 0x800000;
  if (digits == 0) return std::numeric_limits<int>::max();
  return static_cast<int>(std::max(exponent, 1u)) - 150 + std::countr_zero(digits);
}

MTBOOST_VECTOR_CLONES
void find_gains(const XgboostArithmetic& arithmetic, std::span<const double> gradients,
                std::span<const double> hessians, bool are_left, const NodeSums& node,
                std::span<float> gains /* OUT */) noexcept {
  arithmetic.split_gains(gradients, hessians, are_left, node, 0, gains);
}

}  // namespace

// ---- columns ------------------------------------------------------------------------------------

SortedFeatures::SortedFeatures(const MatrixView<float>& cells, Arithmetic arithmetic)
    : n_rows_(cells.n_rows),
      n_features_(cells.n_columns),
      order_(n_rows_ * n_features_),
      bins_(order_.size()),
      arithmetic_(arithmetic) {
  require(n_rows_ <= kMostRows, "a small model has more than 65535 rows");
  std::vector<std::pair<float, std::uint16_t>> present;
  std::vector<std::uint16_t> missing;
  for (std::size_t feature = 0; feature < n_features_; ++feature) {
    present.clear();
    missing.clear();
    for (std::size_t row = 0; row < n_rows_; ++row) {
      const float value = cells(row, feature);
      if (std::isnan(value))
        missing.push_back(static_cast<std::uint16_t>(row));
      else
        present.emplace_back(value, static_cast<std::uint16_t>(row));
    }
    std::ranges::sort(present);
    std::uint16_t* const order = order_.data() + feature * n_rows_;
    std::uint16_t* const bins = bins_.data() + feature * n_rows_;
    std::uint16_t bin = 0;
    for (std::size_t place = 0; place < present.size(); ++place) {
      const auto [value, row] = present[place];
      if (place > 0 && value != present[place - 1].first) ++bin;
      order[place] = row;
      bins[row] = bin;
    }
    std::ranges::copy(missing, order + present.size());
    for (const std::uint16_t row : missing) bins[row] = kMissing;
  }
}

std::span<const std::uint16_t> SortedFeatures::present(feature_t feature) const noexcept {
  const auto rows = std::span(order_).subspan(feature * n_rows_, n_rows_);
  const auto own = bins(feature);
  const auto end = std::ranges::partition_point(rows, [&](std::uint16_t row) { return own[row] != kMissing; });
  return {rows.begin(), end};
}

float SortedFeatures::min_value(feature_t feature, const MatrixView<float>& cells) const noexcept {
  if (arithmetic_ == Arithmetic::xgboost_3_4) return -std::numeric_limits<float>::infinity();
  const double least = cells(present(feature).front(), feature);
  return static_cast<float>(least - (std::abs(least) + kMargin));
}

float SortedFeatures::threshold(feature_t feature, std::size_t n_bins, const MatrixView<float>& cells) const noexcept {
  if (n_bins == 0) return min_value(feature, cells);
  const auto rows = present(feature);
  const auto own = bins(feature);
  const auto first = std::ranges::partition_point(rows, [&](std::uint16_t row) { return own[row] < n_bins; });
  if (first != rows.end()) return cells(*first, feature);
  const double largest = cells(rows.back(), feature);
  return static_cast<float>(largest + (std::abs(largest) + kMargin));
}

std::vector<float> SortedFeatures::edges(feature_t feature, const MatrixView<float>& cells) const {
  const auto rows = present(feature);
  std::vector<float> ends;
  if (rows.empty()) return ends;
  const std::size_t n_bins = bins(feature)[rows.back()] + std::size_t{1};
  for (std::size_t bin = 0; bin < n_bins; ++bin) ends.push_back(threshold(feature, bin + 1, cells));
  return ends;
}

// ---- one tree -----------------------------------------------------------------------------------

bool are_sums_exact(std::span<const GradientPair> gradients) noexcept {
  constexpr int kDigits = std::numeric_limits<double>::digits;
  const auto is_exact = [&](auto part) {
    double sum = 0.0;
    int lowest = std::numeric_limits<int>::max();
    for (const GradientPair& pair : gradients) {
      sum += std::abs(static_cast<double>(part(pair)));
      lowest = std::min(lowest, lowest_bit(part(pair)));
    }
    // The bound is rounded, by less than one in a thousand.
    return sum == 0.0 || sum * 1.001 < std::ldexp(1.0, kDigits + lowest);
  };
  return is_exact([](const GradientPair& pair) { return pair.gradient; }) &&
         is_exact([](const GradientPair& pair) { return pair.hessian; });
}

SortedGrowth::SortedGrowth(const XgboostParams& params, bool draws_unseen)
    : params_(params), draws_unseen_(draws_unseen), arithmetic_(params_) {}

void SortedGrowth::grow(const SortedFeatures& columns, const MatrixView<float>& cells,
                        std::span<const GradientPair> pairs) {
  const std::size_t n_rows = columns.n_rows();
  nodes.clear();
  leaves.assign(n_rows, 0);
  goes_left_.resize(n_rows);
  g_.resize(n_rows);
  h_.resize(n_rows);
  GradientSums total;
  for (std::size_t row = 0; row < n_rows; ++row) {
    g_[row] = pairs[row].gradient;
    h_[row] = pairs[row].hessian;
    total += {g_[row], h_[row]};
  }
  const NodeSums root = node_sums(total);
  add_node(kNoNode, root);
  std::vector<Open> level;
  if (n_rows > 1 && arithmetic_.may_have_children(root.sums)) {
    order_.assign(columns.order().begin(), columns.order().end());
    level.push_back({0, 0, static_cast<std::uint32_t>(n_rows), root, {}});
  }
  while (!level.empty()) {
    std::vector<Open> next;
    if (next_order_.size() < order_.size()) next_order_.resize(order_.size());
    for (Open& open : level) find_split(columns, open);
    for (Open& open : level) {
      BestSplit& split = open.split;
      if (split.gain == 0.0f || split.left.hessian == 0.0 || split.right.hessian == 0.0) continue;
      if (draws_unseen_ && !split.has_missing)
        split.default_left = is_left_drawn(split.feature, split.gain, split.left.hessian, split.right.hessian);
      const NodeSums left = node_sums(split.left), right = node_sums(split.right);
      const node_t first = add_node(open.node, left);
      add_node(open.node, right);
      SmallNode& parent = nodes[static_cast<std::size_t>(open.node)];
      const GradientSums sums = split.left + split.right;
      parent.left = first;
      parent.feature = split.feature;
      parent.condition = columns.threshold(split.feature, split.position, cells);
      parent.default_left = split.default_left;
      parent.gain = split.gain;
      parent.hessian = static_cast<float>(sums.hessian);
      parent.base_weight = arithmetic_.weight(sums, open.sums.bounds);
      const std::uint32_t n_left = mark_sides(columns, open);
      const auto rows = std::span(order_).subspan(open.begin, open.end - open.begin);  // of the first feature
      for (const std::uint16_t row : rows) leaves[row] = first + (goes_left_[row] != 0 ? 0 : 1);
      const int depth = open.sums.depth + 1;
      if (depth >= params_.max_depth) continue;
      divide(columns, open, n_left);
      const std::uint32_t middle = open.begin + n_left;
      for (Open child : {Open{first, open.begin, middle, left, {}}, Open{first + 1, middle, open.end, right, {}}}) {
        child.sums.depth = depth;
        if (child.end - child.begin > 1 && arithmetic_.may_have_children(child.sums.sums)) next.push_back(child);
      }
    }
    std::swap(order_, next_order_);
    level = std::move(next);
  }
  for (std::size_t node = 1; node < nodes.size(); ++node)  // XGBoost's record of a leaf, the root excepted
    if (nodes[node].left == kNoNode) nodes[node].base_weight = nodes[node].condition;
}

node_t SortedGrowth::add_node(node_t parent, const NodeSums& sums) {
  const auto weight = static_cast<float>(sums.weight);
  nodes.push_back(
      {kNoNode, parent, 0, weight * params_.learning_rate, 0.0f, static_cast<float>(sums.sums.hessian), weight, false});
  return static_cast<node_t>(nodes.size() - 1);
}

NodeSums SortedGrowth::node_sums(const GradientSums& sums) const noexcept {
  NodeSums node;
  node.sums = sums;
  node.bounds = {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
  node.weight = arithmetic_.weight(sums, node.bounds);
  node.gain = arithmetic_.gain(sums, node.bounds);
  return node;
}

void SortedGrowth::find_split(const SortedFeatures& columns, Open& open) {
  const std::size_t n_rows = open.end - open.begin;
  if (gains_.size() < n_rows) {
    near_gradients_.resize(n_rows);
    near_hessians_.resize(n_rows);
    step_bins_.resize(n_rows);
    gains_.resize(n_rows);
  }
  for (feature_t feature = 0; feature < columns.n_features(); ++feature)
    scan(std::span(order_).subspan(feature * columns.n_rows() + open.begin, n_rows), columns.bins(feature), feature,
         open);
}

// First with missing values on the right, ascending; then, if there are any, with them on the left, descending.
void SortedGrowth::scan(std::span<const std::uint16_t> rows, std::span<const std::uint16_t> bins, feature_t feature,
                        Open& open) {
  double gradient = 0.0, hessian = 0.0;
  std::size_t n_steps = 0, n_present = 0;
  std::uint32_t bin = bins[rows.front()];
  for (; n_present < rows.size() && bin != SortedFeatures::kMissing; ++n_present) {
    const std::uint16_t row = rows[n_present];
    gradient += g_[row];
    hessian += h_[row];
    const std::uint32_t next = n_present + 1 < rows.size() ? bins[rows[n_present + 1]] : SortedFeatures::kMissing;
    near_gradients_[n_steps] = gradient;
    near_hessians_[n_steps] = hessian;
    step_bins_[n_steps] = bin + 1;
    n_steps += next != bin ? 1 : 0;
    bin = next;
  }
  const bool has_missing = !(GradientSums{gradient, hessian} == open.sums.sums);
  take_best(true, has_missing, n_steps, feature, open);
  if (!has_missing) return;
  gradient = hessian = 0.0;
  n_steps = 0;
  for (std::size_t place = n_present; place > 0; --place) {
    const std::uint16_t row = rows[place - 1];
    gradient += g_[row];
    hessian += h_[row];
    near_gradients_[n_steps] = gradient;
    near_hessians_[n_steps] = hessian;
    step_bins_[n_steps] = bins[row];
    n_steps += place == 1 || bins[rows[place - 2]] != bins[row] ? 1 : 0;
  }
  take_best(false, has_missing, n_steps, feature, open);
}

void SortedGrowth::take_best(bool are_left, bool has_missing, std::size_t n_steps, feature_t feature, Open& open) {
  find_gains(arithmetic_, std::span(near_gradients_).first(n_steps), std::span(near_hessians_).first(n_steps), are_left,
             open.sums, std::span(gains_).first(n_steps));
  BestSplit& best = open.split;
  std::size_t found = n_steps;
  for (std::size_t step = 0; step < n_steps; ++step) {
    const float gain = gains_[step];
    if (gain > best.gain && gain > kMinGain && gain >= params_.min_split_loss &&
        gain < std::numeric_limits<float>::infinity()) {
      best.gain = gain;
      found = step;
    }
  }
  if (found == n_steps) return;
  const GradientSums near{near_gradients_[found], near_hessians_[found]}, far = open.sums.sums - near;
  best.feature = feature;
  best.position = step_bins_[found];
  best.default_left = !are_left;
  best.has_missing = has_missing;
  best.left = are_left ? near : far;
  best.right = are_left ? far : near;
}

// Number of rows that go left.
std::uint32_t SortedGrowth::mark_sides(const SortedFeatures& columns, const Open& open) {
  const auto bins = columns.bins(open.split.feature);
  const auto rows =
      std::span(order_).subspan(open.split.feature * columns.n_rows() + open.begin, open.end - open.begin);
  std::uint32_t n_left = 0;
  for (const std::uint16_t row : rows) {
    const bool is_left =
        bins[row] == SortedFeatures::kMissing ? open.split.default_left : bins[row] < open.split.position;
    goes_left_[row] = is_left ? 1 : 0;
    n_left += is_left ? 1 : 0;
  }
  return n_left;
}

// Writes the rows of both children, still in order, without a branch: both targets are written, one of them advances.
void SortedGrowth::divide(const SortedFeatures& columns, const Open& open, std::uint32_t n_left) {
  for (std::size_t feature = 0; feature < columns.n_features(); ++feature) {
    const std::size_t first = feature * columns.n_rows();
    const std::uint16_t* rows = order_.data() + first;
    std::uint16_t* const target = next_order_.data() + first;
    std::size_t left = open.begin, right = open.begin + n_left;
    for (std::size_t place = open.begin; place < open.end; ++place) {
      const std::uint16_t row = rows[place];
      const std::size_t is_left = goes_left_[row];
      target[is_left != 0 ? left : right] = row;
      left += is_left;
      right += 1 - is_left;
    }
  }
}

}  // namespace mtboost
