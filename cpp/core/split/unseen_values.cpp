// SPDX-License-Identifier: Apache-2.0
#include "split/unseen_values.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {
namespace {

// What subtracting a sibling's sums leaves of a bin that has no rows is less than this part of all sums.
constexpr double kRounding = 1e-9;

}  // namespace

std::vector<std::uint8_t> bins_with_rows(std::span<const GradientSums> bins) {
  double gradient = 0.0, hessian = 0.0;
  for (const GradientSums& bin : bins) {
    gradient += std::abs(bin.gradient);
    hessian += std::abs(bin.hessian);
  }
  std::vector<std::uint8_t> has_rows(bins.size());
  for (std::size_t bin = 0; bin < bins.size(); ++bin)
    has_rows[bin] = std::abs(bins[bin].gradient) > kRounding * gradient || bins[bin].hessian > kRounding * hessian;
  return has_rows;
}

void send_unseen_to_larger_side(std::span<const std::uint8_t> has_rows, bool has_missing, Split& split) {
  const bool is_left_larger = split.left.hessian >= split.right.hessian;
  if (!has_missing) split.rule.default_left = is_left_larger;
  if (split.rule.kind == SplitKind::ordered) return;
  const auto is_unseen = [&](bin_t bin) { return has_rows[bin] == 0; };
  // The split of missing values from all others lists only such categories; XGBoost loads no node that lists none.
  if (std::ranges::all_of(split.listed_bins, is_unseen)) return;
  std::erase_if(split.listed_bins, is_unseen);
  if (is_left_larger) return;
  for (bin_t bin = 0; bin < has_rows.size(); ++bin)
    if (has_rows[bin] == 0) split.listed_bins.push_back(bin);
}

}  // namespace mtboost
