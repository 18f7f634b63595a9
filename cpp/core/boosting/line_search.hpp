// SPDX-License-Identifier: Apache-2.0
// Step size along a line: the t that minimises Σ w ℓ(u - t g), for one output. In a leaf that is relabelled g is 1 and t
// its value; for a tree of numbers g (gbrt-rpo, joly2016, algorithm 2) t is the output's weight ρ.
#pragma once

#include <span>
#include <vector>

namespace mtboost {

struct LinePoint {
  float offset;     // u: label minus margin; of the logistic loss: the margin
  float direction;  // g
  float weight;     // above 0
  float label = 0.0f;
};

// Where half of the weight lies below: the weighted median. If a value is reached at exactly half, the mean of it and
// the next one. NaN-free; there is at least one of positive weight.
struct WeightedValue {
  double value;
  double weight;
};
double weighted_median(std::span<WeightedValue> values /* IN-OUT: reordered */);

// ℓ = |u|: the median of u / g, weighted by w |g|. 0 if no g differs from 0.
double absolute_step(std::span<const LinePoint> points);

// ℓ = Huber's loss with corner δ. Its derivative in t is piecewise linear: Newton's method from the median on, which ends
// on a piece, and bisection where a step leaves what is known to hold the root.
double huber_step(std::span<const LinePoint> points, double delta);

// The logistic loss, by Newton's method and bisection, to a relative precision of 1e-6. Where the line
// separates the rows the loss has no minimum: |t| is at most `most`.
double logistic_step(std::span<const LinePoint> points, double most);

}  // namespace mtboost
