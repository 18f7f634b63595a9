// SPDX-License-Identifier: Apache-2.0
// The unit in which XGBoost smooths losses with a kink since 3.4: of each output (mean of sqrt|margin - label|)² over all
// rows by weight. Large residuals hardly move it, and it falls as the model improves.
#pragma once

#include <vector>

#include "base/thread_pool.hpp"
#include "loss/loss.hpp"

namespace mtboost {

// One scale per output; 0 where rows weigh less than least_weight in all. A row has n_labels labels: one per output, or
// one of all.
std::vector<float> residual_scales(const LossRows<float>& rows, std::size_t n_outputs, std::size_t n_labels,
                                   double least_weight, ThreadPool& pool);

}  // namespace mtboost
