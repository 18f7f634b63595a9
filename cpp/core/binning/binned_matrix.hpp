// SPDX-License-Identifier: Apache-2.0
// The training table as bin numbers, the only form of X that the grower reads.
//
// Memory picture. Rows lie one after another; a row is a sequence of groups of eight features. A bin takes one byte, or
// two in a group that has a feature with more than 256 slots. Eight one-byte histograms of 256 bins fill 32 KiB, the
// first-level cache: the histogram loop therefore works group by group, and a thread owns whole groups.
// A missing value is stored as bin n_bins(feature), so that the loop needs no branch; its sums are never read.
//
// Rows may be stored in another order than the caller's (grouped by task, see storage_order): `row` is a stored row
// everywhere in core, and caller_row() leads back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "base/view.hpp"
#include "binning/cuts.hpp"

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

  const Cuts& cuts() const noexcept { return cuts_; }
  row_t n_rows() const noexcept { return n_rows_; }
  feature_t n_features() const noexcept { return cuts_.n_features(); }
  bool may_be_missing(feature_t feature) const noexcept { return may_be_missing_[feature] != 0; }
  bool is_dense() const noexcept { return is_dense_; }

  // Slots of a feature in a histogram: its bins and, where values may be missing, one more.
  std::size_t slot_offset(feature_t feature) const noexcept { return slot_offsets_[feature]; }
  std::size_t n_slots() const noexcept { return slot_offsets_.back(); }

  std::span<const Group> groups() const noexcept { return groups_; }
  const std::uint8_t* row_data(row_t row) const noexcept { return data_.data() + row * row_bytes_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }

  // Where a feature's bins lie: read with load_bin(row_data(row) + offset, bytes_per_bin).
  struct Column {
    std::size_t offset;
    std::uint32_t bytes_per_bin;
  };
  Column column(feature_t feature) const noexcept {
    const Group& group = groups_[feature / kGroupSize];
    return {group.offset + (feature % kGroupSize) * group.bytes_per_bin, group.bytes_per_bin};
  }
  bin_t bin(row_t row, feature_t feature) const noexcept {
    const Column at = column(feature);
    return load_bin(row_data(row) + at.offset, at.bytes_per_bin);
  }
  static bin_t load_bin(const std::uint8_t* bytes, std::uint32_t bytes_per_bin) noexcept {
    if (bytes_per_bin == 1) return *bytes;
    std::uint16_t bin;
    std::memcpy(&bin, bytes, sizeof bin);
    return bin;
  }

  // caller_rows()[row] is the caller's number of a stored row; empty where the orders agree.
  std::span<const row_t> caller_rows() const noexcept { return caller_rows_; }

 private:
  friend class BinnedMatrixBuilder;
  BinnedMatrix(Cuts cuts, row_t n_rows, std::vector<std::uint8_t> may_be_missing, std::vector<row_t> caller_rows);

  Cuts cuts_;
  row_t n_rows_;
  std::vector<std::uint8_t> may_be_missing_;
  bool is_dense_;
  std::vector<std::size_t> slot_offsets_;
  std::vector<Group> groups_;
  std::size_t row_bytes_ = 0;
  std::vector<std::uint8_t> data_;
  std::vector<row_t> caller_rows_;
};

// Fills a matrix from consecutive blocks of the caller's rows, so that no second copy of X is ever alive.
class BinnedMatrixBuilder {
 public:
  // storage_order: the caller's row to be stored in each place, a permutation; empty keeps the caller's order.
  // may_be_missing: one flag per feature; a NaN in a column that promised none is an error.
  BinnedMatrixBuilder(Cuts cuts, row_t n_rows, std::vector<std::uint8_t> may_be_missing,
                      std::vector<row_t> storage_order);

  template <typename T>
  void add(const MatrixView<T>& block, int n_threads);
  template <typename Offset, typename Index>
  void add(const CsrView<Offset, Index>& block, int n_threads);

  // The finished matrix; every row must have been added.
  BinnedMatrix build() &&;

 private:
  std::uint8_t* reserve_row(std::size_t row_in_block) noexcept;
  template <typename Value, typename Row>
  void store(feature_t feature, std::size_t n_rows, const Value& value, const Row& row) const;
  void store_one(feature_t feature, float value, std::uint8_t* row) const;
  void start_block(std::size_t n_rows, std::size_t n_columns) const;

  BinnedMatrix matrix_;
  std::vector<row_t> stored_rows_;  // caller's row → place; empty where the orders agree
  std::size_t n_added_ = 0;
};

// One flag per column: does it hold a NaN?
template <typename T>
std::vector<std::uint8_t> columns_with_missing(const MatrixView<T>& table, int n_threads);

}  // namespace mtboost
