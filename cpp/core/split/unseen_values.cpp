// SPDX-License-Identifier: Apache-2.0
#include "split/unseen_values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/random.hpp"

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

bool is_left_drawn(feature_t feature, double gain, double left_hessian, double right_hessian) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(gain));
  RandomStream stream(RandomStream::Purpose::unseen_values, 0, feature, bits);
  return stream.uniform() * (left_hessian + right_hessian) < left_hessian;
}

void send_unseen(std::span<const std::uint8_t> has_rows, bool has_missing, bool to_left, Split& split) {
  if (!has_missing) split.rule.default_left = to_left;
  if (split.rule.kind == SplitKind::ordered) return;
  const auto is_unseen = [&](bin_t bin) { return has_rows[bin] == 0; };
  // The split of missing values from all others lists only such categories; XGBoost loads no node that lists none.
  if (std::ranges::all_of(split.listed_bins, is_unseen)) return;
  std::erase_if(split.listed_bins, is_unseen);
  if (to_left) return;
  for (bin_t bin = 0; bin < has_rows.size(); ++bin)
    if (has_rows[bin] == 0) split.listed_bins.push_back(bin);
}

}  // namespace mtboost
