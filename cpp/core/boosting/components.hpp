// SPDX-License-Identifier: Apache-2.0
// What the splits of one tree are judged by: of each row a few components of its weighted residuals, and its weight
// (joly2016, algorithms 2 and 3). Trees see these only, however many outputs there are.
//
// Memory picture: the numbers of a row lie side by side, as do the sums of a bin of a histogram, and are added as one.
//
//   row   | component 0 | ... | component q-1 | weight | count | 0 ... |    float; histogram: double
//                                                        └ only if weights differ from 1: else the weight counts
//
// Components and weights are rounded to 24 bits below the largest of their kind. Sums of up to 2^29 rows in double are
// then exact, so that they do not depend on order or threads, and a node minus its child is what the other child sums to.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "projection/projection.hpp"

namespace mtboost {

// A projection as rows of residuals meet it: output after output if most entries differ from 0, else those that do.
// Products are added in float, in ascending order of the outputs.
class Directions {
 public:
  explicit Directions(const Projection& projection);
  // The outputs themselves.
  static Directions of_outputs(std::size_t n_outputs);

  std::size_t n_components() const noexcept { return n_components_; }

  // Rows that are projected at once, so that an entry of the matrix is loaded for several and sums do not wait for
  // each other.
  static constexpr std::size_t kRows = 4;

  // residuals: of at most kRows rows, times weights.
  void project(std::span<const float* const> residuals, std::span<float* const> components /* OUT */) const noexcept;

 private:
  explicit Directions(std::size_t n_outputs) : n_components_(n_outputs), n_outputs_(n_outputs) {}

  struct Entry {
    std::uint32_t component, output;
    float value;
  };

  std::size_t n_components_, n_outputs_;
  bool is_identity_ = false;
  std::size_t width_ = 0;       // components of an output in `matrix_`, padded; 0: entries
  std::vector<float> matrix_;   // (output, component)
  std::vector<Entry> entries_;  // ascending outputs
};

class Components {
 public:
  Components(std::size_t n_components, row_t n_rows, bool has_weights);

  std::size_t n_components() const noexcept { return n_components_; }
  std::size_t width() const noexcept { return width_; }  // 2, 4 or a multiple of 8
  std::size_t weight_at() const noexcept { return n_components_; }
  std::size_t count_at() const noexcept { return n_components_ + (has_weights_ ? 1 : 0); }

  const float* row(row_t row) const noexcept { return values_.data() + row * width_; }
  float* row(row_t row) noexcept { return values_.data() + row * width_; }

  // Once components and weights of these rows are written: rounds them and sets counts. Throws std::runtime_error if
  // one is not finite.
  void round(std::span<const row_t> rows, ThreadPool& pool);

  // Smaller gains cannot be distinguished from rounding: Σ over components of (n unit)² / W.
  double noise(double n_rows, double weight) const noexcept { return sum_of_squared_units_ * n_rows * n_rows / weight; }

 private:
  std::size_t n_components_, width_;
  bool has_weights_;
  std::vector<float> values_;
  double sum_of_squared_units_ = 0.0;
};

}  // namespace mtboost
