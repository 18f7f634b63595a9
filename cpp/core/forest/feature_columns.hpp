// SPDX-License-Identifier: Apache-2.0
// X as trees of a forest read it while they grow: column by column, as float, or as bytes where that is exact (pixels,
// indicators, counts). A node's rows ascend, so that the values of many rows lie close together in a column. Those of few
// rows do not: they are read from the table, where the values of a row lie side by side. Of a sparse table only values
// that are not 0 are kept.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/large_array.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

// Rows of a table, the features of each ascending; what is not stored is 0.
struct SparseTable : CsrView<std::int64_t, feature_t> {
  float absent = 0.0f;  // what a value is that is not stored: 0, or missing
};

class FeatureColumns {
 public:
  // Tables must live as long.
  FeatureColumns(const MatrixView<float>& table, ThreadPool& pool);
  FeatureColumns(const SparseTable& table, feature_t n_features);

  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return static_cast<feature_t>(has_missing_.size()); }
  bool has_missing(feature_t feature) const noexcept { return has_any_missing_ && has_missing_[feature] != 0; }
  bool is_sparse() const noexcept { return !starts_.empty(); }

  // Of a table that is not sparse: the values of some rows, ascending.
  void read(feature_t feature, std::span<const row_t> rows, float* to) const noexcept;

  // Of a sparse table: the values of a feature that are not 0, by row, ascending; and the features of a row whose value is
  // not 0, ascending.
  struct Stored {
    row_t row;
    float value;
  };
  std::span<const Stored> stored(feature_t feature) const noexcept {
    return std::span(stored_).subspan(starts_[feature], starts_[feature + 1] - starts_[feature]);
  }
  // Has what stored() reads brought to the cache: first where it stands, later itself.
  void prefetch_place(feature_t feature) const noexcept { __builtin_prefetch(&starts_[feature]); }
  void prefetch_stored(feature_t feature) const noexcept {
    constexpr std::size_t kLine = 64 / sizeof(Stored), kMost = 4 * kLine;
    const std::size_t begin = starts_[feature], end = std::min(starts_[feature + 1], begin + kMost);
    for (std::size_t i = begin; i < end; i += kLine) __builtin_prefetch(stored_.data() + i);
  }
  std::span<const feature_t> features_of_row(row_t row) const noexcept {
    const auto begin = static_cast<std::size_t>(row_starts_[row]), end = static_cast<std::size_t>(row_starts_[row + 1]);
    return features_.subspan(begin, end - begin);
  }

 private:
  row_t n_rows_;
  MatrixView<float> table_{};
  LargeArray<float> values_;
  LargeArray<std::uint8_t> bytes_;  // of columns that have only whole numbers from 0 to 255, in place of values_
  std::vector<std::uint8_t> is_bytes_;
  std::vector<std::uint8_t> has_missing_;
  bool has_any_missing_ = false;
  std::vector<std::size_t> starts_;  // of each feature's stored values; empty: not sparse
  LargeArray<Stored> stored_;
  // Of the rows: the table's own, unless it stores zeros.
  std::span<const std::int64_t> row_starts_;
  std::span<const feature_t> features_;
  std::vector<std::int64_t> own_row_starts_;
  std::vector<feature_t> own_features_;
};

}  // namespace mtboost
