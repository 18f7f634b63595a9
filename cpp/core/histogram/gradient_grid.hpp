// SPDX-License-Identifier: Apache-2.0
// Quantized gradients (shi2022): those of a tree are rounded to 16-bit multiples of a step, up or down at random and right
// on average. Histograms then add integers, gradient and hessian at once in 64 bits.
// Steps are powers of two, so that rounded gradients are floats, and sums of them exact doubles in any order: whatever
// reads them as floats gets the same bits as the integers. The naive twin is therefore add_rows of the rounded gradients;
// of the rounding itself, tests/oracle/test_quantized_gradients.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/random.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"

namespace mtboost {

// 2³² times the sum of gradients, plus the sum of hessians, in steps.
using PackedSums = std::int64_t;

class GradientGrid {
 public:
  // Steps so that the largest gradient and hessian of these rows is at most 2¹⁵ of them. Throws std::invalid_argument if
  // one is not finite.
  GradientGrid(std::span<const row_t> rows, std::span<const GradientPair> gradients, ThreadPool& pool);

  // Sums of this many rows fit in their halves of PackedSums.
  static constexpr std::size_t kMostRows = 0xffff;

  // Row r has the draw r of the stream.
  void round(std::span<const row_t> rows, const RandomStream& stream, std::span<GradientPair> gradients /* IN-OUT */,
             ThreadPool& pool) const;

  PackedSums pack(const GradientPair& rounded) const noexcept {
    const auto gradient = static_cast<std::int32_t>(rounded.gradient * steps_per_gradient_);
    const auto hessian = static_cast<std::int32_t>(rounded.hessian * steps_per_hessian_);
    return static_cast<PackedSums>(gradient) * (PackedSums{1} << 32) + hessian;
  }
  GradientSums unpack(PackedSums sums) const noexcept {
    const auto hessian = static_cast<std::int32_t>(static_cast<std::uint32_t>(sums));  // may be negative
    const auto gradient = static_cast<std::int32_t>((sums - hessian) >> 32);
    return {gradient * gradient_step_, hessian * hessian_step_};
  }

 private:
  double gradient_step_, hessian_step_;
  float steps_per_gradient_, steps_per_hessian_;
};

}  // namespace mtboost
