// SPDX-License-Identifier: Apache-2.0
// Several machines that grow one tree, each on a part of the rows: what the grower knows of the others.
// Always holds: all workers take the same decisions, because each depends on sums over all workers only, and all of them
// call sum() at the same points in the same order.
#pragma once

#include <span>
#include <vector>

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

// The same for several arrays of sums at once.
inline void sum_together(const Communicator& workers, std::span<const std::span<GradientSums>> arrays /* IN-OUT */,
                         const char* step) {
  std::vector<double> values;
  for (const auto& array : arrays)
    for (const GradientSums& sums : array) values.insert(values.end(), {sums.gradient, sums.hessian});
  workers.sum(values, step);
  const double* next = values.data();
  for (const auto& array : arrays)
    for (GradientSums& sums : array) {
      sums = {next[0], next[1]};
      next += 2;
    }
}

}  // namespace mtboost
