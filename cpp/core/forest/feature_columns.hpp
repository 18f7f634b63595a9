// SPDX-License-Identifier: Apache-2.0
// X as trees of a forest read it while they grow: column by column, as float. A node's rows ascend, so that their values
// lie close together in a column.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"

namespace mtboost {

class FeatureColumns {
 public:
  FeatureColumns(const MatrixView<float>& table, ThreadPool& pool);

  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return static_cast<feature_t>(has_missing_.size()); }
  std::span<const float> column(feature_t feature) const noexcept {
    return {values_.get() + std::size_t{feature} * n_rows_, n_rows_};
  }
  bool has_missing(feature_t feature) const noexcept { return has_missing_[feature] != 0; }

 private:
  row_t n_rows_;
  std::unique_ptr<float[]> values_;
  std::vector<std::uint8_t> has_missing_;
};

}  // namespace mtboost
