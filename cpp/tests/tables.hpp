// SPDX-License-Identifier: Apache-2.0
// Made-up tables whose bins are obvious: the number x of a numeric feature lies in bin ⌊x⌋, category c is bin c.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "binning/binned_matrix.hpp"
#include "binning/cuts.hpp"

namespace mtboost::test {

inline constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

struct Feature {
  bin_t n_bins;
  double missing_share = 0.0;
  bool is_categorical = false;
};

inline Cuts make_cuts(const std::vector<Feature>& features) {
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
                                        bool is_sparse = false) {
  std::vector<std::uint8_t> may_be_missing;
  for (const Feature& feature : table.features) may_be_missing.push_back(feature.missing_share > 0.0);
  return {make_cuts(table.features), table.n_rows, std::move(may_be_missing), std::move(storage_order),
          is_sparse};
}

inline std::shared_ptr<const BinnedMatrix> make_matrix(const Table& table, std::vector<row_t> storage_order = {},
                                                       int n_threads = 1, bool is_sparse = false) {
  auto builder = make_builder(table, std::move(storage_order), is_sparse);
  builder.add(table.view(), n_threads);
  return std::make_shared<const BinnedMatrix>(std::move(builder).build());
}

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
