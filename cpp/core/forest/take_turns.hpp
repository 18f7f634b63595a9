// SPDX-License-Identifier: Apache-2.0
// Several walks from roots to leaves at a time: while one waits for its next node, the others go on.
#pragma once

#include <array>
#include <cstddef>

namespace mtboost {

// Makes walks start(0), ..., start(n - 1), each step by step(walk) until that says true: the walk has ended. It may be
// called again then, and says so again.
template <typename Start, typename Step>
void take_turns(std::size_t n, const Start& start, const Step& step) {
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
