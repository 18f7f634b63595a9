// SPDX-License-Identifier: Apache-2.0
// One split of one feature in one node: a random one (geurts2006) or the best (breiman2001).
//
// Always holds: x < threshold goes left, both sides have rows, and a missing value goes where the split says. A random split
// sends missing values either way with equal chance. Gains are compared as float: of two features that divide the rows
// alike, the one considered first wins, however their sums were rounded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"

namespace mtboost {

struct FeatureSplit {
  float gain = -1.0f;  // below 0: no split is possible
  float threshold = 0.0f;
  bool missing_left = false;

  bool is_found() const noexcept { return gain >= 0.0f; }
};

struct ValueRange {
  float least = std::numeric_limits<float>::infinity();
  float most = -std::numeric_limits<float>::infinity();
  std::size_t n_missing = 0;

  // A split can be found where values differ, or where some are missing and some are not.
  bool is_constant(std::size_t n) const noexcept { return n_missing == n || (least == most && n_missing == 0); }
};

inline ValueRange range_of(std::span<const float> values, bool may_be_missing) noexcept {
  ValueRange range;
  if (may_be_missing) {
    for (const float value : values) {
      if (std::isnan(value)) {
        ++range.n_missing;
      } else {
        range.least = std::min(range.least, value);
        range.most = std::max(range.most, value);
      }
    }
    return range;
  }
  constexpr std::size_t kLanes = 8;
  float least[kLanes], most[kLanes];
  std::ranges::fill(least, range.least);
  std::ranges::fill(most, range.most);
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      least[lane] = values[i + lane] < least[lane] ? values[i + lane] : least[lane];
      most[lane] = values[i + lane] > most[lane] ? values[i + lane] : most[lane];
    }
  for (; i < values.size(); ++i) {
    least[0] = std::min(least[0], values[i]);
    most[0] = std::max(most[0], values[i]);
  }
  range.least = *std::ranges::min_element(least);
  range.most = *std::ranges::max_element(most);
  return range;
}

// A value of a node that is not 0, and the place of its row there.
struct StoredValue {
  float value;
  row_t i;
  auto operator<=>(const StoredValue&) const = default;
};

// Of n rows of which these are not 0, none missing.
inline ValueRange range_of(std::span<const StoredValue> stored, std::size_t n) noexcept {
  ValueRange range;
  if (stored.size() < n) range.least = range.most = 0.0f;
  for (const StoredValue& own : stored) {
    range.least = std::min(range.least, own.value);
    range.most = std::max(range.most, own.value);
  }
  return range;
}

// Uniform on (least, most], so that both sides have rows.
inline float draw_threshold(const ValueRange& range, RandomStream& random) noexcept {
  const double least = range.least, most = range.most;
  const auto threshold = static_cast<float>(most - random.uniform() * (most - least));
  return threshold > range.least ? threshold : range.most;
}

// Buffers of one thread.
class SplitSearch {
 public:
  explicit SplitSearch(row_t min_samples_leaf) : min_samples_leaf_(min_samples_leaf) {}

  // values: of the node's rows; missing ones are overwritten.
  template <typename Target>
  FeatureSplit random_split(std::span<float> values, const ValueRange& range, Target& target,
                            RandomStream& random) const {
    FeatureSplit split;
    if (range.n_missing > 0) {
      split.missing_left = random.uniform() < 0.5;
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      for (float& value : values)
        if (std::isnan(value)) value = split.missing_left ? -kInfinity : kInfinity;
    }
    if (range.least < range.most)
      split.threshold = draw_threshold(range, random);
    else  // missing values on one side, the others on the other
      split.threshold = split.missing_left ? range.least : std::numeric_limits<float>::infinity();
    row_t n_left = 0;
    const auto gain = static_cast<float>(target.gain(values, split.threshold, n_left));
    if (is_allowed(n_left, values.size())) split.gain = gain;
    return split;
  }

  // The same for n rows of which only some are not 0: costs these. A division gains the same whichever side is added up,
  // and the side of the zeros is what the other leaves.
  template <typename Target>
  FeatureSplit random_split(std::span<const StoredValue> stored, std::size_t n, const ValueRange& range, Target& target,
                            RandomStream& random) const {
    FeatureSplit split;
    split.threshold = draw_threshold(range, random);
    const bool zero_goes_left = 0.0f < split.threshold;
    std::size_t n_moved = 0;
    target.begin_scan();
    for (const StoredValue& own : stored)
      if ((own.value < split.threshold) != zero_goes_left) target.move_left(own.i), ++n_moved;
    if (is_allowed(n_moved, n)) split.gain = static_cast<float>(target.gain_of_scan());
    target.begin_scan();
    return split;
  }

