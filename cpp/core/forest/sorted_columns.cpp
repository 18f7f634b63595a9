// SPDX-License-Identifier: Apache-2.0
#include "forest/sorted_columns.hpp"

#include <algorithm>

namespace mtboost {

SortedColumns::SortedColumns(const MatrixView<float>& table, ThreadPool& pool)
    : n_rows_(static_cast<row_t>(table.n_rows)),
      n_features_(static_cast<feature_t>(table.n_columns)),
      values_(table.n_rows * table.n_columns) {
  pool.parallel_for(n_features_, [&](std::size_t feature) {
    const auto column = std::span(values_).subspan(feature * n_rows_, n_rows_);
    for (row_t row = 0; row < n_rows_; ++row) column[row] = {table(row, feature), row};
    const auto missing = std::ranges::stable_partition(column, [](const SortedValue& own) { return !own.is_missing(); });
    std::sort(column.begin(), missing.begin(), [](const SortedValue& a, const SortedValue& b) {
      return a.value < b.value || (a.value == b.value && a.row < b.row);
    });
  });
}

}  // namespace mtboost
