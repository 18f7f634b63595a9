// SPDX-License-Identifier: Apache-2.0
#include "split/feature_scan.hpp"

namespace mtboost {

FeatureScan::FeatureScan(const BinnedMatrix& matrix, const GrowParams& params)
    : matrix_(matrix),
      arithmetic_(params),
      min_gain_(params.min_split_loss),
      max_cat_to_onehot_(params.max_cat_to_onehot),
      max_cat_threshold_(params.max_cat_threshold),
      monotone_signs_(params.monotone_constraints) {
  monotone_signs_.resize(matrix.n_features(), 0);
}

std::vector<bin_t> right_bins(const Cut& cut, std::span<const bin_t> category_order) {
  switch (cut.kind) {
    case CutKind::partition: return {category_order.begin(), category_order.begin() + cut.position};
    case CutKind::one_hot: return {cut.position};
    default: return {};
  }
}

}  // namespace mtboost
