// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "histogram/gradient_grid.hpp"
#include "histogram/histogram.hpp"
#include "split/task_rows.hpp"
#include "tables.hpp"

namespace mtboost::test::test_histogram {
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

// Some negative hessians too, as an objective of a user may have.
// are_largest: those with the largest sums of steps.
std::vector<GradientPair> signed_gradients(row_t n_rows, bool are_largest) {
  auto stream = test_stream(4);
  std::vector<GradientPair> pairs(n_rows);
  for (GradientPair& pair : pairs)
    pair = {static_cast<float>(stream.uniform() - 0.5), static_cast<float>(3.0 * stream.uniform() - 1.0)};
  if (are_largest) std::ranges::fill(pairs, GradientPair{std::nextafter(-1.0f, 0.0f), std::nextafter(2.0f, 0.0f)});
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

TEST(rounded_rows_are_added_as_integers_to_the_bits_of_the_naive_loop) {
  // Few rows are added as they are; more than 65,535 are unpacked more than once.
  for (const row_t n_rows : {30, 1500, 70000})
    for (const bin_t n_bins : {6, 300})  // one byte a bin, two bytes a bin
      for (const bool are_largest : {false, true}) {
        const auto matrix = make_matrix(random_table(n_rows, std::vector<Feature>(11, Feature{n_bins, 0.2}), 2));
        auto gradients = signed_gradients(n_rows, are_largest);
        const auto rows = all_rows(n_rows);
        ThreadPool pool(1);
        const GradientGrid grid(rows, gradients, pool);
        grid.round(rows, test_stream(1), gradients, pool);
        Slots slots(matrix->n_slots(), {1.0, 2.0});
        std::vector<PackedSums> room(room_for_packed_sums(*matrix), -1);
        for (std::size_t group = 0; group < matrix->groups().size(); ++group)
          add_rows(*matrix, rows, gradients, grid, group, group + 1, room, slots);
        Slots expected = naive_histogram(*matrix, rows, gradients);
        for (GradientSums& slot : expected) slot += {1.0, 2.0};
        check(slots == expected);
      }
}

TEST(gradients_are_rounded_to_a_neighbour_on_the_grid_and_right_on_average) {
  constexpr row_t kRows = 100000;  // more than one block
  auto gradients = signed_gradients(kRows, false);
  gradients[6] = {-100.0f, 0.0f};  // steps are 128 / 2^15 and 2 / 2^15
  constexpr double kSteps[] = {0x1.0p-8, 0x1.0p-14};
  const auto given = gradients;
  const auto rows = two_rows_of_three(kRows);
  for (const int n_threads : {1, 3}) {
    auto rounded = given;
    ThreadPool pool(n_threads);
    GradientGrid(rows, rounded, pool).round(rows, test_stream(1), rounded, pool);
    check(n_threads == 1 || std::memcmp(rounded.data(), gradients.data(), kRows * sizeof(GradientPair)) == 0);
    gradients = rounded;
  }
  double errors[2]{};
  for (row_t row = 0; row < kRows; ++row) {
    const double differences[] = {double{gradients[row].gradient} - given[row].gradient,
                                  double{gradients[row].hessian} - given[row].hessian};
    const double numbers[] = {gradients[row].gradient, gradients[row].hessian};
    for (int i = 0; i < 2; ++i) {
      check(row % 3 == 1 ? differences[i] == 0.0 : std::abs(differences[i]) < kSteps[i]);
      check(row % 3 == 1 || std::fmod(numbers[i], kSteps[i]) == 0.0);
      errors[i] += differences[i] / kSteps[i];
    }
  }
  check(gradients[6].gradient == -100.0f);
  // An error has a variance of at most 1/4 step²; five standard errors of their sum.
  for (const double error : errors) check(std::abs(error) < 5.0 * 0.5 * std::sqrt(double{kRows}));
}

TEST(gradients_of_any_size_have_a_grid) {
  ThreadPool pool(1);
  const std::vector<row_t> rows{0, 1};
  for (const float size : {0.0f, 1e-45f, 1e-38f, 1.0f, 3e38f}) {
    const std::vector<GradientPair> given{{size, size}, {-size, size}};
    auto gradients = given;
    const GradientGrid grid(rows, gradients, pool);
    grid.round(rows, test_stream(1), gradients, pool);
    const double error = std::max(size * 0x1.0p-14, 0x1.0p-126);
    for (const row_t row : rows) {
      check(std::abs(double{gradients[row].gradient} - given[row].gradient) <= error);
      const GradientSums again = grid.unpack(grid.pack(gradients[row]));
      check(again.gradient == gradients[row].gradient && again.hessian == gradients[row].hessian);
    }
  }
  for (const float number : {kMissing, std::numeric_limits<float>::infinity()}) {
    const std::vector<GradientPair> gradients{{1.0f, 1.0f}, {1.0f, number}};
    check_throws<std::invalid_argument>("must be finite", [&] { const GradientGrid grid(rows, gradients, pool); });
    const std::vector<row_t> first{0};
    const GradientGrid of_first(first, gradients, pool);  // of other rows they may be anything
  }
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

}  // namespace mtboost::test::test_histogram
