// SPDX-License-Identifier: Apache-2.0
// L1-based compression of a forest (joly2016, chapter 7): whether a row visits a node is a feature of a linear model, and
// incremental forward stagewise regression (hastie2007) finds its coefficients in small steps:
//   indicators  which rows visit which nodes. Nodes with the same training rows, or with those that the other one lacks,
//               are equivalent for the path, which uses the first of them
//   walk        a step changes by epsilon the coefficient of the node most correlated with the residual, of those whose
//               step lowers the training loss. Several outputs share their nodes: the step is a vector of length epsilon
//               along the correlations
//   cut off     what lies below the last node with a coefficient goes; leaves hold the sums along their paths
//
// Features are centred, not scaled: the intercept is free, and a node of few rows costs as much of the L1 norm as one of
// many. So a step may be too long for the most correlated node, of many rows, and not for another one. (With scaled
// features, as in hastie2007, it would be too long for all.) Always holds: every step lowers the training loss. Naive
// twin: tests/oracle/naive_compression.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/ranges.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "forest/forest.hpp"
#include "tree/decision_tree.hpp"

namespace mtboost {

struct StagewiseParams {
  double epsilon = 0.01;
  std::size_t max_steps = 10000;

  // Throws std::invalid_argument.
  void check() const { require_positive("epsilon", epsilon); }
};

// Labels have shape (row, output). Without validation rows no loss on them is reported.
struct StagewiseData {
  std::span<const DecisionTree> trees;
  RowsView rows;
  MatrixView<double> labels;
  RowsView valid_rows;
  MatrixView<double> valid_labels;
};

// Nodes are numbered through all trees, as they come.
struct StagewisePath {
  std::vector<std::uint32_t> nodes;  // of each step
  std::vector<double> changes;       // (step, output): of the node's coefficients
  std::vector<double> intercepts;    // (step + 1, output): before the first step and after each
  std::vector<double> losses;        // squared error a row, summed over outputs: before the first step and after each
  std::vector<double> valid_losses;  // the same of the validation rows
};

// Follows each path on a separate thread. A path ends with max_steps, or where no step would lower the training loss.
// check_interrupt runs now and then, and may throw.
std::vector<StagewisePath> walk_stagewise(std::span<const StagewiseData> data, const StagewiseParams& params,
                                          ThreadPool& pool, const std::function<void()>& check_interrupt);

// Trees whose mean is the intercept plus the coefficients of all nodes that a row visits. nodes: ascending, those with
// coefficients, which are (node, output). Trees without any of them are left out, but for a leaf if there are none.
std::vector<DecisionTree> cut_off(std::span<const DecisionTree> trees, std::span<const std::uint32_t> nodes,
                                  const MatrixView<double>& coefficients, std::span<const double> intercept);

}  // namespace mtboost
