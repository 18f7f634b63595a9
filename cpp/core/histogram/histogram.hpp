// SPDX-License-Identifier: Apache-2.0
// Sums of gradients and hessians per slot (feature and bin) of one node, and the loop that fills them. Large nodes keep
// one layer per task beside the pooled sums: rows lie grouped by task, so that a layer costs no second pass.
// Always holds: a slot receives its rows in ascending order, on whichever thread, so that the sums have the same bits
// for any number of threads, and the bits of XGBoost's histogram. Naive twin: tests/oracle/naive.py.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {

struct Histogram {
  std::vector<GradientSums> pooled;   // BinnedMatrix::n_slots() entries
  std::vector<GradientSums> by_task;  // the same per task, task after task; empty in a node without layers

  bool has_layers() const noexcept { return !by_task.empty(); }
  std::span<const GradientSums> layer(task_t task) const noexcept {
    return std::span(by_task).subspan(task * pooled.size(), pooled.size());
  }
};

// Adds rows to the slots of the groups [first_group, last_group). In the sparse layout missing values are not added.
void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              std::size_t first_group, std::size_t last_group, std::span<GradientSums> slots /* IN-OUT */) noexcept;

// Slots of a range of groups.
struct SlotRange {
  std::size_t begin;
  std::size_t end;
};
SlotRange slots_of_groups(const BinnedMatrix& matrix, std::size_t first_group, std::size_t last_group) noexcept;

// target += addend, target -= subtrahend, slot by slot.
void add(std::span<const GradientSums> addend, std::span<GradientSums> target /* IN-OUT */) noexcept;
void subtract(std::span<const GradientSums> subtrahend, std::span<GradientSums> target /* IN-OUT */) noexcept;

// Lends buffers while a tree grows and keeps their memory for the next tree. What they hold is left over.
class HistogramPool {
 public:
  HistogramPool(std::size_t n_slots, task_t n_tasks) : n_slots_(n_slots), n_layer_slots_(n_slots * n_tasks) {}

  Histogram take(bool with_layers) {
    return {take(pooled_, n_slots_), with_layers ? take(layers_, n_layer_slots_) : Buffer{}};
  }
  void give_back_layers(Histogram& histogram) {
    if (histogram.has_layers()) layers_.push_back(std::exchange(histogram.by_task, {}));
  }
  void give_back(Histogram&& histogram) {
    give_back_layers(histogram);
    if (!histogram.pooled.empty()) pooled_.push_back(std::move(histogram.pooled));
  }

 private:
  using Buffer = std::vector<GradientSums>;
  static Buffer take(std::vector<Buffer>& free, std::size_t size) {
    if (free.empty()) return Buffer(size);
    Buffer buffer = std::move(free.back());
    free.pop_back();
    return buffer;
  }

  std::size_t n_slots_, n_layer_slots_;
  std::vector<Buffer> pooled_, layers_;
};

}  // namespace mtboost
