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

FeatureColumns::FeatureColumns(const SparseTable& table, feature_t n_features)
    : n_rows_(static_cast<row_t>(table.n_rows())),
      has_missing_(n_features, 0),
      starts_(n_features + 1, 0),
      row_starts_(table.indptr),
      features_(table.indices) {
  const auto for_each_value = [&](const auto& visit) {
    for (row_t row = 0; row < n_rows_; ++row)
      for (auto i = table.indptr[row]; i < table.indptr[row + 1]; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (table.values[at] != 0.0f) visit(row, table.indices[at], table.values[at]);
      }
  };
  for_each_value([&](row_t, feature_t feature, float) { ++starts_[feature + 1]; });
  for (feature_t feature = 0; feature < n_features; ++feature) starts_[feature + 1] += starts_[feature];
  std::vector<std::size_t> next(starts_.begin(), starts_.end() - 1);
  rows_.resize(starts_.back());
  values_ = std::make_unique_for_overwrite<float[]>(starts_.back());
  for_each_value([&](row_t row, feature_t feature, float value) {
    rows_[next[feature]] = row;
    values_[next[feature]++] = value;
    has_missing_[feature] |= static_cast<std::uint8_t>(std::isnan(value));
  });
  if (starts_.back() == table.indices.size()) return;
  own_row_starts_.assign(n_rows_ + std::size_t{1}, 0);
  own_features_.reserve(starts_.back());
  for_each_value([&](row_t row, feature_t feature, float) {
    ++own_row_starts_[row + 1];
    own_features_.push_back(feature);
  });
  for (row_t row = 0; row < n_rows_; ++row) own_row_starts_[row + 1] += own_row_starts_[row];
  row_starts_ = own_row_starts_;
  features_ = own_features_;
}

}  // namespace mtboost
