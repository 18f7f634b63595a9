// SPDX-License-Identifier: Apache-2.0
// Random numbers whose value depends on a key (seed, tree, node, ...), never on the thread or on what was drawn before.
// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): a counter passed through a mixing function.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtboost {

class RandomStream {
 public:
  // What a draw is for comes first in the key, so that two purposes never share a stream.
  enum class Purpose : std::uint64_t {
    rows = 1,
    features_of_tree,
    features_of_level,
    features_of_node,
    splits_of_node,
    projection_of_tree,
    noise_of_level,
    rounding_of_gradients,
    unseen_values
  };

  // The streams of a purpose in one tree, by index.
  class OfTree {
   public:
    OfTree(Purpose purpose, std::uint64_t seed, std::uint64_t tree) noexcept
        : key_(mix(mix(mix(static_cast<std::uint64_t>(purpose)) ^ seed) ^ tree)) {}
    RandomStream operator[](std::uint64_t index) const noexcept { return RandomStream(mix(key_ ^ index)); }

   private:
    std::uint64_t key_;
  };

  RandomStream(Purpose purpose, std::uint64_t seed, std::uint64_t tree, std::uint64_t index = 0) noexcept
      : RandomStream(OfTree(purpose, seed, tree)[index]) {}

  std::uint64_t next() noexcept { return mix(state_ += kGolden); }

  // The stream after n more draws.
  RandomStream after(std::uint64_t n) const noexcept {
    RandomStream later = *this;
    later.state_ += n * kGolden;
    return later;
  }

  // Uniform on [0, 1) with 53 random bits.
  double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Nearly normal, with mean 0 and variance 1: four uniform numbers of 16 bits each, added up.
  double noise() noexcept {
    std::uint64_t bits = next();
    int sum = -2 * 0xffff;
    for (int i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<int>(bits & 0xffff);
    return sum * (1.7320508075688772 / 0xffff);
  }

  // Uniform on 0, ..., n - 1; off by less than n / 2^53.
  std::size_t below(std::size_t n) noexcept { return static_cast<std::size_t>(uniform() * static_cast<double>(n)); }

 private:
  explicit RandomStream(std::uint64_t state) noexcept : state_(state) {}

  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15ULL;

  static constexpr std::uint64_t mix(std::uint64_t z) noexcept {
    z += kGolden;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

}  // namespace mtboost
