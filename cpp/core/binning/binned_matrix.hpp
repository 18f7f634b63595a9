// SPDX-License-Identifier: Apache-2.0
// The training table as bin numbers, the only form of X that the grower reads.
//
// Memory picture. The table is kept twice, each form for who reads it. For histograms, which read all features of a
// row: rows lie one after another; a row is a sequence of groups of eight features. A bin takes one byte, or
// two in a group that has a feature with more than 256 slots; a group's bins are loaded at once, and a thread owns whole
// groups. For partitions and sums of tasks, which read one feature of scattered rows: features lie one after another.
// A missing value is stored as bin n_bins(feature), so that the loop needs no branch; its sums are never read.
//
// Where most values of most features lie in one bin (bags of words, wide one-hot codes) the table has the sparse layout
// instead, without those: that of missing values is left out for XGBoost, the frequent one for LightGBM
// (BinEdges::unstored_bin). The other values lie by row as slots of the histogram, and once more by feature for partitions
// and the sums of tasks. What the unstored slot would hold is what the others leave of a sum.
//
// Rows that are only predicted may have values outside the bins of the training rows. With `outer_bins` these have two
// bins more (BinEdges::always_left_bin), and every row reaches the leaf that its raw values lead to.
//
// Rows may be stored in another order than the caller's (grouped by task, see storage_order): `row` is a stored row
// everywhere in core, and caller_row() leads back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/large_array.hpp"
#include "base/types.hpp"
#include "base/view.hpp"
#include "binning/bin_edges.hpp"
#include "binning/stored_columns.hpp"

namespace mtboost {

inline constexpr feature_t kGroupSize = 8;

class BinnedMatrix {
 public:
  struct Group {
    feature_t first_feature;
    feature_t n_features;
    std::uint32_t bytes_per_bin;  // 1 or 2
    std::size_t offset;           // byte position in a row
  };

  const BinEdges& edges() const noexcept { return edges_; }
  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return edges_.n_features(); }
  bool may_be_missing(feature_t feature) const noexcept { return may_be_missing_[feature] != 0; }
  bool is_dense() const noexcept { return is_dense_; }

  // Slots of a feature in a histogram: its bins and, where values may be missing, one more.
  std::size_t slot_offset(feature_t feature) const noexcept { return slot_offsets_[feature]; }
  std::size_t n_slots() const noexcept { return slot_offsets_.back(); }

  std::span<const Group> groups() const noexcept { return groups_; }

  // ---- dense layout
  bool is_sparse() const noexcept { return is_sparse_; }
  const std::uint8_t* row_data(row_t row) const noexcept { return data_.data() + row * row_bytes_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }

  // The bins of one feature, stored row by row.
  struct Column {
    const std::uint8_t* bytes;
    std::uint32_t bytes_per_bin;
    bin_t operator[](row_t row) const noexcept {
      return load_bin(bytes + std::size_t{row} * bytes_per_bin, bytes_per_bin);
    }
  };
  Column column(feature_t feature) const noexcept {
    return {columns_.data() + column_offsets_[feature], groups_[feature / kGroupSize].bytes_per_bin};
  }
  static bin_t load_bin(const std::uint8_t* bytes, std::uint32_t bytes_per_bin) noexcept {
    if (bytes_per_bin == 1) return *bytes;
    std::uint16_t bin;
    std::memcpy(&bin, bytes, sizeof bin);
    return bin;
  }

  // ---- sparse layout
  // Slots of a row's stored values, ascending.
  std::span<const slot_t> row_slots(row_t row) const noexcept {
    return std::span(slots_).subspan(row_starts_[row], row_starts_[row + 1] - row_starts_[row]);
  }
  // Rows whose value of a feature is stored, ascending, and their bins.
  struct SparseColumn {
    std::span<const row_t> rows;
    std::span<const std::uint16_t> bins;
  };
  SparseColumn sparse_column(feature_t feature) const noexcept {
    const std::size_t begin = column_starts_[feature], n = column_starts_[feature + 1] - begin;
    return {std::span(column_rows_).subspan(begin, n), std::span(column_bins_).subspan(begin, n)};
  }

