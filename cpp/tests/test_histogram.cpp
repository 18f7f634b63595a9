// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "check.hpp"
#include "histogram/histogram.hpp"
#include "split/task_rows.hpp"
#include "tables.hpp"

namespace mtboost::test {
namespace {

using Slots = std::vector<GradientSums>;

Slots naive_histogram(const BinnedMatrix& matrix, std::span<const row_t> rows,
                      std::span<const GradientPair> gradients) {
  Slots slots(matrix.n_slots());
  for (const row_t row : rows)
    for (feature_t feature = 0; feature < matrix.n_features(); ++feature)
      slots[matrix.slot_offset(feature) + matrix.bin(row, feature)] +=
          {gradients[row].gradient, gradients[row].hessian};
  return slots;
}

std::vector<GradientPair> fractional_gradients(row_t n_rows) {
  auto stream = test_stream(3);
  std::vector<GradientPair> pairs(n_rows);
  for (GradientPair& pair : pairs)
    pair = {static_cast<float>(stream.uniform() - 0.5), static_cast<float>(stream.uniform())};
  return pairs;
}

std::vector<row_t> two_rows_of_three(row_t n_rows) {
  std::vector<row_t> rows = all_rows(n_rows);
  std::erase_if(rows, [](row_t row) { return row % 3 == 1; });
  return rows;
}

}  // namespace

TEST(add_rows_is_the_naive_loop_for_any_number_of_features) {
  constexpr row_t kRows = 1500;  // more than two chunks of the loop
  const auto gradients = fractional_gradients(kRows);
  const auto rows = two_rows_of_three(kRows);
  for (std::size_t n_features = 1; n_features <= 17; ++n_features)
    for (const bin_t n_bins : {6, 300}) {  // one byte a bin, two bytes a bin
      const auto matrix = make_matrix(random_table(kRows, std::vector<Feature>(n_features, Feature{n_bins, 0.2}), 2));
      Slots slots(matrix->n_slots());
      add_rows(*matrix, rows, gradients, 0, matrix->groups().size(), slots);
      check(slots == naive_histogram(*matrix, rows, gradients));
    }
}

TEST(groups_summed_apart_make_the_same_histogram) {
  constexpr row_t kRows = 600;
  const auto matrix = make_matrix(random_table(kRows, std::vector<Feature>(20, Feature{6, 0.2}), 2));
  const auto gradients = fractional_gradients(kRows);
  const auto rows = all_rows(kRows);
  Slots slots(matrix->n_slots());
  for (std::size_t group = 0; group < matrix->groups().size(); ++group) {
    const Slots before = slots;
    add_rows(*matrix, rows, gradients, group, group + 1, slots);
    const SlotRange range = slots_of_groups(*matrix, group, group + 1);
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
      check((slot >= range.begin && slot < range.end) || slots[slot] == before[slot]);
  }
  check(slots == naive_histogram(*matrix, rows, gradients));
}

TEST(layers_of_tasks_add_up_to_the_pooled_sums) {
  constexpr row_t kRows = 900;
  const TaskRows tasks({0, 100, 100, 101, 600, kRows});  // the second has no row, the third has one
  const auto matrix = make_matrix(random_table(kRows, std::vector<Feature>(10, Feature{6, 0.2}), 2));
  const auto gradients = whole_gradients(kRows, 3);
  const auto rows = two_rows_of_three(kRows);
  Slots pooled(matrix->n_slots());
  std::size_t n_rows_seen = 0;
  for_each_task(tasks, rows, [&](task_t task, std::span<const row_t> rows_of_task) {
    check(!rows_of_task.empty());
    check(std::ranges::all_of(rows_of_task, [&](row_t row) { return tasks.task_of(row) == task; }));
    n_rows_seen += rows_of_task.size();
    Slots layer(matrix->n_slots());
    add_rows(*matrix, rows_of_task, gradients, 0, matrix->groups().size(), layer);
    check(layer == naive_histogram(*matrix, rows_of_task, gradients));
    add(layer, pooled);
  });
  check(n_rows_seen == rows.size());
  check(pooled == naive_histogram(*matrix, rows, gradients));
}

TEST(parent_minus_child_is_the_sibling) {
  constexpr row_t kRows = 500;
  const auto matrix = make_matrix(random_table(kRows, std::vector<Feature>(10, Feature{6, 0.2}), 2));
  const auto gradients = whole_gradients(kRows, 3);
  const auto rows = all_rows(kRows);
  const auto child = std::span(rows).first(200), sibling = std::span(rows).subspan(200);
  Slots slots = naive_histogram(*matrix, rows, gradients);
  subtract(naive_histogram(*matrix, child, gradients), slots);
  check(slots == naive_histogram(*matrix, sibling, gradients));
}

TEST(a_histogram_pool_lends_buffers_of_the_right_size) {
  HistogramPool pool(10);
  const std::vector<task_t> two{1, 4};
  Histogram histogram = pool.take(two);
  check(histogram.pooled.size() == 10 && histogram.layers.size() == 2 && histogram.layer(4).size() == 10);
  check(histogram.layer(0).empty() && histogram.layer(2).empty() && histogram.layer(5).empty());
  const auto* const memory = histogram.layer(1).data();
  pool.keep_layers(histogram, std::span(two).last(1));
  check(histogram.layer(1).empty() && histogram.layer(4).size() == 10);
  check(pool.take({}).pooled.data() == memory);  // lent again, not allocated
  pool.give_back(std::move(histogram));
  check(histogram.layers.empty() && histogram.pooled.empty());
}

}  // namespace mtboost::test
