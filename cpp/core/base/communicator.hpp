// SPDX-License-Identifier: Apache-2.0
// Several machines that grow one tree, each on a part of the rows: what the grower knows of the others.
// Always holds: all workers take the same decisions, because each depends on sums over all workers only, and all of them
// call sum() at the same points in the same order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "base/types.hpp"

namespace mtboost {

class Communicator {
 public:
  virtual ~Communicator() = default;

  // Number of this worker, from 0.
  virtual int rank() const noexcept = 0;

  // Replaces the values by their sums over all workers, which have the same bits on each of them. `step` names the call
  // in messages. Called on the thread that entered the core, never inside of a parallel_for.
  virtual void sum(std::span<double> values /* IN-OUT */, const char* step) const = 0;
};

// The same for several arrays of sums at once: one of them where it lies, more of them in one copy.
inline void sum_together(const Communicator& workers, std::span<const std::span<GradientSums>> arrays /* IN-OUT */,
                         const char* step) {
  static_assert(sizeof(GradientSums) == 2 * sizeof(double));
  const auto numbers = [](std::span<GradientSums> sums) {
    return std::span(reinterpret_cast<double*>(sums.data()), 2 * sums.size());
  };
  if (arrays.size() == 1) return workers.sum(numbers(arrays.front()), step);
  std::size_t n_sums = 0;
  for (const auto& array : arrays) n_sums += array.size();
  const auto values = std::make_unique_for_overwrite<GradientSums[]>(n_sums);
  GradientSums* next = values.get();
  for (const auto& array : arrays) next = std::ranges::copy(array, next).out;
  workers.sum(numbers({values.get(), n_sums}), step);
  const GradientSums* total = values.get();
  for (const auto& array : arrays) {
    std::copy_n(total, array.size(), array.begin());
    total += array.size();
  }
}

}  // namespace mtboost
