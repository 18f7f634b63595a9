// SPDX-License-Identifier: Apache-2.0
// Sums of gradients and hessians per slot (feature and bin) of one node, and the loop that fills them. Tasks with many
// rows in the node get a separate layer beside the pooled sums: rows lie grouped by task, so that it costs no second
// pass.
// Always holds: a slot receives its rows in ascending order, on whichever thread, so that the sums have the same bits
// for any number of threads, and the bits of XGBoost's histogram. Naive twin: tests/oracle/naive.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/large_array.hpp"
#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "histogram/gradient_grid.hpp"

namespace mtboost {

struct TaskLayer {
  task_t task;
  UnsetArray<GradientSums> slots;
};

struct Histogram {
  UnsetArray<GradientSums> pooled;  // BinnedMatrix::n_slots() entries
  std::vector<TaskLayer> layers;    // the same from the rows of one task; ascending by task

  // Empty if the task has no layer.
  std::span<const GradientSums> layer(task_t task) const noexcept {
    const auto place = std::ranges::lower_bound(layers, task, {}, &TaskLayer::task);
    return place != layers.end() && place->task == task ? std::span(place->slots) : std::span<const GradientSums>{};
  }
};

// Adds rows to the slots of the groups [first_group, last_group). In the sparse layout unstored values are not added.
void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              std::size_t first_group, std::size_t last_group, std::span<GradientSums> slots /* IN-OUT */) noexcept;

// The same of gradients that lie on a grid, to the same bits, in integers where that is faster.
// room: for sums, room_for_packed_sums(matrix) of them.
void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              const GradientGrid& grid, std::size_t first_group, std::size_t last_group,
              std::span<PackedSums> room /* OUT */, std::span<GradientSums> slots /* IN-OUT */) noexcept;
std::size_t room_for_packed_sums(const BinnedMatrix& matrix) noexcept;

// Slots of a range of groups.
struct SlotRange {
  std::size_t begin;
  std::size_t end;
};
SlotRange slots_of_groups(const BinnedMatrix& matrix, std::size_t first_group, std::size_t last_group) noexcept;

// target += addend, target -= subtrahend, slot by slot.
void add(std::span<const GradientSums> addend, std::span<GradientSums> target /* IN-OUT */) noexcept;
void subtract(std::span<const GradientSums> subtrahend, std::span<GradientSums> target /* IN-OUT */) noexcept;

// Lends buffers while a tree grows and keeps their memory for the next tree. What they hold is left over, or unset.
class HistogramPool {
 public:
  explicit HistogramPool(std::size_t n_slots) : n_slots_(n_slots) {}

  // layered_tasks: ascending.
  Histogram take(std::span<const task_t> layered_tasks) {
    Histogram histogram{take_buffer(), {}};
    for (const task_t task : layered_tasks) histogram.layers.push_back({task, take_buffer()});
    return histogram;
  }
  void give_back(Histogram&& histogram) {
    keep_layers(histogram, {});
    if (!histogram.pooled.empty()) free_.push_back(std::move(histogram.pooled));
  }
  // Gives back the layers of all other tasks.
  void keep_layers(Histogram& histogram, std::span<const task_t> layered_tasks) {
    const auto others = std::ranges::stable_partition(histogram.layers, [&](const TaskLayer& layer) {
      return std::ranges::binary_search(layered_tasks, layer.task);
    });
    for (TaskLayer& layer : others) free_.push_back(std::move(layer.slots));
    histogram.layers.erase(others.begin(), others.end());
  }

 private:
  UnsetArray<GradientSums> take_buffer() {
    if (free_.empty()) return UnsetArray<GradientSums>(n_slots_);
    auto buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  std::size_t n_slots_;
  std::vector<UnsetArray<GradientSums>> free_;
};

}  // namespace mtboost
