// SPDX-License-Identifier: Apache-2.0
// Where a split sends what no row of the node has: missing values, and categories. The libraries' models always send it to
// the same side, whatever is there; its mean may be far from that of the node, which is the best guess for such values. The
// mean of the larger side, by its sum of hessians, is nearer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "split/split.hpp"

namespace mtboost {

// Whether each bin of a feature has rows in a node, by the sums of their gradients.
std::vector<std::uint8_t> bins_with_rows(std::span<const GradientSums> bins);

// Of XGBoost's trees, whose categories that are listed go right. has_rows: of each bin; used for categories only.
void send_unseen_to_larger_side(std::span<const std::uint8_t> has_rows, bool has_missing, Split& split /* IN-OUT */);

}  // namespace mtboost