  // ---- either layout
  // One value's bin; n_bins if it is missing.
  bin_t bin(row_t row, feature_t feature) const noexcept;

  // caller_rows()[row] is the caller's number of a stored row; empty where the orders agree.
  std::span<const row_t> caller_rows() const noexcept { return caller_rows_; }

 private:
  friend class BinnedMatrixBuilder;
  BinnedMatrix(BinEdges edges, row_t n_rows, std::vector<std::uint8_t> may_be_missing, std::vector<row_t> caller_rows,
               bool is_sparse, bool outer_bins);

  BinEdges edges_;
  row_t n_rows_;
  std::vector<std::uint8_t> may_be_missing_;
  bool is_dense_, is_sparse_, outer_bins_;
  std::vector<std::size_t> slot_offsets_;
  std::vector<Group> groups_;
  std::vector<row_t> caller_rows_;
  std::size_t row_bytes_ = 0;
  LargeArray<std::uint8_t> data_;
  std::vector<std::size_t> column_offsets_;
  UnsetArray<std::uint8_t> columns_;
  std::vector<std::size_t> row_starts_, column_starts_;
  LargeArray<slot_t> slots_;
  UnsetArray<row_t> column_rows_;
  UnsetArray<std::uint16_t> column_bins_;
};

// Fills a matrix from consecutive blocks of the caller's rows, so that no second copy of X is ever alive.
class BinnedMatrixBuilder {
 public:
  // storage_order: the caller's row to be stored in each place, a permutation; empty keeps the caller's order.
  // may_be_missing: one flag per feature; a NaN in a column that promised none is an error.
  // outer_bins: for values (not StoredColumns) of rows to predict. Without it they belong to the nearest bin.
  BinnedMatrixBuilder(BinEdges edges, row_t n_rows, std::vector<std::uint8_t> may_be_missing,
                      std::vector<row_t> storage_order, bool is_sparse, bool outer_bins = false);

  template <typename T>
  void add(const MatrixView<T>& block, int n_threads);
  template <typename Offset, typename Index>
  void add(const CsrView<Offset, Index>& block, int n_threads);

  // All rows at once.
  void add(const StoredColumns& stored, int n_threads);
  // Adds some features of all rows, from the first feature that has not been added on; of the dense layout only.
  // Each column of the codes holds whole numbers made of the bins of a few features, one after another from the lowest
  // bit on, each in code_bits(feature) bits; n_features: how many of each column. The largest bin a feature's bits can
  // hold is that of missing values, if there is one.
  void add_codes(const MatrixView<float>& codes, std::span<const feature_t> n_features, int n_threads);
  int code_bits(feature_t feature) const noexcept;

  // The finished matrix; every row must have been added.
  BinnedMatrix build() &&;

 private:
  // Stores values of one feature, at most a block of them, from a row of the block being added on.
  // are_sorted: the values are in the order of storage, not the caller's.
  void store(feature_t feature, std::span<const float> values, std::size_t first_row_in_block, bool are_sorted = false);
  void store(feature_t feature, std::span<const bin_t> bins, std::size_t first_row_in_block, bool are_sorted = false);
  template <typename Bin>
  void store_bins(feature_t feature, std::span<const bin_t> bins, std::size_t first_row_in_block, bool are_sorted);
  void find_bins(feature_t feature, std::span<const float> values, bin_t* bins /* OUT */) const noexcept;
  void start_block(std::size_t n_rows, std::size_t n_columns) const;
  // Appends rows; for_each_value(row, visit) calls visit(feature, value) for each value of a row of the block.
  template <typename ForEachValue>
  void append_sparse(std::size_t n_rows, const ForEachValue& for_each_value, int n_threads);
  void append_sparse(const StoredColumns& stored, int n_threads);
  void sort_by_storage_order();
  void make_columns();

  BinnedMatrix matrix_;
  std::vector<row_t> stored_rows_;  // caller's row → place; empty where the orders agree
  std::size_t n_added_ = 0;
  feature_t n_features_added_ = 0;  // by add_codes
  bool is_built_ = false;
};

// One flag per column: does it hold a NaN?
template <typename T>
std::vector<std::uint8_t> columns_with_missing(const MatrixView<T>& table, int n_threads);

}  // namespace mtboost
