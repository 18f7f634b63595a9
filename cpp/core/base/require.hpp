// SPDX-License-Identifier: Apache-2.0
// require(): the caller's mistake, ensure(): ours. pybind11 turns the first into ValueError, the second into RuntimeError.
#pragma once

#include <concepts>
#include <stdexcept>
#include <string>

namespace mtboost {

inline void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument(message);
}
inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}
// For inner loops: the message is made only if it is needed.
template <std::invocable Message>
void require(bool condition, const Message& message) {
  if (!condition) throw std::invalid_argument(message());
}

inline void ensure(bool condition, const char* message) {
  if (!condition) throw std::logic_error(message);
}

}  // namespace mtboost
