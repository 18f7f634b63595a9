// SPDX-License-Identifier: Apache-2.0
// The split of one feature that gains most: the fall of Σ w ‖c − mean‖² (forest/split_targets.hpp), from sums by bin; with
// missing values on either side. Ties: the lower split first, missing values right.
#pragma once

#include <span>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "boosting/components.hpp"

namespace mtboost {

struct ComponentSplit {
  double gain = 0.0;  // 0: none
  feature_t feature = 0;
  bin_t bin = 0;  // the last one on the left
  bool is_missing_left = false;
};

class ComponentSplitSearch {
 public:
  ComponentSplitSearch(const BinnedMatrix& matrix, const Components& components, row_t min_samples_leaf);

  // No split of a node of these sums gains, but by rounding, up to this.
  double noise(std::span<const double> sums) const noexcept;

  // slots: of this feature. Whether a split gains more than `best`, which it then becomes.
  bool improve(feature_t feature, std::span<const double> sums, const double* slots, std::vector<double>& scratch,
               ComponentSplit& best /* IN-OUT */) const;

 private:
  template <std::size_t Width>
  void scan(feature_t feature, const double* sums, const double* slots, double* scratch,
            ComponentSplit& best) const noexcept;

  const BinnedMatrix& matrix_;
  const Components& components_;
  double min_samples_leaf_;
  std::vector<double> is_part_;  // 1 of a component, 0 of the other numbers of a row
};

}  // namespace mtboost
