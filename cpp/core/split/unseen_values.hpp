// SPDX-License-Identifier: Apache-2.0
// Where a split sends what no row of the node has: missing values, and categories. The libraries' models always send it to
// the same side, whatever is there; its mean may be far from that of the node, which is the best guess for such values. One
// side, drawn by its part of the hessians, has that mean in expectation; and over many trees the draws cancel, while the
// larger side may be the same in all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "split/split.hpp"

namespace mtboost {

// Whether each bin of a feature has rows in a node, by the sums of their gradients.
std::vector<std::uint8_t> bins_with_rows(std::span<const GradientSums> bins);

// Whether such values go left, by the split's own numbers: the same in every run, whatever the threads and machines.
bool is_left_drawn(feature_t feature, double gain, double left_hessian, double right_hessian) noexcept;

// Calls add(code) for each category that rows may have but none of the training rows has, if a node sends missing values
// right: XGBoost sends right what is listed. n_categories: of each feature; shorter: the others have none.
template <typename Add>
void for_each_unused_category(feature_t feature, bin_t n_bins, bool default_left,
                              std::span<const std::uint32_t> n_categories, Add&& add) {
  if (default_left || feature >= n_categories.size()) return;
  for (bin_t code = n_bins; code < n_categories[feature]; ++code) add(code);
}

// Of XGBoost's trees, whose categories that are listed go right. has_rows: of each bin; used for categories only.
void send_unseen(std::span<const std::uint8_t> has_rows, bool has_missing, bool to_left, Split& split /* IN-OUT */);

}  // namespace mtboost
