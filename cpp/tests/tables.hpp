// SPDX-License-Identifier: Apache-2.0
// Made-up tables whose bins are obvious: the number x of a numeric feature lies in bin ⌊x⌋, category c is bin c.
// LightGBM's bins are made up themselves.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "binning/bin_edges.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost::test {

inline constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

struct Feature {
  bin_t n_bins;
  double missing_share = 0.0;
  bool is_categorical = false;
};

inline BinEdges make_edges(const std::vector<Feature>& features) {
  std::vector<std::uint32_t> offsets{0};
  std::vector<float> values;
  std::vector<std::uint8_t> is_categorical;
  for (const Feature& feature : features) {
    for (bin_t bin = 0; bin < feature.n_bins; ++bin)
      values.push_back(static_cast<float>(feature.is_categorical ? bin : bin + 1));
    offsets.push_back(static_cast<std::uint32_t>(values.size()));
    is_categorical.push_back(feature.is_categorical);
  }
  return {std::move(offsets), std::move(values), std::vector<float>(features.size(), -1.0f), std::move(is_categorical)};
}

struct Table {
  std::vector<Feature> features;
  row_t n_rows;
  std::vector<float> values;  // row-major

  MatrixView<float> view() const noexcept {
    const std::size_t n_columns = features.size();
    return {values.data(), n_rows, n_columns, static_cast<std::ptrdiff_t>(n_columns), 1};
  }
};

inline RandomStream test_stream(std::uint64_t seed) { return {RandomStream::Purpose::rows, seed, 0}; }

inline Table random_table(row_t n_rows, std::vector<Feature> features, std::uint64_t seed) {
  auto stream = test_stream(seed);
  Table table{std::move(features), n_rows, {}};
  for (row_t row = 0; row < n_rows; ++row)
    for (const Feature& feature : table.features) {
      const auto bin = static_cast<float>(static_cast<bin_t>(stream.uniform() * feature.n_bins));
      table.values.push_back(stream.uniform() < feature.missing_share ? kMissing : bin);
    }
  return table;
}

inline BinnedMatrixBuilder make_builder(const Table& table, std::vector<row_t> storage_order = {},
                                        bool is_sparse = false, bool outer_bins = false) {
  std::vector<std::uint8_t> may_be_missing;
  for (const Feature& feature : table.features) may_be_missing.push_back(feature.missing_share > 0.0);
  return {make_edges(table.features), table.n_rows, std::move(may_be_missing),
          std::move(storage_order),   is_sparse,    outer_bins};
}

inline std::shared_ptr<const BinnedMatrix> make_matrix(const Table& table, std::vector<row_t> storage_order = {},
                                                       int n_threads = 1, bool is_sparse = false,
                                                       bool outer_bins = false) {
  auto builder = make_builder(table, std::move(storage_order), is_sparse, outer_bins);
  builder.add(table.view(), n_threads);
  return std::make_shared<const BinnedMatrix>(std::move(builder).build());
}

// ---- LightGBM's bins ------------------------------------------------------------------------------------------------

struct LightgbmTable {
  std::vector<LightgbmBins> features;
  row_t n_rows;
  std::vector<bin_t> bins;  // row-major, in LightGBM's numbers

  bin_t bin(row_t row, std::size_t feature) const noexcept { return bins[row * features.size() + feature]; }
};

// frequent_share: of the values that lie in the frequent bin for no other reason than that.
inline LightgbmTable random_table(row_t n_rows, std::vector<LightgbmBins> features, double frequent_share,
                                  std::uint64_t seed) {
  auto stream = test_stream(seed);
  LightgbmTable table{std::move(features), n_rows, {}};
  for (row_t row = 0; row < n_rows; ++row)
    for (const LightgbmBins& feature : table.features) {
      const auto bin = static_cast<bin_t>(stream.uniform() * feature.n_bins);
      table.bins.push_back(stream.uniform() < frequent_share ? feature.frequent : bin);
    }
  return table;
}

// Each feature in a separate column, in two bytes an entry.
inline std::shared_ptr<const BinnedMatrix> make_matrix(const LightgbmTable& table,
                                                       std::vector<row_t> storage_order = {}, int n_threads = 1,
                                                       bool is_sparse = false) {
  std::vector<std::vector<std::uint8_t>> bytes(table.features.size());
  std::vector<StoredColumn> columns;
  std::vector<StoredFeature> places;
  std::vector<std::uint8_t> may_be_missing;
  for (std::size_t feature = 0; feature < table.features.size(); ++feature) {
    const LightgbmBins& bins = table.features[feature];
    for (row_t row = 0; row < table.n_rows; ++row) {
      const bin_t bin = table.bin(row, feature);
      const bin_t entry = bin == bins.frequent ? 0 : bin + (bins.frequent > 0 ? 1 : 0);
      bytes[feature].push_back(static_cast<std::uint8_t>(entry % 256));
      bytes[feature].push_back(static_cast<std::uint8_t>(entry / 256));
    }
    columns.push_back({bytes[feature], 16, std::nullopt});
    places.push_back({feature, 1});
    may_be_missing.push_back(bins.missing_bin < bins.n_bins);
  }
  BinEdges edges(table.features);
  const StoredColumns stored(edges, table.n_rows, std::move(columns), std::move(places));
  BinnedMatrixBuilder builder(std::move(edges), table.n_rows, std::move(may_be_missing), std::move(storage_order),
                              is_sparse);
  builder.add(stored, n_threads);
  return std::make_shared<const BinnedMatrix>(std::move(builder).build());
}

// ---- gradients, rows ------------------------------------------------------------------------------------------------

// Small whole numbers: sums of them are exact in any order.
inline std::vector<GradientPair> whole_gradients(row_t n_rows, std::uint64_t seed) {
  auto stream = test_stream(seed);
  std::vector<GradientPair> pairs(n_rows);
  for (GradientPair& pair : pairs)
    pair = {static_cast<float>(static_cast<int>(stream.uniform() * 9.0) - 4),
            static_cast<float>(static_cast<int>(stream.uniform() * 3.0) + 1)};
  return pairs;
}

inline std::vector<row_t> all_rows(row_t n_rows) {
  std::vector<row_t> rows(n_rows);
  for (row_t row = 0; row < n_rows; ++row) rows[row] = row;
  return rows;
}

}  // namespace mtboost::test
