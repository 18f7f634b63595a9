// SPDX-License-Identifier: Apache-2.0
// Contract of a loss, told as its life during fit:
//   make_loss()           from an objective's name and its parameters; nothing changes afterwards
//   check_labels()        once, before the first round: every label lies in the loss's domain
//   gradients()           each round: margins and labels → first and second derivative in the margin, times the weight
//   refit_leaf_values()   after each tree, where refits_leaves(): the Newton step is replaced by the loss's own optimum
// Gradients are XGBoost's (3.0 to 3.4, CPU) bit for bit if both call one libm and neither is compiled with fused
// multiply-add: float throughout, operations in XGBoost's order. Naive twins: tests/oracle/test_losses.py, in float64.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"

namespace mtboost {

// What a loss reads of each row; row-major.
struct LossRows {
  std::span<const float> margins;  // (n_rows, n_outputs)
  std::span<const float> labels;   // (n_rows, n_labels)
  std::span<const float> weights;  // (n_rows,), or empty: 1 each

  float weight(std::size_t row) const noexcept { return weights.empty() ? 1.0f : weights[row]; }
};

class Loss {
 public:
  virtual ~Loss() = default;

  const std::string& name() const noexcept { return name_; }
  std::size_t n_outputs() const noexcept { return n_outputs_; }
  std::size_t n_labels() const noexcept { return n_labels_; }  // per row: n_outputs, or 1 if the label is a class

  // Refuses labels outside the domain: how many, the first of them, and what the loss needs.
  void check_labels(std::span<const float> labels) const;

  // One pair per row and output, row-major. Throws std::runtime_error at the first row whose pair is not finite.
  void gradients(const LossRows& rows, ThreadPool& pool, std::span<GradientPair> pairs /* OUT */) const;

  virtual bool refits_leaves() const noexcept { return false; }

  // Leaf values, learning rate included, of a tree just grown for one output from the gradients at these margins.
  // leaves: node each row fell into; negative if the row took no part in growing (sampled out, its task has quit).
  // values: one per node of the tree; those of leaves without a row of positive weight stay as they are.
  void refit_leaf_values(std::span<const node_t> leaves, const LossRows& rows, std::size_t output, float learning_rate,
                         ThreadPool& pool, std::span<float> values /* IN, OUT */) const;

 protected:
  Loss(std::string name, std::size_t n_outputs, std::size_t n_labels)
      : name_(std::move(name)), n_outputs_(n_outputs), n_labels_(n_labels) {}

 private:
  virtual std::string label_domain() const = 0;  // completes "needs ..."
  virtual bool accepts(float label) const noexcept = 0;
  // What a formula has to know of all rows, such as one scale per output; handed to each block.
  virtual std::vector<float> summarise(const LossRows&, ThreadPool&) const { return {}; }
  virtual void gradients_of_block(const LossRows& rows, std::span<const float> summary, std::size_t first_row,
                                  std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept = 0;
  virtual void refit(std::span<const node_t> /* leaves */, const LossRows&, std::size_t /* output */,
                     float /* learning_rate */, ThreadPool&, std::span<float> /* values, IN, OUT */) const {}

  std::size_t check_shapes(const LossRows& rows) const;  // returns n_rows

  std::string name_;
  std::size_t n_outputs_;
  std::size_t n_labels_;
};

}  // namespace mtboost
