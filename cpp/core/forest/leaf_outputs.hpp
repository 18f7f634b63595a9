// SPDX-License-Identifier: Apache-2.0
// What the leaves of a tree say: the weighted mean of their rows' labels. Leaves that hold nothing but one and the same
// label share a vector; vectors that are mostly 0 keep the rest only, if that is smaller.
#pragma once

#include <span>
#include <variant>

#include "base/types.hpp"
#include "base/view.hpp"
#include "forest/split_targets.hpp"
#include "forest/tree_builder.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

// Numbers, (row, output), or labels.
using ForestLabels = std::variant<MatrixView<double>, LabelsView>;
std::size_t n_outputs(const ForestLabels& labels) noexcept;

DecisionTree with_leaf_outputs(Structure structure, const ForestLabels& labels, RowWeights weights);

}  // namespace mtboost
