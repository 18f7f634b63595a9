// SPDX-License-Identifier: Apache-2.0
// How the trees of a forest grow.
#pragma once

#include <cstdint>
#include <limits>

#include "base/ranges.hpp"
#include "base/types.hpp"

namespace mtboost {

enum class Splitter : std::uint8_t { random, best };

struct ForestParams {
  std::uint32_t n_trees = 100;
  Splitter splitter = Splitter::random;
  feature_t max_features =
      std::numeric_limits<feature_t>::max();  // K: considered in a node, of those not constant there
  std::uint32_t max_depth = std::numeric_limits<std::uint32_t>::max();
  row_t min_samples_split = 2;
  row_t min_samples_leaf = 1;
  row_t n_bootstrap = 0;         // rows drawn with replacement for each tree; 0: all rows, each once
  double task_split_prob = 0.0;  // λ
  double alpha = 1.0;            // rows that the prior of a task counts for
  std::uint64_t seed = 0;

  // Throws std::invalid_argument.
  void check() const {
    require_at_least("max_features", max_features, 1);
    require_number(task_split_prob >= 0.0 && task_split_prob <= 1.0, "task_split_prob", task_split_prob, "in [0, 1]");
    require_rate("alpha", alpha);
  }
};

}  // namespace mtboost
