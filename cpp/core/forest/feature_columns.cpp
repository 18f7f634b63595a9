// SPDX-License-Identifier: Apache-2.0
#include "forest/feature_columns.hpp"

#include <algorithm>
#include <cmath>

namespace mtboost {

FeatureColumns::FeatureColumns(const MatrixView<float>& table, ThreadPool& pool)
    : n_rows_(static_cast<row_t>(table.n_rows)),
      values_(std::make_unique_for_overwrite<float[]>(table.n_rows * table.n_columns)),
      has_missing_(table.n_columns, 0) {
  // Squares of a row-major table: both what is read and what is written then stay in the cache.
  constexpr std::size_t kColumns = 16, kRows = 256;
  pool.parallel_for((table.n_columns + kColumns - 1) / kColumns, [&](std::size_t block) {
    const std::size_t end = std::min((block + 1) * kColumns, table.n_columns);
    for (std::size_t first_row = 0; first_row < table.n_rows; first_row += kRows) {
      const std::size_t last_row = std::min(first_row + kRows, table.n_rows);
      for (std::size_t column = block * kColumns; column < end; ++column) {
        float* to = values_.get() + column * table.n_rows;
        bool has_missing = false;
        for (std::size_t row = first_row; row < last_row; ++row) {
          to[row] = table(row, column);
          has_missing |= std::isnan(to[row]);
        }
        has_missing_[column] |= static_cast<std::uint8_t>(has_missing);
      }
    }
  });
}

}  // namespace mtboost
