// SPDX-License-Identifier: Apache-2.0
// X as multi-task trees read it while they grow: each feature's values in ascending order, with their rows.
// Sorted once for all trees of an ensemble; a tree works on a copy, whose parts stay sorted as its nodes divide them.
//
// Zeros are not kept, whether the table is dense or sparse: rows that a column lacks are 0 there. Memory and time are
// those of the other values (joly2016, chapter 8), and both kinds of tables give the same columns, hence the same trees.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "forest/feature_columns.hpp"

namespace mtboost {

struct SortedValue {
  float value;
  row_t row;

  bool is_missing() const noexcept { return std::isnan(value); }
};

class SortedColumns {
 public:
  SortedColumns(const MatrixView<float>& table, ThreadPool& pool);
  SortedColumns(const SparseTable& table, feature_t n_features, ThreadPool& pool);

  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return static_cast<feature_t>(starts_.size() - 1); }
  std::size_t n_values() const noexcept { return values_.size(); }
  // Where a column begins among the values of all.
  std::size_t start(feature_t feature) const noexcept { return starts_[feature]; }
  // Missing values come last; rows of equal values ascend.
  std::span<const SortedValue> column(feature_t feature) const noexcept {
    return std::span(values_).subspan(starts_[feature], starts_[feature + 1] - starts_[feature]);
  }

 private:
  void allocate();
  void sort(feature_t feature);

  row_t n_rows_;
  std::vector<std::size_t> starts_;  // of each column; while they are counted, its number of values one place up
  std::vector<SortedValue> values_;
};

}  // namespace mtboost
