// SPDX-License-Identifier: Apache-2.0
// START HERE for boosting of many outputs (joly2016, chapter 6). A round:
//   1. residuals R = -∂loss/∂F, times weights, are taken to a few components by a projection Φ
//   2. one tree grows on them
//   3a. its leaves are relabelled with what all outputs say there (gbrt-relabel-rpo; gbmort where components are outputs):
//       means, medians, Huber's minimum, or a step of Newton's method
//   3b. or it stays a tree of numbers g, and each output gets the weight ρ that makes its loss smallest (gbrt-rpo)
//   4. F += learning rate times that, and with F the residuals
// The training loss never rises for learning rates up to 1, if no rows are left out: every step of 3a and 3b lowers the
// loss or leaves it, and the losses are convex. A tree that is not divided changes nothing.
// Naive twin: tests/oracle/naive_projected_boosting.py.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "boosting/boosted_model.hpp"
#include "boosting/component_tree.hpp"
#include "boosting/components.hpp"
#include "boosting/output_loss.hpp"
#include "boosting/residual_projection.hpp"
#include "forest/forest.hpp"

namespace mtboost {

struct ResidualProjection {
  ResidualProjectionKind kind;
  std::size_t n_components;
};

struct BoostingParams {
  bool relabels = true;
  double learning_rate = 0.1;
  ComponentTreeParams tree;
  // Monostate: components are the outputs.
  std::variant<std::monostate, ForestProjection, ResidualProjection> projection;

  // Throws std::invalid_argument.
  void check(feature_t n_features, std::size_t n_outputs) const;
  std::size_t n_components(std::size_t n_outputs) const noexcept;
};

class ProjectedBoosting {
 public:
  // labels and matrix must outlive it. start: margins of the rows, from what the model already holds; empty if it is new.
  ProjectedBoosting(const BinnedMatrix& matrix, OutputLoss loss, const LabelledRows& labels, BoostingParams params,
                    BoostedModel model, std::span<const float> start, ThreadPool& pool);

  // One round; one more tree. check_interrupt runs while the tree grows, before anything has changed. What throws leaves
  // everything as it was.
  void update(ThreadPool& pool, const std::function<void()>& check_interrupt);

  // What features are drawn by in the rounds to come.
  std::span<const double> feature_weights() const noexcept { return params_.tree.feature_weights; }
  void set_feature_weights(std::vector<double> weights);

  const BoostedModel& model() const noexcept { return model_; }
  std::span<const float> margins() const noexcept { return margins_; }
  // Weighted mean over all known labels; 0 if there are none.
  double mean_loss() const noexcept { return known_weight_ > 0.0 ? loss_sum_ / known_weight_ : 0.0; }

 private:
  struct LeafSums {
    std::vector<double> residuals, hessians;  // (leaf, output), of rows that the tree grew on, times weights
  };
  // Part of a leaf's rows.
  struct Run {
    std::size_t leaf;
    std::span<const row_t> rows;
  };

  std::size_t n_rows() const noexcept { return labels_.n_rows; }
  std::size_t n_outputs() const noexcept { return loss_.n_outputs(); }
  float* margins_of(row_t row) noexcept { return margins_.data() + row * n_outputs(); }
  float* residuals_of(row_t row) noexcept { return residuals_.data() + row * n_outputs(); }
  const float* residuals_of(row_t row) const noexcept { return residuals_.data() + row * n_outputs(); }
  float label_weight(row_t row, std::size_t output) const noexcept;

  double update_residuals(row_t row) noexcept;
  void weigh_rows();
  void draw_rows(std::uint64_t tree);
  Directions make_directions(std::uint64_t tree, ThreadPool& pool) const;
  void weighted_residuals(row_t row, float* out) const noexcept;
  Components project(const Directions& directions, ThreadPool& pool) const;
  std::vector<Run> runs_of_leaves(bool with_others) const;
  LeafSums leaf_sums(ThreadPool& pool) const;
  std::vector<double> leaf_values(ThreadPool& pool) const;
  std::vector<double> leaf_minima(ThreadPool& pool) const;
  std::vector<double> output_weights(std::span<const float> leaf_numbers, ThreadPool& pool) const;
  std::vector<double> line_minima(std::span<const float> leaf_numbers, ThreadPool& pool) const;
  void add(std::span<const float> steps, ThreadPool& pool);

  const BinnedMatrix& matrix_;
  OutputLoss loss_;
  LabelledRows labels_;
  BoostingParams params_;
  BoostedModel model_;
  std::vector<float> margins_, residuals_;  // (row, output)
  double loss_sum_ = 0.0;                   // at these margins, of all rows
  double known_weight_ = 0.0;               // of all labels that are known
  std::vector<float> row_weights_;          // mean over the outputs, unknown ones counted as 0; empty: all 1
  bool are_all_known_ = true;
  std::vector<row_t> rows_, others_;  // those the next tree grows on, and the rest
  ComponentTreeGrower grower_;
};

}  // namespace mtboost
