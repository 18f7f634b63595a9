// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <vector>

#include "check.hpp"
#include "grow/row_partition.hpp"
#include "tables.hpp"

namespace mtboost::test::test_row_partition {
namespace {

constexpr row_t kRows = 60000;  // several blocks of the partition

// Two levels: the root by feature 0 (one byte a bin), then both children at once by feature 8 (two bytes a bin).
std::vector<std::vector<RowPartition::NodeSplit>> two_levels() {
  const std::vector<std::uint8_t> by_narrow{1, 0, 0, 1, 0};  // four bins, then missing
  std::vector<std::uint8_t> by_wide(301);
  for (std::size_t bin = 0; bin < by_wide.size(); ++bin) by_wide[bin] = bin % 3 == 0;
  return {{{0, 1, 2, 0, by_narrow}}, {{1, 3, 4, 8, by_wide}, {2, 5, 6, 8, by_wide}}};
}

Table table() {
  std::vector<Feature> features(9, Feature{4, 0.2});
  features[8] = {300, 0.1};
  return random_table(kRows, features, 4);
}

}  // namespace

TEST(a_partition_is_stable_and_the_same_for_any_number_of_threads) {
  std::vector<row_t> rows = all_rows(kRows);
  std::erase_if(rows, [](row_t row) { return row % 7 == 0; });
  for (const int n_threads : {1, 2, 7}) {
    const auto matrix = make_matrix(table(), {}, 1, /*is_sparse=*/n_threads == 2);
    ThreadPool pool(n_threads);
    RowPartition partition;
    partition.start(all_rows(10));  // what an earlier tree leaves behind does not matter
    partition.start(rows);
    for (const auto& level : two_levels()) {
      std::vector<std::vector<row_t>> expected;
      for (const auto& split : level)
        for (const bool is_left : {true, false}) {
          auto& side = expected.emplace_back();
          std::ranges::copy_if(partition.rows(split.node), std::back_inserter(side), [&](row_t row) {
            return (split.goes_left[matrix->bin(row, split.feature)] != 0) == is_left;
          });
        }
      partition.split(*matrix, level, pool);
      for (std::size_t i = 0; i < level.size(); ++i) {
        check(std::ranges::equal(partition.rows(level[i].left), expected[2 * i]));
        check(std::ranges::equal(partition.rows(level[i].right), expected[2 * i + 1]));
      }
    }
  }
}

TEST(a_side_may_be_empty) {
  const auto matrix = make_matrix(random_table(5, {{4}}, 4));
  ThreadPool pool(1);
  RowPartition partition;
  partition.start(all_rows(5));
  const std::vector<RowPartition::NodeSplit> splits{{0, 1, 2, 0, {1, 1, 1, 1, 0}}};
  partition.split(*matrix, splits, pool);
  check(std::ranges::equal(partition.rows(1), all_rows(5)));
  check(partition.rows(2).empty());
}

}  // namespace mtboost::test::test_row_partition
