// SPDX-License-Identifier: Apache-2.0
// Interleaves several walks from roots to leaves: while one waits for its next node, the others proceed.
#pragma once

#include <array>
#include <cstddef>

namespace mtboost {

// Runs the walks start(0), ..., start(n - 1). step(walk) advances a walk and returns true once it has ended.
// It may be called again for an ended walk and returns true again.
template <typename Start, typename Step>
void interleave_walks(std::size_t n, const Start& start, const Step& step) {
  std::array<decltype(start(n)), 8> walks;
  std::size_t next = 0;
  if (n >= walks.size()) {
    for (auto& walk : walks) walk = start(next++);
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (auto& walk : walks) {
        if (!step(walk)) {
          goes_on = true;
        } else if (next < n) {
          walk = start(next++);
          goes_on = true;
        }
      }
    }
  }
  for (; next < n; ++next) {
    auto walk = start(next);
    while (!step(walk)) continue;
  }
}

}  // namespace mtboost
