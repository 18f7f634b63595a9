// SPDX-License-Identifier: Apache-2.0
// Sums of the numbers of rows (components.hpp) by feature and bin, in the slots of BinnedMatrix: of all features of a
// tree, row by row; or of one feature, from its column, where a node considers few.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "boosting/components.hpp"

namespace mtboost {

// Features that one thread handles together; of one width of bins.
struct FeatureChunk {
  std::span<const feature_t> features;  // ascending
  std::uint32_t bytes_per_bin;
};

std::vector<FeatureChunk> chunks_of(const BinnedMatrix& matrix, std::span<const feature_t> features, int n_threads);

// histogram: of all features of the matrix; only those of the chunk are written.
void fill_chunk(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::span<const row_t> rows,
                const Components& components, std::span<double> histogram /* OUT */) noexcept;
// large: of a node, which becomes that of its large child.
void subtract_chunk(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::size_t width,
                    std::span<const double> small, std::span<double> large /* IN-OUT */) noexcept;

// slots: of this feature alone.
void fill_feature(const BinnedMatrix& matrix, feature_t feature, std::span<const row_t> rows,
                  const Components& components, std::vector<double>& slots /* OUT */);

}  // namespace mtboost
