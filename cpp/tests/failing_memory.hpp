// SPDX-License-Identifier: Apache-2.0
// Memory that runs out when a test wants it to: operator new of the whole test program.
#pragma once

#include <functional>

namespace mtboost::test {

// Calls step() with memory for 0, 1, ... allocations, every further one throwing std::bad_alloc, until it succeeds.
void run_out_of_memory(const std::function<void()>& step);

}  // namespace mtboost::test
