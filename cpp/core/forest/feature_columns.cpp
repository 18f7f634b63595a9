// SPDX-License-Identifier: Apache-2.0
#include "forest/feature_columns.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace mtboost {
namespace {

// Whether all are whole numbers from 0 to 255. (−0 equals 0, and splits do not distinguish them.)
bool are_bytes(std::span<const float> values) noexcept {
  bool are = true;
  for (const float value : values) {
    const float kept = value >= 0.0f && value <= 255.0f ? value : 0.0f;
    are &= static_cast<float>(static_cast<std::int32_t>(kept)) == value;
  }
  return are;
}

}  // namespace

FeatureColumns::FeatureColumns(const MatrixView<float>& table, ThreadPool& pool)
    : n_rows_(static_cast<row_t>(table.n_rows)),
      table_(table),
      // Memory that is not written costs nothing: a column has its place in both.
      values_(table.n_rows * table.n_columns),
      bytes_(table.n_rows * table.n_columns),
      is_bytes_(table.n_columns, 1),
      has_missing_(table.n_columns, 0) {
  // Squares of a row-major table: both what is read and what is written then stay in the cache.
  constexpr std::size_t kColumns = 16, kRows = 256;
  pool.parallel_for((table.n_columns + kColumns - 1) / kColumns, [&](std::size_t block) {
    const std::size_t end = std::min((block + 1) * kColumns, table.n_columns);
    std::array<float, kRows> values;
    for (std::size_t first_row = 0; first_row < table.n_rows; first_row += kRows) {
      const std::size_t n = std::min(kRows, table.n_rows - first_row);
      for (std::size_t column = block * kColumns; column < end; ++column) {
        for (std::size_t i = 0; i < n; ++i) values[i] = table(first_row + i, column);
        std::uint8_t* bytes = bytes_.data() + column * table.n_rows;
        float* floats = values_.data() + column * table.n_rows;
        if (is_bytes_[column] && !are_bytes({values.data(), n})) {
          is_bytes_[column] = 0;
          std::copy_n(bytes, first_row, floats);
        }
        if (is_bytes_[column]) {
          for (std::size_t i = 0; i < n; ++i) bytes[first_row + i] = static_cast<std::uint8_t>(values[i]);
          continue;
        }
        bool has_missing = false;
        for (std::size_t i = 0; i < n; ++i) {
          floats[first_row + i] = values[i];
          has_missing |= std::isnan(values[i]);
        }
        has_missing_[column] |= static_cast<std::uint8_t>(has_missing);
      }
    }
  });
  has_any_missing_ = std::ranges::find(has_missing_, 1) != has_missing_.end();
}

void FeatureColumns::read(feature_t feature, std::span<const row_t> rows, float* to) const noexcept {
  constexpr std::size_t kLine = 64;  // of the cache, in bytes
  const bool is_bytes = is_bytes_[feature] != 0;
  // So few rows that each has a line to itself in a column.
  const std::size_t n_per_line = is_bytes ? kLine : kLine / sizeof(float);
  const std::size_t begin = std::size_t{feature} * n_rows_;
  if (table_.column_stride == 1 && rows.size() * n_per_line < n_rows_) {
    for (std::size_t i = 0; i < rows.size(); ++i) to[i] = table_(rows[i], feature);
  } else if (is_bytes) {
    const std::uint8_t* bytes = bytes_.data() + begin;
    for (std::size_t i = 0; i < rows.size(); ++i) to[i] = bytes[rows[i]];
  } else {
    const float* values = values_.data() + begin;
    for (std::size_t i = 0; i < rows.size(); ++i) to[i] = values[rows[i]];
  }
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
  stored_.resize(starts_.back());
  for_each_value([&](row_t row, feature_t feature, float value) {
    stored_[next[feature]++] = {row, value};
    has_missing_[feature] |= static_cast<std::uint8_t>(std::isnan(value));
  });
  has_any_missing_ = std::ranges::find(has_missing_, 1) != has_missing_.end();
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
