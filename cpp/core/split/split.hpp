// SPDX-License-Identifier: Apache-2.0
// A cut of a node in two, and which of two cuts is better.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.hpp"

namespace mtboost {

// Cuts below this gain are noise: XGBoost's kRtEps.
inline constexpr float kMinGain = 1e-6f;

// How the bins of a feature are divided. `position` names a cut by the bins of its side A; the rest are side B.
//   ordered:   A = bins < position, goes left
//   partition: A = the first `position` categories in ascending order of weight, goes right
//   one_hot:   A = the category `position` alone, goes right
enum class CutKind : std::uint8_t { ordered, partition, one_hot };

struct Cut {
  feature_t feature = 0;
  CutKind kind = CutKind::ordered;
  bin_t position = 0;
  bool default_left = false;  // where missing values go

  bool missing_in_a() const noexcept { return default_left == (kind == CutKind::ordered); }
};

struct Split {
  float score = 0.0f;  // S, what cuts are ranked by; equals gain for the plain score
  float gain = 0.0f;   // s, gain of the pooled sums
  Cut cut;
  std::uint32_t order = 0;  // place in the feature's scan
  GradientSums left, right;
  std::vector<bin_t> right_bins;  // categorical cuts only: the categories that go right

  bool is_found() const noexcept { return gain > kMinGain; }
};

// Larger score, then larger gain; ties go to the lower feature and the earlier place in the scan, as in XGBoost.
inline bool is_better(const Split& a, const Split& b) noexcept {
  if (a.is_found() != b.is_found()) return a.is_found();
  if (a.score != b.score) return a.score > b.score;
  if (a.gain != b.gain) return a.gain > b.gain;
  if (a.cut.feature != b.cut.feature) return a.cut.feature < b.cut.feature;
  return a.order < b.order;
}

}  // namespace mtboost
