// SPDX-License-Identifier: Apache-2.0
// gbrt-rpo around trees that somebody else grows (joly2016, algorithm 2): a tree of numbers g was added to a model of
// many outputs, and each output takes the multiple ρ of it that makes its own loss smallest.
#pragma once

#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "boosting/output_loss.hpp"

namespace mtboost {

// ρ of each output; 0 where no known label has a direction. margins: (row, output), before the tree. direction: g of each
// row. Of the logistic loss, ρ g is at most 10: where a tree separates labels, the loss has no minimum. Not softmax.
std::vector<double> output_steps(const OutputLoss& loss, std::span<const float> margins, const LabelledRows& rows,
                                 std::span<const float> direction, ThreadPool& pool);

}  // namespace mtboost
