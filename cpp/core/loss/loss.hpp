// SPDX-License-Identifier: Apache-2.0
// Contract of a loss, told as its life during fit:
//   make_loss()           from an objective's name and its parameters; nothing changes afterwards
//   check_labels()        once, before the first round: every label lies in the loss's domain
//   gradients()           each round: margins and labels → first and second derivative in the margin, times the weight
//   refit_leaf_values()   after each tree, where refits_leaves(): the Newton step is replaced by the loss's own optimum
// Margin is the type of margins and leaf values: XGBoost keeps them in float, LightGBM in double. Gradients are those of
// XGBoost (3.0 to 3.4) or LightGBM (4.5 to 4.7) on the CPU bit for bit if both call one libm and neither is compiled with
// fused multiply-add: each operation in the library's type and order. Naive twins: tests/oracle, in float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"

namespace mtboost {

// What a loss reads of each row; row-major.
template <typename Margin>
struct LossRows {
  std::span<const Margin> margins;  // (n_rows, n_outputs)
  std::span<const float> labels;    // (n_rows, n_labels)
  std::span<const float> weights;   // (n_rows,), or empty: 1 each
  // Of losses of groups: the first row of each group, and last n_rows; else empty.
  std::span<const std::uint32_t> groups = {};
  // Of losses of risk sets: the rows of group after group, in each the earliest first; else empty.
  std::span<const std::uint32_t> order = {};

  float weight(std::size_t row) const noexcept { return weights.empty() ? 1.0f : weights[row]; }
};

template <typename Margin>
class Loss {
 public:
  virtual ~Loss() = default;

  const std::string& name() const noexcept { return name_; }
  std::size_t n_outputs() const noexcept { return n_outputs_; }
  std::size_t n_labels() const noexcept { return n_labels_; }  // per row: n_outputs, or 1 of a class, 2 of an interval

  // Refuses labels outside the domain: how many, the first of them, and what the loss needs.
  virtual void check_labels(std::span<const float> labels) const;

  // One pair per row and output, row-major. Throws std::runtime_error at the first row whose pair is not finite.
  void gradients(const LossRows<Margin>& rows, ThreadPool& pool, std::span<GradientPair> pairs /* OUT */) const;

  virtual bool refits_leaves() const noexcept { return false; }

  // Whether a row's gradient depends on the other rows of its group.
  virtual bool needs_groups() const noexcept { return false; }

  // The same where groups are in LossRows::order, by time.
  virtual bool needs_risk_sets() const noexcept { return false; }

  // Leaf values, learning rate included, of a tree just grown for one output from the gradients at these margins.
  // leaves: node each row fell into; negative if the row took no part in growing (sampled out, its task has quit).
  // values: one per node of the tree; those of leaves without a row that counts stay as they are.
  void refit_leaf_values(std::span<const node_t> leaves, const LossRows<Margin>& rows, std::size_t output,
                         Margin learning_rate, ThreadPool& pool, std::span<Margin> values /* IN, OUT */) const;

  // What messages call the margins that training starts from.
  static constexpr const char* kStart = std::is_same_v<Margin, float> ? "base_margin" : "init_score";

 protected:
  Loss(std::string name, std::size_t n_outputs, std::size_t n_labels)
      : name_(std::move(name)), n_outputs_(n_outputs), n_labels_(n_labels) {}

  static bool all_finite(std::span<const GradientPair> pairs) noexcept;

 private:
  virtual std::string label_domain() const = 0;  // completes "needs ..."
  virtual bool accepts(float label) const noexcept = 0;
  // What a formula has to know of all rows, such as one scale per output; handed to each block.
  virtual std::vector<Margin> summarise(const LossRows<Margin>&, ThreadPool&) const { return {}; }
  virtual void gradients_of_block(const LossRows<Margin>& rows, std::span<const Margin> summary, std::size_t first_row,
                                  std::size_t last_row, GradientPair* pairs /* OUT */) const noexcept = 0;
  // All pairs; false if some are not finite.
  virtual bool compute(const LossRows<Margin>& rows, ThreadPool& pool, std::span<GradientPair> pairs /* OUT */) const;
  virtual void refit(std::span<const node_t> /* leaves */, const LossRows<Margin>&, std::size_t /* output */,
                     Margin /* learning_rate */, ThreadPool&, std::span<Margin> /* values, IN, OUT */) const {}

  std::size_t check_shapes(const LossRows<Margin>& rows) const;  // returns n_rows

  std::string name_;
  std::size_t n_outputs_;
  std::size_t n_labels_;
};

extern template class Loss<float>;
extern template class Loss<double>;

using XgboostLoss = Loss<float>;
using LightgbmLoss = Loss<double>;

}  // namespace mtboost
