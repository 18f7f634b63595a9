// SPDX-License-Identifier: Apache-2.0
// Walks from a root to leaves side by side: while one waits for its next node, the others proceed.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/types.hpp"

namespace mtboost {

inline constexpr std::size_t kWalks = 8;

// Takes as many steps of all walks as the deepest leaf needs, or fewer once all have ended.
// step(walk, at) is the node after `at`; after a leaf it is the leaf.
template <typename Step>
inline void walk_to_leaves(std::array<node_t, kWalks>& at, std::uint32_t depth, const Step& step) noexcept {
  // The first steps are taken without testing whether all have ended.
  constexpr std::uint32_t kSureSteps = 6;
  for (std::uint32_t i = std::min(depth, kSureSteps); i > 0; --i)
    for (std::size_t walk = 0; walk < kWalks; ++walk) at[walk] = step(walk, at[walk]);
  for (std::uint32_t i = kSureSteps; i < depth; ++i) {
    node_t moved = 0;
    for (std::size_t walk = 0; walk < kWalks; ++walk) {
      const node_t next = step(walk, at[walk]);
      moved |= next ^ at[walk];
      at[walk] = next;
    }
    if (moved == 0) return;
  }
}

}  // namespace mtboost
