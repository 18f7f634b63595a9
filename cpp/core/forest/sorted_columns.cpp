// SPDX-License-Identifier: Apache-2.0
#include "forest/sorted_columns.hpp"

#include <algorithm>
#include <numeric>

#include "base/require.hpp"

namespace mtboost {

SortedColumns::SortedColumns(const MatrixView<float>& table, ThreadPool& pool)
    : n_rows_(static_cast<row_t>(table.n_rows)), starts_(table.n_columns + 1, 0) {
  const auto for_each_value = [&](std::size_t feature, auto&& visit) {
    for (row_t row = 0; row < n_rows_; ++row)
      if (const float value = table(row, feature); value != 0.0f) visit(SortedValue{value, row});
  };
  pool.parallel_for(table.n_columns, [&](std::size_t feature) {
    std::size_t n_values = 0;
    for_each_value(feature, [&](const SortedValue&) { ++n_values; });
    starts_[feature + 1] = n_values;
  });
  allocate();
  pool.parallel_for(table.n_columns, [&](std::size_t feature) {
    std::size_t next = starts_[feature];
    for_each_value(feature, [&](const SortedValue& own) { values_[next++] = own; });
    sort(static_cast<feature_t>(feature));
  });
}

SortedColumns::SortedColumns(const SparseTable& table, feature_t n_features, ThreadPool& pool)
    : n_rows_(static_cast<row_t>(table.n_rows())), starts_(std::size_t{n_features} + 1, 0) {
  for (std::size_t i = 0; i < table.values.size(); ++i)
    starts_[table.indices[i] + std::size_t{1}] += table.values[i] != 0.0f;
  allocate();
  std::vector<std::size_t> next(starts_.begin(), starts_.end() - 1);
  for (row_t row = 0; row < n_rows_; ++row)
    for (auto i = static_cast<std::size_t>(table.indptr[row]); i < static_cast<std::size_t>(table.indptr[row + 1]); ++i)
      if (table.values[i] != 0.0f) values_[next[table.indices[i]]++] = {table.values[i], row};
  pool.parallel_for(n_features, [&](std::size_t feature) { sort(static_cast<feature_t>(feature)); });
}

void SortedColumns::allocate() {
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  values_.resize(starts_.back());
}

// The rows of a column ascend before.
void SortedColumns::sort(feature_t feature) {
  const auto column = std::span(values_).subspan(starts_[feature], starts_[feature + 1] - starts_[feature]);
  const auto missing = std::ranges::stable_partition(column, [](const SortedValue& own) { return !own.is_missing(); });
  std::sort(column.begin(), missing.begin(), [](const SortedValue& a, const SortedValue& b) {
    return a.value < b.value || (a.value == b.value && a.row < b.row);
  });
  require(column.begin() == missing.begin() || !std::isinf((missing.begin() - 1)->value), "X holds infinity");
}

}  // namespace mtboost
