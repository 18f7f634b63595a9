// SPDX-License-Identifier: Apache-2.0
// Ranges of numbers that callers pass. Messages name the number, its range and what was found; NaN lies in no range.
// Python checks most of them before, with more to say: here a wrong one must not reach a kernel.
#pragma once

#include <cmath>
#include <sstream>
#include <string>

#include "base/require.hpp"

namespace mtboost {

inline void require_number(bool is_in_range, const char* name, double found, const char* range) {
  require(is_in_range, [&] {
    std::ostringstream text;
    text << name << " must be " << range << ", found " << found;
    return text.str();
  });
}

inline void require_fraction(const char* name, double value) {
  require_number(value > 0.0 && value <= 1.0, name, value, "above 0 and at most 1");
}
inline void require_positive(const char* name, double value) {
  require_number(value > 0.0 && std::isfinite(value), name, value, "above 0 and finite");
}
inline void require_finite(const char* name, double value) {
  require_number(std::isfinite(value), name, value, "finite");
}
inline void require_rate(const char* name, double value) {
  require_number(value >= 0.0 && std::isfinite(value), name, value, "a finite number >= 0");
}
// Of penalties and least weights, infinity forbids.
inline void require_not_negative(const char* name, double value) {
  require_number(value >= 0.0, name, value, "at least 0");
}
inline void require_at_least(const char* name, double value, int least) {
  require_number(value >= least, name, value, ("at least " + std::to_string(least)).c_str());
}

}  // namespace mtboost
