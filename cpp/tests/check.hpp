// SPDX-License-Identifier: Apache-2.0
// The few lines of test framework that the C++ tests need. A test is TEST(claim) { ... }; a check that fails is printed
// and the test goes on.
#pragma once

#include <iostream>
#include <source_location>
#include <string>
#include <vector>

namespace mtboost::test {

struct Test {
  const char* claim;
  void (*run)();
};
inline std::vector<Test> all_tests;
inline int n_failed_checks = 0;

inline bool add_test(const char* claim, void (*run)()) {
  all_tests.push_back({claim, run});
  return true;
}

inline void check(bool holds, const std::source_location& where = std::source_location::current()) {
  if (holds) return;
  ++n_failed_checks;
  std::cout << where.file_name() << ':' << where.line() << ": check failed\n";
}

// body() must throw an Exception whose message contains `words`.
template <typename Exception, typename Body>
void check_throws(const std::string& words, const Body& body,
                  const std::source_location& where = std::source_location::current()) {
  try {
    body();
  } catch (const Exception& exception) {
    if (std::string(exception.what()).find(words) != std::string::npos) return;
    std::cout << "found: " << exception.what() << '\n';
  }
  check(false, where);
}

}  // namespace mtboost::test

#define TEST(claim)                                                             \
  static void claim();                                                          \
  static const bool claim##_is_listed = mtboost::test::add_test(#claim, claim); \
  static void claim()
