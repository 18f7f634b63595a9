// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "base/random.hpp"
#include "check.hpp"

namespace mtboost::test::test_random {
namespace {

using Purpose = RandomStream::Purpose;

std::vector<std::uint64_t> draws(RandomStream stream, int n = 4) {
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(stream.next());
  return numbers;
}

}  // namespace

TEST(the_same_key_gives_the_same_draws) { check(draws({Purpose::rows, 7, 3, 2}) == draws({Purpose::rows, 7, 3, 2})); }

TEST(each_part_of_the_key_gives_other_draws) {
  std::set<std::uint64_t> numbers;
  std::size_t n_drawn = 0;
  for (const Purpose purpose :
       {Purpose::rows, Purpose::features_of_tree, Purpose::features_of_level, Purpose::features_of_node})
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      for (std::uint64_t tree = 0; tree < 5; ++tree)
        for (std::uint64_t index = 0; index < 5; ++index)
          for (const std::uint64_t number : draws({purpose, seed, tree, index})) {
            numbers.insert(number);
            ++n_drawn;
          }
  check(numbers.size() == n_drawn);  // a collision among 2000 of 2^64 numbers has probability 1e-13
}

TEST(uniform_draws_fill_the_unit_interval) {
  constexpr int kDraws = 10000;
  RandomStream stream(Purpose::rows, 1, 0);
  double sum = 0.0;
  bool is_inside = true;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = stream.uniform();
    is_inside = is_inside && draw >= 0.0 && draw < 1.0;
    sum += draw;
  }
  check(is_inside);
  check(std::abs(sum / kDraws - 0.5) < 4.0 * std::sqrt(1.0 / 12.0 / kDraws));  // four standard errors
}

TEST(noise_has_mean_0_and_variance_1) {
  constexpr int kDraws = 10000;
  RandomStream stream(Purpose::noise_of_level, 1, 0);
  double sum = 0.0, squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double draw = stream.noise();
    sum += draw;
    squares += draw * draw;
  }
  // Four standard errors; the variance of squares is below that of normal numbers.
  check(std::abs(sum / kDraws) < 4.0 / std::sqrt(kDraws));
  check(std::abs(squares / kDraws - 1.0) < 4.0 * std::sqrt(2.0 / kDraws));
}

TEST(first_draws_of_neighbouring_keys_are_uniform) {
  constexpr std::uint64_t kRows = 10000;  // how rows are sampled: one stream per row
  double sum = 0.0;
  for (std::uint64_t row = 0; row < kRows; ++row) sum += RandomStream(Purpose::rows, 1, 0, row).uniform();
  check(std::abs(sum / kRows - 0.5) < 4.0 * std::sqrt(1.0 / 12.0 / kRows));  // four standard errors
}

}  // namespace mtboost::test::test_random
