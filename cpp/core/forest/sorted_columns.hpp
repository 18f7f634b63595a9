// SPDX-License-Identifier: Apache-2.0
// X as multi-task trees read it while they grow: each feature's values in ascending order, with the rows they stand in.
// Sorted once for all trees of an ensemble; a tree works on a copy, whose parts stay sorted as its nodes divide them.
#pragma once

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

struct SortedValue {
  float value;
  row_t row;

  bool is_missing() const noexcept { return std::isnan(value); }
};

class SortedColumns {
 public:
  SortedColumns(const MatrixView<float>& table, ThreadPool& pool);

  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return n_features_; }
  // Missing values come last; rows of equal values ascend.
  std::span<const SortedValue> column(feature_t feature) const noexcept {
    return std::span(values_).subspan(std::size_t{feature} * n_rows_, n_rows_);
  }

 private:
  row_t n_rows_;
  feature_t n_features_;
  std::vector<SortedValue> values_;
};

}  // namespace mtboost
