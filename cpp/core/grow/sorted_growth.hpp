// SPDX-License-Identifier: Apache-2.0
// Grows a plain tree of XGBoost, level by level, on rows that are sorted by every feature: in a node with few rows this
// visits only the bins that have some. A bin is one of the different values of a feature.
// Sums of gradients must be exact (are_sums_exact); they then have the bits of XGBoost's histograms, in which siblings
// are subtracted, and bins without rows hold zeros and offer no better split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/grow_params.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "split/node_sums.hpp"
#include "split/xgboost_arithmetic.hpp"

namespace mtboost {

// A node as XGBoost stores it.
struct SmallNode {
  node_t left = -1;  // right = left + 1; -1: a leaf
  node_t parent = -1;
  feature_t feature = 0;
  float condition = 0.0f;  // threshold, or value of a leaf
  float gain = 0.0f;
  float hessian = 0.0f;
  float base_weight = 0.0f;
  bool default_left = false;
  bool is_categorical = false;  // never of this file's trees
  std::uint32_t first_category = 0, n_categories = 0;
};

// Rows of one model in the order of each feature, missing values last, and their bins.
class SortedFeatures {
 public:
  static constexpr std::uint16_t kMissing = 0xffff;
  static constexpr std::size_t kMostRows = 0xffff;

  SortedFeatures() = default;
  SortedFeatures(const MatrixView<float>& cells, Arithmetic arithmetic);

  std::size_t n_rows() const noexcept { return n_rows_; }
  std::size_t n_features() const noexcept { return n_features_; }
  std::span<const std::uint16_t> order() const noexcept { return order_; }  // (feature, place)
  std::span<const std::uint16_t> bins(feature_t feature) const noexcept {   // of each row
    return std::span(bins_).subspan(feature * n_rows_, n_rows_);
  }
  // XGBoost's upper ends of the bins: the value of the next bin, and beyond the last value.
  std::vector<float> edges(feature_t feature, const MatrixView<float>& cells) const;
  // XGBoost's threshold below every value: infinite since 3.4.
  float min_value(feature_t feature, const MatrixView<float>& cells) const noexcept;
  // What x must be below to be in one of the first `n_bins` bins.
  float threshold(feature_t feature, std::size_t n_bins, const MatrixView<float>& cells) const noexcept;

 private:
  std::span<const std::uint16_t> present(feature_t feature) const noexcept;

  std::size_t n_rows_ = 0, n_features_ = 0;
  std::vector<std::uint16_t> order_, bins_;
  Arithmetic arithmetic_ = Arithmetic::xgboost_3_0;
};

// Whether sums of any of the gradients, and of the hessians, are exact in double in any order.
bool are_sums_exact(std::span<const GradientPair> gradients) noexcept;

// Keeps its buffers from tree to tree, of one model or several.
class SortedGrowth {
 public:
  // draws_unseen: as in TreeGrower.
  explicit SortedGrowth(const XgboostParams& params, bool draws_unseen = false);

  void grow(const SortedFeatures& columns, const MatrixView<float>& cells, std::span<const GradientPair> gradients);

  std::vector<SmallNode> nodes;         // of the last tree
  std::vector<node_t> leaves;           // of each row
  std::vector<GradientPair> gradients;  // a buffer for callers

 private:
  struct BestSplit {
    float gain = 0.0f;
    feature_t feature = 0;
    std::uint32_t position = 0;  // bins on the left
    bool default_left = false;
    bool has_missing = false;
    GradientSums left, right;
  };
  // A node to be split, and its places in the order of each feature.
  struct Open {
    node_t node;
    std::uint32_t begin, end;
    NodeSums sums;
    BestSplit split;
  };

  node_t add_node(node_t parent, const NodeSums& sums);
  NodeSums node_sums(const GradientSums& sums) const noexcept;
  void find_split(const SortedFeatures& columns, Open& open);
  void scan(std::span<const std::uint16_t> rows, std::span<const std::uint16_t> bins, feature_t feature, Open& open);
  void take_best(bool are_left, bool has_missing, std::size_t n_steps, feature_t feature, Open& open);
  std::uint32_t mark_sides(const SortedFeatures& columns, const Open& open);
  void divide(const SortedFeatures& columns, const Open& open, std::uint32_t n_left);

  const XgboostParams params_;
  bool draws_unseen_;
  XgboostArithmetic arithmetic_;
  std::vector<double> g_, h_;  // of each row
  std::vector<std::uint16_t> order_, next_order_;
  std::vector<std::uint8_t> goes_left_;
  std::vector<double> near_gradients_, near_hessians_;
  std::vector<std::uint32_t> step_bins_;
  std::vector<float> gains_;
};

}  // namespace mtboost
