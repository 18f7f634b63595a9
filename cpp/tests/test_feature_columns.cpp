// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <vector>

#include "check.hpp"
#include "forest/feature_columns.hpp"

namespace mtboost::test::test_feature_columns {
namespace {

constexpr std::size_t kRows = 700;

// A column each of bytes, of what is nearly a byte, of numbers that are bytes in the first rows only, and others.
std::vector<std::vector<float>> columns_of_every_kind() {
  std::vector<std::vector<float>> columns(8, std::vector<float>(kRows));
  for (std::size_t row = 0; row < kRows; ++row) {
    columns[0][row] = static_cast<float>(row % 256);
    columns[1][row] = static_cast<float>(row % 257);
    columns[2][row] = row < kRows - 1 ? static_cast<float>(row % 7) : 0.5f;
    columns[3][row] = row == 300 ? -1.0f : 3.0f;
    columns[4][row] = row == 600 ? std::numeric_limits<float>::quiet_NaN() : 255.0f;
    columns[5][row] = row == 10 ? std::numeric_limits<float>::infinity() : 1.0f;
    columns[6][row] = row % 2 == 0 ? -0.0f : 1.0f;
    columns[7][row] = std::sin(static_cast<float>(row));
  }
  return columns;
}

bool is_same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void check_reads(bool is_row_major, std::size_t step) {
  const auto columns = columns_of_every_kind();
  const std::size_t n = columns.size();
  std::vector<float> values(kRows * n);
  const std::size_t row_stride = is_row_major ? n : 1, column_stride = is_row_major ? 1 : kRows;
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t column = 0; column < n; ++column)
      values[row * row_stride + column * column_stride] = columns[column][row];
  ThreadPool pool(2);
  const FeatureColumns table(
      {values.data(), kRows, n, static_cast<std::ptrdiff_t>(row_stride), static_cast<std::ptrdiff_t>(column_stride)},
      pool);
  std::vector<row_t> rows;
  for (std::size_t row = 0; row < kRows; row += step) rows.push_back(static_cast<row_t>(row));
  std::vector<float> found(rows.size());
  for (feature_t feature = 0; feature < n; ++feature) {
    table.read(feature, rows, found.data());
    for (std::size_t i = 0; i < rows.size(); ++i) check(is_same(found[i], columns[feature][rows[i]]));
    check(table.has_missing(feature) == (feature == 4));
  }
}

TEST(values_are_read_as_they_are_by_many_rows_and_few) {
  for (const bool is_row_major : {true, false})
    for (const std::size_t step : {1, 7, 20, 350}) check_reads(is_row_major, step);
}

}  // namespace
}  // namespace mtboost::test::test_feature_columns
