// SPDX-License-Identifier: Apache-2.0
#include "boosting/component_split.hpp"

#include <algorithm>

#include "base/vector_clones.hpp"

namespace mtboost {

ComponentSplitSearch::ComponentSplitSearch(const BinnedMatrix& matrix, const Components& components,
                                           row_t min_samples_leaf)
    : matrix_(matrix), components_(components), min_samples_leaf_(min_samples_leaf), is_part_(components.width(), 0.0) {
  std::fill_n(is_part_.begin(), components.n_components(), 1.0);
}

double ComponentSplitSearch::noise(std::span<const double> sums) const noexcept {
  return components_.noise(sums[components_.count_at()], sums[components_.weight_at()]);
}

MTBOOST_VECTOR_CLONES
bool ComponentSplitSearch::improve(feature_t feature, std::span<const double> sums, const double* slots,
                                   std::vector<double>& scratch, ComponentSplit& best) const {
  const double before = best.gain;
  scratch.resize(3 * components_.width());
  switch (components_.width()) {
    case 2: scan<2>(feature, sums.data(), slots, scratch.data(), best); break;
    case 4: scan<4>(feature, sums.data(), slots, scratch.data(), best); break;
    case 8: scan<8>(feature, sums.data(), slots, scratch.data(), best); break;
    default: scan<0>(feature, sums.data(), slots, scratch.data(), best);
  }
  return best.gain > before;
}

// Width: numbers of a row; 0: known at run time only.
template <std::size_t Width>
void ComponentSplitSearch::scan(feature_t feature, const double* sums, const double* slots, double* scratch,
                                ComponentSplit& best) const noexcept {
  const std::size_t width = Width > 0 ? Width : components_.width();
  const std::size_t count_at = components_.count_at(), weight_at = components_.weight_at();
  const bin_t n_bins = matrix_.edges().n_bins(feature);
  double* const left = scratch;
  double* const with_missing = left + width;
  double* const missing = with_missing + width;

  std::copy_n(sums, width, missing);
  if (matrix_.may_be_missing(feature))
    for (bin_t bin = 0; bin < n_bins; ++bin)
      for (std::size_t k = 0; k < width; ++k) missing[k] -= slots[bin * width + k];
  else
    std::fill_n(missing, width, 0.0);
  const bool has_missing = missing[count_at] > 0.0;

  const double* const is_part = is_part_.data();
  const double least = min_samples_leaf_;
  const auto gain_of = [&](const double* own) -> double {
    if (own[count_at] < least || sums[count_at] - own[count_at] < least) return 0.0;
    const double weight = own[weight_at], other = sums[weight_at] - weight;
    const double inverse = 1.0 / weight, inverse_of_other = 1.0 / other;
    double squares[2] = {0.0, 0.0};  // of differences of means, even and odd components
    for (std::size_t k = 0; k < width; k += 2)
      for (std::size_t lane = 0; lane < 2; ++lane) {
        const std::size_t at = k + lane;
        const double difference = (own[at] * inverse - (sums[at] - own[at]) * inverse_of_other) * is_part[at];
        squares[lane] += difference * difference;
      }
    return weight * other / sums[weight_at] * (squares[0] + squares[1]);
  };
  std::fill_n(left, width, 0.0);
  for (bin_t bin = 0; bin < n_bins; ++bin) {
    const double* const slot = slots + bin * width;
    if (slot[count_at] == 0.0) continue;  // divides as the split before
    for (std::size_t k = 0; k < width; ++k) left[k] += slot[k];
    const double gain = gain_of(left);
    if (gain > best.gain) best = {gain, feature, bin, false};
    if (!has_missing) continue;
    for (std::size_t k = 0; k < width; ++k) with_missing[k] = left[k] + missing[k];
    const double other_gain = gain_of(with_missing);
    if (other_gain > best.gain) best = {other_gain, feature, bin, true};
  }
}

}  // namespace mtboost
