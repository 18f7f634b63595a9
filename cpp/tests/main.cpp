// SPDX-License-Identifier: Apache-2.0
// Tests of what Python cannot see: threads, random streams, memory layout. Runs every test, or those whose name contains
// the first argument.
#include <exception>
#include <iostream>
#include <string_view>

#include "check.hpp"

int main(int argc, char** argv) {
  using namespace mtboost::test;
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  int n_run = 0, n_failed = 0;
  for (const Test& test : all_tests) {
    if (std::string_view(test.claim).find(wanted) == std::string_view::npos) continue;
    n_failed_checks = 0;
    try {
      test.run();
    } catch (const std::exception& exception) {
      ++n_failed_checks;
      std::cout << "exception: " << exception.what() << '\n';
    }
    ++n_run;
    n_failed += n_failed_checks > 0;
    std::cout << (n_failed_checks > 0 ? "FAILED " : "passed ") << test.claim << std::endl;
  }
  std::cout << n_run << " tests, " << n_failed << " failed\n";
  return n_run == 0 || n_failed > 0 ? 1 : 0;
}
