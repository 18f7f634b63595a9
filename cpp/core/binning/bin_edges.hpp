// SPDX-License-Identifier: Apache-2.0
// The bins of every feature, taken from the library that made them (XGBoost's quantile sketch, LightGBM's bin mappers),
// never sketched again.
// Always holds for XGBoost: bin b of a numeric feature is [value(b - 1), value(b)), so x goes left of edge b iff
// x < value(b); values above the last edge belong to the last bin. Bin b of a categorical feature is the category value(b).
// For LightGBM value(b) is LightGBM's own number of the bin: see LightgbmBins.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/require.hpp"
#include "base/types.hpp"

namespace mtboost {

// LightGBM's bins of one feature. The bin that is sent by default direction (NaN; with zero_as_missing that of 0; of
// categories the one of NaN and rare categories) is the missing value here, so the others are numbered without it.
struct LightgbmBins {
  enum class Missing : std::uint8_t { none, zero, nan };  // LightGBM's missing type

  bin_t n_bins;       // in LightGBM's numbers
  bin_t missing_bin;  // n_bins: none
  bin_t frequent;     // LightGBM's most frequent bin, whose sums are what the others leave
  Missing missing;
  bool is_categorical;

  bin_t n_present() const noexcept { return n_bins - (missing_bin < n_bins ? 1 : 0); }
  // Our number of one of LightGBM's bins; n_present() for the missing one. And back.
  bin_t slot(bin_t bin) const noexcept { return bin == missing_bin ? n_present() : bin - (bin > missing_bin ? 1 : 0); }
  bin_t number(bin_t slot) const noexcept { return slot + (slot >= missing_bin ? 1 : 0); }
};

inline constexpr bin_t kMostBins = 65536;  // of a feature, that of missing values included: stored in two bytes

class BinEdges {
 public:
  // offsets: n_features + 1 positions in values. min_values: a threshold below every value of the feature.
  BinEdges(std::vector<std::uint32_t> offsets, std::vector<float> values, std::vector<float> min_values,
           std::vector<std::uint8_t> is_categorical)
      : offsets_(std::move(offsets)),
        values_(std::move(values)),
        min_values_(std::move(min_values)),
        is_categorical_(std::move(is_categorical)) {
    require(!offsets_.empty() && offsets_.front() == 0 && offsets_.back() == values_.size(),
            "edge offsets must start at 0 and end at the number of edges");
    require(min_values_.size() == n_features() && is_categorical_.size() == n_features(),
            "min_values and is_categorical need one entry per feature");
    for (std::size_t feature = 0; feature < n_features(); ++feature)
      require(offsets_[feature] <= offsets_[feature + 1], "edge offsets must not decrease");
  }

  explicit BinEdges(std::vector<LightgbmBins> features) : offsets_{0}, lightgbm_(std::move(features)) {
    for (const LightgbmBins& feature : lightgbm_) {
      require(feature.n_bins > 0 && feature.missing_bin <= feature.n_bins && feature.frequent < feature.n_bins,
              "the missing and the frequent bin must be bins");
      require(feature.n_bins <= kMostBins, [&] {
        return "a feature has " + std::to_string(feature.n_bins) +
               " bins; at most 65535 are supported: lower max_bin or merge categories";
      });
      for (bin_t slot = 0; slot < feature.n_present(); ++slot)
        values_.push_back(static_cast<float>(feature.number(slot)));
      offsets_.push_back(static_cast<std::uint32_t>(values_.size()));
      min_values_.push_back(0.0f);
      is_categorical_.push_back(feature.is_categorical);
    }
  }

  feature_t n_features() const noexcept { return static_cast<feature_t>(offsets_.size() - 1); }
  bin_t n_bins(feature_t feature) const noexcept { return offsets_[feature + 1] - offsets_[feature]; }
  bool is_categorical(feature_t feature) const noexcept { return is_categorical_[feature] != 0; }
  float min_value(feature_t feature) const noexcept { return min_values_[feature]; }
  float value(feature_t feature, bin_t bin) const noexcept { return values_[offsets_[feature] + bin]; }
  std::span<const float> values(feature_t feature) const noexcept {
    return std::span(values_).subspan(offsets_[feature], n_bins(feature));
  }

  // Bins of values outside all others, in tables made with `outer_bins`. A row of the first goes left at every node of
  // the feature, a row of the second right, as XGBoost sends raw values: below every threshold or an unknown category;
  // not below any threshold. n_bins itself is the bin of missing values.
  bin_t always_left_bin(feature_t feature) const noexcept { return n_bins(feature) + 1; }
  bin_t always_right_bin(feature_t feature) const noexcept { return n_bins(feature) + 2; }

  // The bin that the sparse layout of the table leaves out: of missing values, or LightGBM's frequent one.
  bin_t unstored_bin(feature_t feature) const noexcept {
    return is_of_lightgbm() ? lightgbm_[feature].slot(lightgbm_[feature].frequent) : n_bins(feature);
  }

  // Whether a tree that speaks of the other's bins can be followed by these.
  bool has_bins_of(const BinEdges& other) const noexcept {
    return offsets_ == other.offsets_ && is_categorical_ == other.is_categorical_;
  }

  bool is_of_lightgbm() const noexcept { return !lightgbm_.empty(); }
  const LightgbmBins& lightgbm(feature_t feature) const noexcept { return lightgbm_[feature]; }

 private:
  std::vector<std::uint32_t> offsets_;
  std::vector<float> values_;
  std::vector<float> min_values_;
  std::vector<std::uint8_t> is_categorical_;
  std::vector<LightgbmBins> lightgbm_;  // empty for XGBoost
};

}  // namespace mtboost
