// SPDX-License-Identifier: Apache-2.0
// Whose numbers come out. XGBoost 3.4 rounds gains in another order than 3.0 to 3.3 (split/xgboost_arithmetic.hpp) and has
// other absolute errors and quantiles (loss/smooth_absolute_error_loss.hpp, loss/smooth_quantile_loss.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "base/require.hpp"

namespace mtboost {

enum class Arithmetic : std::uint8_t { xgboost_3_0, xgboost_3_4 };

inline Arithmetic arithmetic_named(const std::string& name) {
  if (name == "xgboost-3.0") return Arithmetic::xgboost_3_0;
  require(name == "xgboost-3.4", "arithmetic must be 'xgboost-3.0' or 'xgboost-3.4', found '" + name + "'");
  return Arithmetic::xgboost_3_4;
}

}  // namespace mtboost
