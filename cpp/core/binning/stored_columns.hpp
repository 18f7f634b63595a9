// SPDX-License-Identifier: Apache-2.0
// LightGBM's bins of all rows as its data file has them, read where they lie. LightGBM keeps the features that seldom
// meet in one column (a bundle), and what most rows have not at all: entry 0 of a row says that each feature of the
// column has its frequent bin, the others name one feature and its bin. docs/lightgbm_arithmetic.md, section 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/require.hpp"
#include "base/types.hpp"
#include "binning/bin_edges.hpp"

namespace mtboost {

struct StoredColumn {
  std::span<const std::uint8_t> bytes;
  int bits;  // of an entry: 4 (low half of a byte first), 8, 16 or 32
  // Rows from one entry to the next, the first one from row 0; other rows have entry 0. Without: every row has an entry.
  std::optional<std::span<const std::uint8_t>> steps;

  std::uint32_t operator[](std::size_t entry) const noexcept;
};

// Where a feature's entries begin. Bins are in order; bin 0 has no entry if it is the frequent one.
struct StoredFeature {
  std::size_t column;
  std::uint32_t first_entry;
};

// Bins are in our numbers (LightgbmBins::slot).
class StoredColumns {
 public:
  // The memory of the columns is borrowed.
  StoredColumns(const BinEdges& edges, row_t n_rows, std::vector<StoredColumn> columns,
                std::vector<StoredFeature> features);

  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return static_cast<feature_t>(features_.size()); }
  std::size_t n_columns() const noexcept { return columns_.size(); }
  std::size_t column_of(feature_t feature) const noexcept { return features_[feature].column; }
  bool has_every_row(std::size_t column) const noexcept { return !columns_[column].steps.has_value(); }

  // One value's bin, of a feature whose column has every row.
  bin_t bin(row_t row, feature_t feature) const {
    const std::size_t column = column_of(feature);
    const Meaning& meaning = meaning_of(column, columns_[column][row]);
    return meaning.feature == feature ? meaning.bin : frequent_bins_[feature];
  }

  // Calls visit(row, feature, bin) for the values of a column that are not in their feature's frequent bin.
  template <typename Visit>
  void for_each_value(std::size_t column, const Visit& visit) const {
    const auto& steps = columns_[column].steps;
    const std::size_t n_entries = steps ? steps->size() : n_rows_;
    std::size_t row = 0;
    for (std::size_t entry = 0; entry < n_entries; ++entry) {
      row = steps ? row + (*steps)[entry] : entry;
      const Meaning& meaning = meaning_of(column, columns_[column][entry]);
      if (meaning.feature != kFrequent) visit(static_cast<row_t>(row), meaning.feature, meaning.bin);
    }
  }

 private:
  struct Meaning {
    feature_t feature;  // kFrequent: of none, all have their frequent bin
    bin_t bin;
  };
  static constexpr feature_t kFrequent = std::numeric_limits<feature_t>::max();

  const Meaning& meaning_of(std::size_t column, std::uint32_t entry) const {
    require(entry < meanings_[column].size(), "an entry of a column is out of range");
    return meanings_[column][entry];
  }

  row_t n_rows_;
  std::vector<StoredColumn> columns_;
  std::vector<StoredFeature> features_;
  std::vector<bin_t> frequent_bins_;
  std::vector<std::vector<Meaning>> meanings_;  // by column and entry
};

}  // namespace mtboost
