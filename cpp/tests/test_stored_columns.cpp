// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "binning/binned_matrix.hpp"
#include "check.hpp"
#include "tables.hpp"

namespace mtboost::test::test_stored_columns {
namespace {

using Missing = LightgbmBins::Missing;
using Bytes = std::vector<std::uint8_t>;

Bytes as_bytes(const std::vector<std::uint32_t>& entries, int bits) {
  Bytes bytes;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (bits > 4)
      for (int shift = 0; shift < bits; shift += 8) bytes.push_back(static_cast<std::uint8_t>(entries[i] >> shift));
    else if (i % 2 == 0)
      bytes.push_back(static_cast<std::uint8_t>(entries[i]));
    else
      bytes.back() = static_cast<std::uint8_t>(bytes.back() | entries[i] << 4);
  }
  return bytes;
}

struct OwnedColumn {
  Bytes bytes;
  int bits;
  std::optional<Bytes> steps = std::nullopt;

  StoredColumn view() const noexcept {
    return {bytes, bits, steps ? std::optional<std::span<const std::uint8_t>>(*steps) : std::nullopt};
  }
};

BinnedMatrix build(const std::vector<LightgbmBins>& features, row_t n_rows, const std::vector<OwnedColumn>& columns,
                   std::vector<StoredFeature> places, bool is_sparse, std::vector<row_t> order = {}) {
  BinEdges edges(features);
  std::vector<StoredColumn> views;
  for (const OwnedColumn& column : columns) views.push_back(column.view());
  std::vector<std::uint8_t> may_be_missing;
  for (const LightgbmBins& bins : features) may_be_missing.push_back(bins.missing_bin < bins.n_bins);
  const StoredColumns stored(edges, n_rows, std::move(views), std::move(places));
  BinnedMatrixBuilder builder(std::move(edges), n_rows, std::move(may_be_missing), std::move(order), is_sparse);
  builder.add(stored, 2);
  return std::move(builder).build();
}

// A bundle of two features and a feature alone.
const std::vector<LightgbmBins> kFeatures{
    {4, 3, 0, Missing::nan, false}, {3, 0, 2, Missing::nan, true}, {5, 5, 1, Missing::none, false}};
const std::vector<StoredFeature> kPlaces{{0, 1}, {0, 4}, {1, 1}};
// Bins in LightGBM's numbers, by row. Of the two features of the bundle one at most is not in its frequent bin.
const std::vector<std::vector<bin_t>> kBins{{0, 2, 1}, {1, 2, 0}, {3, 2, 4}, {0, 0, 1},
                                            {0, 1, 2}, {2, 2, 1}, {0, 2, 3}};
// Entries 1, 2, 3: bins 1, 2, 3 of the first; 4, 5: bins 0, 1 of the second. Alone: entry b + 1 is bin b.
const std::vector<std::uint32_t> kBundle{0, 1, 3, 4, 5, 2, 0}, kAlone{0, 1, 5, 0, 3, 0, 4};
constexpr row_t kRows = 7;

}  // namespace

TEST(every_stored_value_lies_in_its_bin) {
  std::vector<std::vector<OwnedColumn>> forms;
  for (const int bits : {4, 8, 16, 32})
    forms.push_back({{as_bytes(kBundle, bits), bits}, {as_bytes(kAlone, bits), bits}});
  // Only the rows that have an entry: 1, 2, 3, 4, 5; and 1, 2, 4, 6, with an entry 0 at row 5 that says nothing.
  for (const int bits : {8, 16, 32})
    forms.push_back({{as_bytes({1, 3, 4, 5, 2}, bits), bits, Bytes{1, 1, 1, 1, 1}},
                     {as_bytes({1, 5, 3, 0, 4}, bits), bits, Bytes{1, 1, 2, 1, 1}}});
  const std::vector<row_t> order{3, 1, 6, 0, 2, 5, 4};
  for (const auto& columns : forms)
    for (const bool is_sparse : {false, true})
      for (const bool is_sorted : {false, true}) {
        const auto matrix =
            build(kFeatures, kRows, columns, kPlaces, is_sparse, is_sorted ? order : std::vector<row_t>{});
        check(matrix.is_sparse() == is_sparse);
        for (row_t row = 0; row < kRows; ++row)
          for (feature_t feature = 0; feature < 3; ++feature)
            check(matrix.bin(row, feature) == kFeatures[feature].slot(kBins[is_sorted ? order[row] : row][feature]));
      }
}

TEST(the_sparse_layout_leaves_out_frequent_bins) {
  const auto matrix = build(kFeatures, kRows, {{as_bytes(kBundle, 8), 8}, {as_bytes(kAlone, 4), 4}}, kPlaces, true);
  for (row_t row = 0; row < kRows; ++row) {
    std::vector<slot_t> expected;
    for (feature_t feature = 0; feature < 3; ++feature)
      if (const bin_t bin = kBins[row][feature]; bin != kFeatures[feature].frequent)
        expected.push_back(static_cast<slot_t>(matrix.slot_offset(feature) + kFeatures[feature].slot(bin)));
    check(std::ranges::equal(matrix.row_slots(row), expected));
  }
  check(std::ranges::equal(matrix.sparse_column(0).rows, std::vector<row_t>{1, 2, 5}));
  check(std::ranges::equal(matrix.sparse_column(0).bins, std::vector<std::uint16_t>{0 + 1, 3, 2}));
  check(std::ranges::equal(matrix.sparse_column(1).rows, std::vector<row_t>{3, 4}));
  check(std::ranges::equal(matrix.sparse_column(1).bins, std::vector<std::uint16_t>{2, 0}));
}

TEST(wrong_columns_are_refused) {
  using Error = std::invalid_argument;
  const OwnedColumn bundle{as_bytes(kBundle, 8), 8}, alone{as_bytes(kAlone, 8), 8};
  for (const bool is_sparse : {false, true}) {
    const auto refused = [&](const char* words, const std::vector<OwnedColumn>& columns,
                             std::vector<StoredFeature> places) {
      check_throws<Error>(words, [&] { build(kFeatures, kRows, columns, std::move(places), is_sparse); });
    };
    refused("too few bytes", {bundle, {Bytes(3), 4}}, kPlaces);
    refused("too few bytes", {bundle, {Bytes(6), 8}}, kPlaces);
    refused("too few bytes", {bundle, {Bytes(1), 8, Bytes{1, 1}}}, kPlaces);
    refused("4, 8, 16 or 32 bits", {bundle, {Bytes(7), 7}}, kPlaces);
    refused("lead beyond its rows", {bundle, {Bytes(2), 8, Bytes{0, 7}}}, kPlaces);
    refused("entry of a column is out of range", {bundle, {Bytes(7, 6), 8}}, kPlaces);
    refused("entry of a column is out of range", {bundle, {Bytes{6}, 8, Bytes{0}}}, kPlaces);
    refused("is not there", {bundle, alone}, {{0, 1}, {0, 4}, {2, 1}});
    refused("is not there", {bundle, alone}, {{0, 0}, {0, 4}, {1, 1}});
    refused("belongs to two features", {bundle, alone}, {{0, 1}, {0, 3}, {1, 1}});
    refused("one entry per feature", {bundle, alone}, {{0, 1}, {0, 4}});
  }
  for (const LightgbmBins& bins :
       {LightgbmBins{0, 0, 0, Missing::none, false}, LightgbmBins{3, 4, 0, Missing::nan, false},
        LightgbmBins{3, 3, 3, Missing::none, false}})
    check_throws<Error>("must be bins", [&] { BinEdges(std::vector{bins}); });
}

}  // namespace mtboost::test::test_stored_columns
