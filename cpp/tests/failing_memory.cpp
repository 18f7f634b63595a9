// SPDX-License-Identifier: Apache-2.0
#include "failing_memory.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

constexpr std::int64_t kUnlimited = std::int64_t{1} << 62;
std::atomic<std::int64_t> n_allocations_left = kUnlimited;

}  // namespace

void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return n_allocations_left.fetch_sub(1) > 0 ? std::malloc(size > 0 ? size : 1) : nullptr;
}
void* operator new(std::size_t size) {
  if (void* const memory = ::operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

void mtboost::test::run_out_of_memory(const std::function<void()>& step) {
  for (std::int64_t n = 0;; n += 1 + n / 64) {
    n_allocations_left = n;
    bool has_ended = true;
    try {
      step();
    } catch (const std::bad_alloc&) {
      has_ended = false;
    }
    n_allocations_left = kUnlimited;
    if (has_ended) return;
  }
}
