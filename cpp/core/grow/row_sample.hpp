// SPDX-License-Identifier: Apache-2.0
// The rows of a tree under subsample: each row is drawn on its own, as XGBoost does. Draws are keyed by row, so that a
// task that quits does not change those of others. Rows of different workers have the same numbers, but not the same
// draws.
#pragma once

#include <cstdint>

#include "base/random.hpp"
#include "base/types.hpp"

namespace mtboost {

class RowSample {
 public:
  RowSample(double subsample, std::uint64_t seed, std::uint64_t tree_number, int worker) noexcept
      : streams_(RandomStream::Purpose::rows, seed, tree_number),
        first_(static_cast<std::uint64_t>(worker) << 32),
        subsample_(subsample) {}

  bool contains(row_t row) const noexcept { return streams_[first_ + row].uniform() < subsample_; }

 private:
  RandomStream::OfTree streams_;
  std::uint64_t first_;
  double subsample_;
};

}  // namespace mtboost
