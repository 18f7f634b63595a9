// SPDX-License-Identifier: Apache-2.0
#include "loss/ranking_loss.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kGroupsPerBlock = 8;

// Returns the number of rows of the largest group.
std::size_t check_groups(std::span<const std::uint32_t> begins, std::size_t n_rows, const std::string& name) {
  require(!begins.empty(), name + " needs groups: the first row of each group of rows, and the number of rows");
  require(begins.front() == 0 && begins.back() == n_rows,
          "groups must begin with 0 and end with the number of rows, " + std::to_string(n_rows));
  std::size_t largest = 0;
  for (std::size_t group = 1; group < begins.size(); ++group) {
    require(begins[group - 1] <= begins[group], "groups must not decrease");
    largest = std::max<std::size_t>(largest, begins[group] - begins[group - 1]);
  }
  return largest;
}

}  // namespace

template <typename Margin>
template <typename T>
void RankingLoss<Margin>::sort_descending(std::span<const T> values, std::span<std::uint32_t> order) noexcept {
  std::iota(order.begin(), order.end(), 0u);
  // Not std::stable_sort, which allocates.
  std::sort(order.begin(), order.end(), [values](std::uint32_t a, std::uint32_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
}

template <typename Margin>
bool RankingLoss<Margin>::compute(const LossRows<Margin>& rows, ThreadPool& pool, std::span<GradientPair> pairs) const {
  const std::size_t n_rows = rows.margins.size();
  const std::size_t largest = check_groups(rows.groups, n_rows, this->name());
  // NaN cannot be sorted; the caller then finds the rows without a gradient.
  if (!std::all_of(rows.margins.begin(), rows.margins.end(), [](Margin margin) { return std::isfinite(margin); })) {
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t row = 0; row < n_rows; ++row)
      pairs[row] = std::isfinite(rows.margins[row]) ? GradientPair{0.0f, 0.0f} : GradientPair{kNone, kNone};
    return false;
  }
  std::vector<double> discounts(largest);
  for (std::size_t position = 0; position < largest; ++position)
    discounts[position] = 1.0 / std::log2(static_cast<double>(position) + 2.0);
  std::vector<std::uint32_t> order(n_rows);
  const double factor = weight_factor(rows);
  const std::size_t n_groups = rows.groups.size() - 1;
  pool.parallel_for((n_groups + kGroupsPerBlock - 1) / kGroupsPerBlock, [&](std::size_t block) {
    const std::size_t last = std::min((block + 1) * kGroupsPerBlock, n_groups);
    for (std::size_t group = block * kGroupsPerBlock; group < last; ++group) {
      const std::size_t first = rows.groups[group];
      const std::size_t count = rows.groups[group + 1] - first;
      if (count == 0) continue;
      const LossRows<Margin> own{rows.margins.subspan(first, count), rows.labels.subspan(first, count),
                                 rows.weights.empty() ? rows.weights : rows.weights.subspan(first, count)};
      gradients_of_group(own, {discounts, factor, std::span(order).subspan(first, count)}, pairs.subspan(first, count));
    }
  });
  return this->all_finite(pairs);
}

template class RankingLoss<float>;
template class RankingLoss<double>;
template void RankingLoss<float>::sort_descending(std::span<const float>, std::span<std::uint32_t>) noexcept;
template void RankingLoss<double>::sort_descending(std::span<const float>, std::span<std::uint32_t>) noexcept;
template void RankingLoss<double>::sort_descending(std::span<const double>, std::span<std::uint32_t>) noexcept;

}  // namespace mtboost
