// SPDX-License-Identifier: Apache-2.0
// A split of a node in two, and which of two splits is better.
#pragma once

#include <cstdint>
#include <vector>

#include "base/types.hpp"

namespace mtboost {

// How the bins of a feature are divided. `position` names a split by the bins of its side A; the rest are side B.
//   ordered:   A = bins < position
//   partition: A = the first `position` categories in ascending order of weight
//   one_hot:   A = the category `position` alone
enum class SplitKind : std::uint8_t { ordered, partition, one_hot };

struct SplitRule {
  feature_t feature = 0;
  SplitKind kind = SplitKind::ordered;
  bin_t position = 0;
  bool default_left = false;  // where missing values go
  bool a_goes_left = true;

  bool missing_in_a() const noexcept { return default_left == a_goes_left; }
};

// One admissible split of a scan.
struct Candidate {
  double gain;
  std::uint32_t order;
  SplitRule rule;
  GradientSums left, right;
  std::int64_t n_left = 0;  // rows on the left, as LightGBM estimates them
};

struct Split {
  double score = 0.0;  // S, what splits are ranked by; equals gain for the plain score
  double gain = 0.0;   // s, gain of the pooled sums; 0: nothing found
  SplitRule rule;
  std::uint32_t order = 0;  // place in the feature's scan
  GradientSums left, right;
  std::int64_t n_left = 0;
  std::vector<bin_t> listed_bins;  // categorical splits only: the categories that the library's models list

  bool is_found() const noexcept { return gain > 0.0; }
};

// Larger score, then larger gain; ties go to the lower feature and the earlier place in the scan, as in XGBoost.
inline bool is_better(const Split& a, const Split& b) noexcept {
  if (a.is_found() != b.is_found()) return a.is_found();
  if (a.score != b.score) return a.score > b.score;
  if (a.gain != b.gain) return a.gain > b.gain;
  if (a.rule.feature != b.rule.feature) return a.rule.feature < b.rule.feature;
  return a.order < b.order;
}

}  // namespace mtboost
