// SPDX-License-Identifier: Apache-2.0
// Sums of gradients and hessians per slot (feature and bin) of one node, and the loop that fills them.
// Always holds: a slot receives its rows in ascending order, on whichever thread, so that the sums have the same bits
// for any number of threads, and the bits of XGBoost's histogram. Naive twin: tests/oracle/naive.py.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {

using Histogram = std::vector<GradientSums>;  // BinnedMatrix::n_slots() entries

// Adds rows to the slots of the groups [first_group, last_group); the caller has zeroed them.
void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              std::size_t first_group, std::size_t last_group, Histogram& histogram /* OUT */) noexcept;

// Slots of a range of groups.
struct SlotRange {
  std::size_t begin;
  std::size_t end;
};
SlotRange slots_of_groups(const BinnedMatrix& matrix, std::size_t first_group, std::size_t last_group) noexcept;

// sibling = parent - child, written over the parent.
void subtract(const Histogram& child, SlotRange slots, Histogram& parent /* IN-OUT */) noexcept;

// Lends histograms while a tree grows and keeps their memory for the next tree.
class HistogramPool {
 public:
  explicit HistogramPool(std::size_t n_slots) : n_slots_(n_slots) {}

  Histogram take() {
    if (free_.empty()) return Histogram(n_slots_);
    Histogram histogram = std::move(free_.back());
    free_.pop_back();
    return histogram;
  }
  void give_back(Histogram&& histogram) {
    if (!histogram.empty()) free_.push_back(std::move(histogram));
  }

 private:
  std::size_t n_slots_;
  std::vector<Histogram> free_;
};

}  // namespace mtboost
