// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <numeric>

#include "base/large_array.hpp"
#include "check.hpp"

namespace mtboost::test::test_large_array {

TEST(large_arrays_begin_at_a_large_page_and_keep_their_values_when_they_grow) {
  constexpr std::size_t kPage = std::size_t{1} << 21;
  LargeArray<std::uint32_t> array(100);  // ordinary memory
  std::iota(array.begin(), array.end(), 0u);
  for (const std::size_t n : {kPage / 4, 3 * kPage / 4 + 1}) {  // numbers of 4 bytes
    array.resize(n, 7u);
    check(reinterpret_cast<std::uintptr_t>(array.data()) % kPage == 0);
    for (std::uint32_t i = 0; i < 100; ++i) check(array[i] == i);
    check(array.back() == 7u);
  }
}

}  // namespace mtboost::test::test_large_array
