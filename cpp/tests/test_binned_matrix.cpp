// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "binning/binned_matrix.hpp"
#include "binning/sparse_column.hpp"
#include "check.hpp"
#include "tables.hpp"
#include "tree/tree.hpp"

namespace mtboost::test::test_binned_matrix {
namespace {

constexpr bool kIsSparse = true;

bool have_same_bytes(const BinnedMatrix& a, const BinnedMatrix& b) {
  return a.n_rows() == b.n_rows() && a.row_bytes() == b.row_bytes() &&
         std::equal(a.row_data(0), a.row_data(0) + a.n_rows() * a.row_bytes(), b.row_data(0));
}

bin_t expected_bin(const Table& table, row_t row, feature_t feature) {
  const float value = table.view()(row, feature);
  return std::isnan(value) ? table.features[feature].n_bins : static_cast<bin_t>(value);
}

// Nine features or more, so that there is more than one group; one of them needs two bytes.
Table mixed_table(row_t n_rows) {
  std::vector<Feature> features(11, Feature{20, 0.1});
  features[3] = {5, 0.2, true};
  features[8] = {300, 0.1};
  return random_table(n_rows, features, 1);
}

}  // namespace

TEST(an_edge_belongs_to_the_bin_above_it) {
  const Table table{{{3}}, 6, {-7.0f, 0.999f, 1.0f, 2.5f, 3.0f, 1e30f}};  // edges at 1, 2, 3
  const auto matrix = make_matrix(table);
  for (row_t row = 0; row < table.n_rows; ++row)
    check(matrix->bin(row, 0) == std::vector<bin_t>{0, 0, 1, 2, 2, 2}[row]);
}

TEST(rows_to_predict_reach_the_leaves_of_their_raw_values) {
  // Three edges at 1, 2, 3 above the smallest value, -1; and the categories 0, 1, 2.
  constexpr float inside[] = {-0.5f, 1.0f, 2.5f, 0.0f, 1.0f, 2.0f};
  constexpr float outside[] = {-1.5f, 3.0f, 1e30f, 3.0f, 0.5f, kMissing};
  Table table{{{3, 0.5}, {3, 0.5, true}}, 6, {}};
  for (int row = 0; row < 6; ++row) {
    table.values.push_back(row < 3 ? inside[row] : outside[row - 3]);
    table.values.push_back(row < 3 ? inside[row + 3] : outside[row]);
  }
  for (const bool is_sparse : {false, true}) {
    const auto matrix = make_matrix(table, {}, 1, is_sparse, true);
    ThreadPool pool(1);
    for (const feature_t feature : {0u, 1u})
      for (bin_t position = 0; position <= 3; ++position)
        for (const bool default_left : {false, true}) {
          Tree tree;
          for (const node_t parent : {kNoNode, 0, 0}) tree.add_node(parent, 1.0, 0.0, 0.0);
          tree.left[0] = 1, tree.right[0] = 2;
          tree.feature[0] = feature, tree.position[0] = position, tree.default_left[0] = default_left;
          if (feature == 1 && position < 3) tree.listed_bins[0] = {position};
          const auto leaves = find_leaves(tree, *matrix, pool);
          for (row_t row = 0; row < table.n_rows; ++row) {
            const float value = table.view()(row, feature);
            bool goes_left = feature == 0 ? value < threshold(tree, 0, matrix->edges())
                                          : position == 3 || value != static_cast<float>(position);
            if (std::isnan(value)) goes_left = default_left;
            check(leaves[row] == (goes_left ? 1 : 2));
          }
        }
  }
}

TEST(rows_side_by_side_reach_the_leaves_of_their_own_walks) {
  // A deep branch on the left: walks end after 1 to 9 steps.
  Tree tree;
  tree.add_node(kNoNode, 1.0, 0.0, 0.0);
  for (node_t node = 0; node < 18; node += node == 0 ? 1 : 2) {
    const auto at = static_cast<std::size_t>(node);
    tree.left[at] = tree.add_node(node, 1.0, 0.0, 0.0);
    tree.right[at] = tree.add_node(node, 1.0, 0.0, 0.0);
    tree.feature[at] = static_cast<feature_t>(at % 3), tree.position[at] = 15, tree.default_left[at] = at % 2;
  }
  const Table table = random_table(101, std::vector<Feature>(3, Feature{20, 0.6}), 4);
  for (const bool is_sparse : {false, true}) {
    const auto matrix = make_matrix(table, {}, 1, is_sparse);
    for (std::size_t n_rows = 0; n_rows <= table.n_rows; n_rows += 1 + n_rows / 20) {
      const auto rows = all_rows(static_cast<row_t>(n_rows));
      std::vector<node_t> leaves(n_rows);
      find_leaves(tree, *matrix, rows, leaves);
      for (const row_t row : rows) {
        node_t node = 0;
        while (!tree.is_leaf(node)) {
          const auto at = static_cast<std::size_t>(node);
          const bin_t bin = matrix->bin(row, tree.feature[at]);
          const bool is_missing = bin == matrix->edges().n_bins(tree.feature[at]);
          const bool goes_left = is_missing ? tree.default_left[at] != 0 : bin < tree.position[at];
          node = goes_left ? tree.left[at] : tree.right[at];
        }
        check(leaves[row] == node);
      }
    }
  }
}

TEST(every_value_lies_in_its_bin) {
  const Table table = mixed_table(500);
  for (const bool is_sparse : {false, true}) {
    const auto matrix = make_matrix(table, {}, 1, is_sparse);
    for (row_t row = 0; row < table.n_rows; ++row)
      for (feature_t feature = 0; feature < table.features.size(); ++feature)
        check(matrix->bin(row, feature) == expected_bin(table, row, feature));
  }
}

TEST(a_sparse_matrix_holds_the_values_that_are_there_by_row_and_by_feature) {
  const Table table = mixed_table(5000);
  const auto matrix = make_matrix(table, {}, 7, kIsSparse);
  for (row_t row = 0; row < table.n_rows; ++row) {
    std::vector<slot_t> expected;
    for (feature_t feature = 0; feature < table.features.size(); ++feature)
      if (!std::isnan(table.view()(row, feature)))
        expected.push_back(static_cast<slot_t>(matrix->slot_offset(feature) + expected_bin(table, row, feature)));
    check(std::ranges::equal(matrix->row_slots(row), expected));
  }
  for (feature_t feature = 0; feature < table.features.size(); ++feature) {
    std::vector<row_t> rows;
    std::vector<std::uint16_t> bins;
    for (row_t row = 0; row < table.n_rows; ++row)
      if (!std::isnan(table.view()(row, feature))) {
        rows.push_back(row);
        bins.push_back(static_cast<std::uint16_t>(expected_bin(table, row, feature)));
      }
    check(std::ranges::equal(matrix->sparse_column(feature).rows, rows));
    check(std::ranges::equal(matrix->sparse_column(feature).bins, bins));
  }
}

TEST(values_of_some_rows_are_found_however_the_two_lists_of_rows_lie) {
  auto stream = test_stream(4);
  for (int trial = 0; trial < 300; ++trial) {
    const double share_of_column = stream.uniform(), share_of_rows = stream.uniform();
    std::vector<row_t> column_rows, rows;
    std::vector<std::uint16_t> bins;
    std::vector<std::pair<std::size_t, bin_t>> expected, found;
    for (row_t row = 0; row < 200; ++row) {
      const bool is_in_column = stream.uniform() < share_of_column * share_of_column;
      const bool is_in_rows = stream.uniform() < share_of_rows * share_of_rows;
      if (is_in_column && is_in_rows) expected.emplace_back(rows.size(), row % 7);
      if (is_in_column) column_rows.push_back(row), bins.push_back(static_cast<std::uint16_t>(row % 7));
      if (is_in_rows) rows.push_back(row);
    }
    for_each_value({column_rows, bins}, rows,
                   [&](std::size_t position, bin_t bin) { found.emplace_back(position, bin); });
    check(found == expected);
  }
}

// The matrix is stored by row and by feature; BinnedMatrix::bin reads the latter.
bin_t bin_of_row_form(const BinnedMatrix& matrix, row_t row, feature_t feature) {
  const BinnedMatrix::Group& group = matrix.groups()[feature / kGroupSize];
  const std::size_t place = group.offset + (feature - group.first_feature) * group.bytes_per_bin;
  return BinnedMatrix::load_bin(matrix.row_data(row) + place, group.bytes_per_bin);
}

TEST(rows_are_stored_in_the_order_asked_for) {
  const Table table = mixed_table(500);
  std::vector<row_t> order = all_rows(table.n_rows);
  std::ranges::reverse(order);
  std::swap(order[3], order[77]);
  for (const bool is_sparse : {false, true}) {
    const auto matrix = make_matrix(table, order, 1, is_sparse);
    check(std::ranges::equal(matrix->caller_rows(), order));
    for (row_t row = 0; row < table.n_rows; ++row)
      for (feature_t feature = 0; feature < table.features.size(); ++feature) {
        check(matrix->bin(row, feature) == expected_bin(table, order[row], feature));
        if (!is_sparse) check(bin_of_row_form(*matrix, row, feature) == expected_bin(table, order[row], feature));
      }
  }
}

TEST(more_than_256_slots_take_two_bytes_in_their_group_only) {
  const auto bytes_per_bin = [](const std::vector<Feature>& features) {
    const auto matrix = make_matrix(random_table(1, features, 1));
    std::vector<std::uint32_t> bytes;
    for (const auto& group : matrix->groups()) bytes.push_back(group.bytes_per_bin);
    return bytes;
  };
  std::vector<Feature> features(17, Feature{256});
  check(bytes_per_bin(features) == std::vector<std::uint32_t>{1, 1, 1});
  features[9].n_bins = 257;
  check(bytes_per_bin(features) == std::vector<std::uint32_t>{1, 2, 1});
  features[0].missing_share = 0.5;  // the slot of missing values counts
  check(bytes_per_bin(features) == std::vector<std::uint32_t>{2, 2, 1});
}

TEST(the_form_of_the_table_does_not_matter) {
  const Table table = mixed_table(5000);  // enough rows for several threads
  const auto matrix = make_matrix(table);
  const std::size_t n_columns = table.features.size();
  check(have_same_bytes(*make_matrix(table, {}, 7), *matrix));

  // Double, rows from last to first, columns one after another.
  std::vector<double> turned(table.values.size());
  for (row_t row = 0; row < table.n_rows; ++row)
    for (std::size_t column = 0; column < n_columns; ++column)
      turned[column * table.n_rows + (table.n_rows - 1 - row)] = static_cast<double>(table.view()(row, column));
  auto from_turned = make_builder(table);
  from_turned.add(MatrixView<double>{turned.data() + table.n_rows - 1, table.n_rows, n_columns, -1,
                                     static_cast<std::ptrdiff_t>(table.n_rows)},
                  2);
  check(have_same_bytes(std::move(from_turned).build(), *matrix));

  // Sparse, without the missing values, in two blocks, for either layout.
  auto from_sparse = make_builder(table), to_sparse = make_builder(table, {}, kIsSparse);
  for (const auto& [begin, end] : {std::pair<row_t, row_t>{0, 13}, {13, table.n_rows}}) {
    std::vector<std::int64_t> indptr{0};
    std::vector<std::int32_t> indices;
    std::vector<float> values;
    for (row_t row = begin; row < end; ++row) {
      for (std::size_t column = 0; column < n_columns; ++column)
        if (const float value = table.view()(row, column); !std::isnan(value)) {
          indices.push_back(static_cast<std::int32_t>(column));
          values.push_back(value);
        }
      indptr.push_back(static_cast<std::int64_t>(indices.size()));
    }
    from_sparse.add(CsrView<std::int64_t, std::int32_t>{indptr, indices, values}, 2);
    to_sparse.add(CsrView<std::int64_t, std::int32_t>{indptr, indices, values}, 2);
  }
  check(have_same_bytes(std::move(from_sparse).build(), *matrix));
  const auto sparse = std::move(to_sparse).build();
  for (row_t row = 0; row < table.n_rows; ++row)
    for (feature_t feature = 0; feature < n_columns; ++feature)
      check(sparse.bin(row, feature) == matrix->bin(row, feature));
}

// The bins of the features of a column, one after another from the lowest bit on.
TEST(codes_of_several_features_are_taken_apart) {
  const Table table = mixed_table(700);
  const std::vector<feature_t> n_features[] = {{4, 3, 1}, {0, 2, 1}};
  for (const int n_threads : {1, 3}) {
    auto builder = make_builder(table);
    feature_t first = 0;
    for (const auto& counts : n_features) {
      std::vector<float> codes;
      for (row_t row = 0; row < table.n_rows; ++row) {
        feature_t feature = first;
        for (const feature_t n : counts) {
          std::uint32_t code = 0;
          int shift = 0;
          for (const feature_t end = feature + n; feature < end; shift += builder.code_bits(feature++)) {
            const bool is_missing = std::isnan(table.view()(row, feature));
            const bin_t largest = (1u << builder.code_bits(feature)) - 1;
            code += (is_missing ? largest : expected_bin(table, row, feature)) << shift;
          }
          codes.push_back(static_cast<float>(code));
        }
      }
      for (const feature_t n : counts) first += n;
      builder.add_codes({codes.data(), table.n_rows, counts.size(), static_cast<std::ptrdiff_t>(counts.size()), 1},
                        counts, n_threads);
    }
    check(have_same_bytes(std::move(builder).build(), *make_matrix(table)));
  }
}

TEST(codes_that_hold_no_bins_are_refused) {
  const Table table{{{3, 0.5}, {3, 0.5}}, 2, {0, 0, 1, 1}};
  const auto add = [&](std::vector<float> codes, std::vector<feature_t> n_features, bool is_sparse = false) {
    auto builder = make_builder(table, {}, is_sparse);
    const std::size_t n_columns = n_features.size();
    builder.add_codes({codes.data(), codes.size() / n_columns, n_columns, static_cast<std::ptrdiff_t>(n_columns), 1},
                      n_features, 1);
  };
  add({0, 5}, {2});
  check_throws<std::invalid_argument>("a code is out of range", [&] { add({-1, 5}, {2}); });
  check_throws<std::invalid_argument>("a code is out of range", [&] { add({kMissing, 5}, {2}); });
  check_throws<std::invalid_argument>("a code is out of range", [&] { add({0, 16777216}, {2}); });
  check_throws<std::invalid_argument>("one entry per column", [&] { add({0, 5}, {3}); });
  check_throws<std::invalid_argument>("all rows at once", [&] { add({0}, {2}); });
  check_throws<std::invalid_argument>("dense layout", [&] { add({0, 5}, {2}, kIsSparse); });
}

TEST(columns_with_missing_values_are_found_by_any_number_of_threads) {
  Table table = random_table(5000, std::vector<Feature>(3, Feature{4}), 1);
  table.values[4567 * 3 + 1] = kMissing;
  for (const int n_threads : {1, 7})
    check(columns_with_missing(table.view(), n_threads) == std::vector<std::uint8_t>{0, 1, 0});
}

TEST(wrong_tables_are_refused) {
  using Error = std::invalid_argument;
  const Table table = random_table(4, {{3}, {3}}, 1);
  check_throws<Error>("feature 1 holds a missing value", [] { make_matrix(Table{{{3}, {3}}, 1, {0.0f, kMissing}}); });
  check_throws<Error>("feature 1 holds a missing value",
                      [] { make_matrix(Table{{{3}, {3}}, 1, {0.0f, kMissing}}, {}, 1, kIsSparse); });
  check_throws<Error>("must be a permutation", [&] { make_matrix(table, {0, 1, 1, 2}); });
  check_throws<Error>("must be a permutation", [&] { make_matrix(table, {0, 1, 2, 4}); });
  check_throws<Error>("one entry per row", [&] { make_matrix(table, {0, 1, 2}); });
  check_throws<Error>("4 rows, but 0 were added", [&] { make_builder(table).build(); });
  check_throws<Error>("more rows were added", [&] {
    auto builder = make_builder(table);
    builder.add(table.view(), 1);
    builder.add(table.view(), 1);
  });
  check_throws<Error>("the block has 1 columns, the edges 2",
                      [&] { make_builder(table).add(MatrixView<float>{table.values.data(), 4, 1, 2, 1}, 1); });
  for (const std::int32_t column : {-1, 2})
    check_throws<Error>("is out of range", [&] {
      const std::vector<std::int64_t> indptr{0, 2};
      const std::vector<std::int32_t> indices{0, column};
      const std::vector<float> values{0.0f, 0.0f};
      make_builder(table).add(CsrView<std::int64_t, std::int32_t>{indptr, indices, values}, 1);
    });
  check_throws<Error>("at most 65535 are supported", [] { make_builder({{{65536, 0.5}}, 1, {}}); });
  check_throws<Error>("must not decrease", [] { BinEdges({0, 2, 1, 2}, {1.0f, 2.0f}, {0.0f, 0.0f, 0.0f}, {0, 0, 0}); });
}

}  // namespace mtboost::test::test_binned_matrix
