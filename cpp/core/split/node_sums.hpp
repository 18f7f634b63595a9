// SPDX-License-Identifier: Apache-2.0
// What a scan needs to know of a node.
#pragma once

#include <limits>

#include "base/types.hpp"

namespace mtboost {

// What monotone constraints of the ancestors leave to a node's weight.
struct WeightBounds {
  double lower = -std::numeric_limits<double>::max();
  double upper = std::numeric_limits<double>::max();
};

struct NodeSums {
  GradientSums sums;
  double weight = 0.0;  // as a leaf, without learning rate
  double gain = 0.0;    // unsplit (XGBoost)
  WeightBounds bounds;
  row_t n_rows = 0;
  int depth = 0;
};

}  // namespace mtboost
