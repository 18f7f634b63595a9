// SPDX-License-Identifier: Apache-2.0
// Probabilities of margins, for millions of them at once: loops over these functions become vector instructions, which
// calls of std::exp do not.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace mtboost {

// exp(x) of x <= 0, to two units in the last place; of x < -87 that of -87. exp(x) = 2^n exp(r) with |r| <= ln(2) / 2,
// where seven terms of the series are enough for a float.
inline float exp_of_negative(float x) noexcept {
  constexpr float kShift = 12582912.0f;  // 1.5 · 2^23: adding it rounds to a whole number, in the lowest bits
  constexpr float kLog2Upper = 0.693359375f, kLog2Lower = -2.12194440e-4f;  // n times the first is exact
  x = std::max(x, -87.0f);
  const float shifted = x * 1.44269504f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * kLog2Upper) - n * kLog2Lower;
  const float series =
      1.0f + r * (1.0f + r * (1.0f / 2 + r * (1.0f / 6 + r * (1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720))))));
  const auto power = std::bit_cast<std::uint32_t>(shifted) << 23;  // n where a float has its exponent
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(series) + power);
}

// p or 1 - p, whichever is smaller, p = 1 / (1 + exp(-margin)).
inline float smaller_probability(float margin) noexcept {
  const float e = exp_of_negative(-std::abs(margin));
  return e / (1.0f + e);
}

// y - p, to all bits also where p is next to 0 or 1 and y is that.
inline float logistic_residual(float label, float margin) noexcept {
  const float tail = smaller_probability(margin);
  return margin > 0.0f ? (label - 1.0f) + tail : label - tail;
}

}  // namespace mtboost
