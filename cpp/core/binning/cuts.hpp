// SPDX-License-Identifier: Apache-2.0
// The bins of every feature, taken from the library that made them (XGBoost's quantile sketch), never sketched again.
// Always holds: bin b of a numeric feature is [value(b - 1), value(b)), so x goes left of cut b iff x < value(b);
// values above the last cut belong to the last bin. Bin b of a categorical feature is the category value(b).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.hpp"
#include "base/types.hpp"

namespace mtboost {

class Cuts {
 public:
  // offsets: n_features + 1 positions in values. min_values: a threshold below every value of the feature.
  Cuts(std::vector<std::uint32_t> offsets, std::vector<float> values, std::vector<float> min_values,
       std::vector<std::uint8_t> is_categorical)
      : offsets_(std::move(offsets)),
        values_(std::move(values)),
        min_values_(std::move(min_values)),
        is_categorical_(std::move(is_categorical)) {
    require(!offsets_.empty() && offsets_.front() == 0 && offsets_.back() == values_.size(),
            "cut offsets must start at 0 and end at the number of cut values");
    require(min_values_.size() == n_features() && is_categorical_.size() == n_features(),
            "min_values and is_categorical need one entry per feature");
    for (std::size_t feature = 0; feature < n_features(); ++feature)
      require(offsets_[feature] <= offsets_[feature + 1], "cut offsets must not decrease");
  }

  feature_t n_features() const noexcept { return static_cast<feature_t>(offsets_.size() - 1); }
  bin_t n_bins(feature_t feature) const noexcept { return offsets_[feature + 1] - offsets_[feature]; }
  bool is_categorical(feature_t feature) const noexcept { return is_categorical_[feature] != 0; }
  float min_value(feature_t feature) const noexcept { return min_values_[feature]; }
  float value(feature_t feature, bin_t bin) const noexcept { return values_[offsets_[feature] + bin]; }
  std::span<const float> values(feature_t feature) const noexcept {
    return std::span(values_).subspan(offsets_[feature], n_bins(feature));
  }

 private:
  std::vector<std::uint32_t> offsets_;
  std::vector<float> values_;
  std::vector<float> min_values_;
  std::vector<std::uint8_t> is_categorical_;
};

}  // namespace mtboost
