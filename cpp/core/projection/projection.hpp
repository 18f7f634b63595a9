// SPDX-License-Identifier: Apache-2.0
// A random matrix Φ that takes d outputs to q components (joly2016, section 17). E‖Φy‖² = ‖y‖² for every kind, so that
// variances of components stand for variances of outputs (lemma of Johnson and Lindenstrauss).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"

namespace mtboost {

// Entries, all times 1/√q:
enum class ProjectionKind : std::uint8_t {
  subsample,   // √d at one output a row, no output twice
  gaussian,    // normal
  rademacher,  // ±1
  achlioptas,  // ±a with probability 1/(2s) each, else 0; s = 3; a component of zeros is drawn again, and
               // a = √(s (1 - (1 - 1/s)^d)), √s but for few outputs, makes up for what that adds
  sparse,      // the same with s = √d
  hadamard,    // ±1: rows of a Hadamard matrix of order 2^k >= d, no row twice; its first d columns,
               // each with a random sign: without, outputs that move alike cancel in all rows but one
};
ProjectionKind projection_kind_named(const std::string& name);

// Components, and outputs, are counted in 32 bits. Throws std::invalid_argument.
void check_components(std::size_t n_components);

// Most components a projection can have: those that are drawn without replacement end.
std::size_t most_components(ProjectionKind kind, std::size_t n_outputs) noexcept;

// Entries that are not 0, output by output: a row of Y costs its own.
class Projection {
 public:
  Projection(ProjectionKind kind, std::size_t n_components, std::size_t n_outputs, RandomStream random);
  // matrix: (component, output).
  Projection(std::span<const float> matrix, std::size_t n_components);

  std::size_t n_components() const noexcept { return n_components_; }
  std::size_t n_outputs() const noexcept { return starts_.size() - 1; }

  // components += value times the column of `output`
  void add(std::size_t output, float value, float* components /* IN-OUT */) const noexcept {
    for (std::size_t i = starts_[output]; i < starts_[output + 1]; ++i)
      components[entries_[i].component] += value * entries_[i].value;
  }

  // Entries in proportion to the squares of these, so that those of a component add up to 1.
  Projection shares() const;

 private:
  struct Entry {
    std::uint32_t component;
    float value;
  };

  std::size_t n_components_;
  std::vector<std::size_t> starts_;  // of each output's entries, and their end
  std::vector<Entry> entries_;
};

// What a tree of several components is grown on, (row, component), where leaves have all outputs: the gradient of
// component k is Σⱼ Φₖⱼ gⱼ. Its hessian counts the row: the weights of its outputs, in proportion to Φₖⱼ², so that splits are
// those of squared error on the components.
//   pairs      (row, output); hessians are not used
//   weights    of rows, or (row, output) where 0 is an unknown label; empty: 1 each
// A row that has any weight has some in every component, too small to be seen in a sum: XGBoost takes rows that have
// none for rows left out of the sample.
void project_gradients(const Projection& projection, std::span<const GradientPair> pairs,
                       std::span<const float> weights, ThreadPool& pool, std::span<GradientPair> components /* OUT */);

}  // namespace mtboost