  // The split between two values that gains most; of equal ones the first. Missing values are tried on both sides.
  template <typename Target>
  FeatureSplit best_split(std::span<const float> values, const ValueRange& range, Target& target) {
    if (range.n_missing == 0 && has_two_values(values, range)) return only_split(values, range, target);
    sorted_.clear();
    missing_.clear();
    for (std::size_t i = 0; i < values.size(); ++i)
      (std::isnan(values[i]) ? missing_ : sorted_).push_back({values[i], static_cast<row_t>(i)});
    std::ranges::sort(sorted_);
    FeatureSplit best;
    scan(values.size(), false, target, best);
    if (range.n_missing > 0) scan(values.size(), true, target, best);
    target.begin_scan();
    return best;
  }

  // The same for n rows of which only some are not 0: values below 0 from the least up, values above 0 from the most
  // down, and nothing for each zero.
  template <typename Target>
  FeatureSplit best_split(std::span<const StoredValue> stored, std::size_t n, Target& target) {
    sorted_.assign(stored.begin(), stored.end());
    std::ranges::sort(sorted_);
    const auto first_above =
        static_cast<std::size_t>(std::ranges::upper_bound(sorted_, 0.0f, {}, &StoredValue::value) - sorted_.begin());
    const bool has_zeros = sorted_.size() < n;
    const auto try_split = [&](float below, float above, std::size_t n_moved, FeatureSplit& best, bool also_equal) {
      if (below >= above || !is_allowed(n_moved, n)) return;
      const auto gain = static_cast<float>(target.gain_of_scan());
      if (gain > best.gain || (also_equal && gain == best.gain)) best = {gain, middle_of(below, above), false};
    };
    FeatureSplit best, best_above;
    target.begin_scan();
    for (std::size_t place = 0; place < first_above; ++place) {
      target.move_left(sorted_[place].i);
      const bool is_last = place + 1 == first_above;
      if (is_last && !has_zeros && first_above == sorted_.size()) break;
      try_split(sorted_[place].value, is_last && has_zeros ? 0.0f : sorted_[place + 1].value, place + 1, best, false);
    }
    target.begin_scan();
    for (std::size_t place = sorted_.size(); place-- > first_above;) {
      target.move_left(sorted_[place].i);
      const bool is_first = place == first_above;
      if (is_first && !has_zeros) break;  // the split below it was tried above
      try_split(is_first ? 0.0f : sorted_[place - 1].value, sorted_[place].value, sorted_.size() - place, best_above,
                true);
    }
    target.begin_scan();
    return best_above.gain > best.gain ? best_above : best;
  }

 private:
  using Value = StoredValue;

  bool is_allowed(std::size_t n_left, std::size_t n) const noexcept {
    return n_left >= min_samples_leaf_ && n - n_left >= min_samples_leaf_ && n_left > 0 && n_left < n;
  }

  // Above `below` and at most `above`, however it is rounded.
  static float middle_of(float below, float above) noexcept {
    const auto middle = static_cast<float>((static_cast<double>(below) + static_cast<double>(above)) / 2.0);
    return middle > below ? middle : above;
  }

  // Of an indicator, as words and categories make them: nothing need be sorted.
  static bool has_two_values(std::span<const float> values, const ValueRange& range) noexcept {
    bool has_other = false;
    for (const float value : values) has_other |= value != range.least && value != range.most;
    return !has_other;
  }
  template <typename Target>
  FeatureSplit only_split(std::span<const float> values, const ValueRange& range, Target& target) const {
    FeatureSplit split;
    split.threshold = middle_of(range.least, range.most);
    row_t n_left = 0;
    const auto gain = static_cast<float>(target.gain(values, split.threshold, n_left));
    if (is_allowed(n_left, values.size())) split.gain = gain;
    return split;
  }

  template <typename Target>
  void scan(std::size_t n, bool missing_left, Target& target, FeatureSplit& best) const {
    target.begin_scan();
    std::size_t n_left = 0;
    if (missing_left)
      for (const Value& missing : missing_) target.move_left(missing.i), ++n_left;
    for (std::size_t place = 0; place <= sorted_.size(); ++place) {
      // Behind the last value the threshold is infinity, which divides nothing from infinite values.
      const float above = place < sorted_.size() ? sorted_[place].value : std::numeric_limits<float>::infinity();
      const bool is_split = place == 0 || sorted_[place - 1].value < above;
      if (is_split && is_allowed(n_left, n)) {
        const auto gain = static_cast<float>(target.gain_of_scan());
        if (gain > best.gain) best = {gain, threshold_before(place), missing_left};
      }
      if (place < sorted_.size()) target.move_left(sorted_[place].i), ++n_left;
    }
  }

  float threshold_before(std::size_t place) const noexcept {
    if (place == 0) return sorted_.front().value;
    if (place == sorted_.size()) return std::numeric_limits<float>::infinity();
    return middle_of(sorted_[place - 1].value, sorted_[place].value);
  }

  row_t min_samples_leaf_;
  std::vector<Value> sorted_, missing_;
};

}  // namespace mtboost
