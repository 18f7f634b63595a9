// SPDX-License-Identifier: Apache-2.0
// Which of a node's rows have a stored value of a sparse feature: the meeting of two ascending lists of rows. Whichever
// list is behind leaps forward, so that it costs the shorter list times the logarithm of the leaps: joly2016's binary
// search and its inverse mapping (section 8.2) in one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {

// First position at or after `from` whose row is not below `row`.
inline std::size_t leap(std::span<const row_t> rows, std::size_t from, row_t row) noexcept {
  std::size_t end = from;
  for (std::size_t step = 1; end < rows.size() && rows[end] < row; step *= 2) {
    from = end + 1;
    end += step;
  }
  const auto last = rows.begin() + static_cast<std::ptrdiff_t>(std::min(end, rows.size()));
  return static_cast<std::size_t>(std::lower_bound(rows.begin() + static_cast<std::ptrdiff_t>(from), last, row) -
                                  rows.begin());
}

// Calls visit(position, bin) for each position of `rows`, which ascend, whose value is stored.
template <typename Visit>
void for_each_value(const BinnedMatrix::SparseColumn& column, std::span<const row_t> rows, const Visit& visit) {
  std::size_t position = 0, entry = 0;
  while (position < rows.size() && entry < column.rows.size()) {
    if (rows[position] < column.rows[entry]) {
      position = leap(rows, position, column.rows[entry]);
    } else if (column.rows[entry] < rows[position]) {
      entry = leap(column.rows, entry, rows[position]);
    } else {
      visit(position++, bin_t{column.bins[entry++]});
    }
  }
}

}  // namespace mtboost
