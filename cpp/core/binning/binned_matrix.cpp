// SPDX-License-Identifier: Apache-2.0
#include "binning/binned_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/require.hpp"
#include "base/thread_pool.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 256;  // a block of X and its bins stay in cache from feature to feature

std::vector<row_t> inverse(const std::vector<row_t>& order, row_t n_rows) {
  if (order.empty()) return {};
  require(order.size() == n_rows, "storage order needs one entry per row");
  std::vector<row_t> places(n_rows, std::numeric_limits<row_t>::max());
  for (row_t place = 0; place < n_rows; ++place) {
    require(order[place] < n_rows && places[order[place]] == std::numeric_limits<row_t>::max(),
            "storage order must be a permutation of the rows");
    places[order[place]] = place;
  }
  return places;
}

template <typename Body>
void for_row_blocks(std::size_t n_rows, int n_threads, const Body& body) {
  ThreadPool pool(n_rows <= 16 * kRowsPerBlock ? 1 : n_threads);
  pool.parallel_for((n_rows + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const std::size_t begin = block * kRowsPerBlock;
    body(begin, std::min(begin + kRowsPerBlock, n_rows));
  });
}

// The bin of a value: n_bins if it is missing. Without branches: values of neighbouring rows are independent, so their
// searches overlap in the processor.
template <bool kIsCategorical>
bin_t find_bin(std::span<const float> edges, float value) noexcept {
  const auto lies_below = [&](float edge) { return kIsCategorical ? edge < value : edge <= value; };
  const float* first = edges.data();
  for (std::size_t length = edges.size(); length > 1;) {
    const std::size_t half = length / 2;
    first += lies_below(first[half - 1]) ? half : 0;
    length -= half;
  }
  const auto n_bins = static_cast<bin_t>(edges.size());
  const bin_t bin = static_cast<bin_t>(first - edges.data()) + (lies_below(*first) ? 1 : 0);
  return std::isnan(value) ? n_bins : std::min(bin, n_bins - 1);  // above the last cut: the last bin
}

// Stores the values of one feature, value(i) for i in [0, n_rows), in the rows row(i).
template <typename Bin, bool kIsCategorical, typename Value, typename Row>
bool store_values(std::span<const float> edges, std::size_t n_rows, const Value& value, const Row& row) noexcept {
  bool has_missing = false;
  for (std::size_t i = 0; i < n_rows; ++i) {
    const float x = value(i);
    has_missing |= std::isnan(x);
    const auto bin = static_cast<Bin>(find_bin<kIsCategorical>(edges, x));
    std::memcpy(row(i), &bin, sizeof bin);
  }
  return has_missing;
}

}  // namespace

BinnedMatrix::BinnedMatrix(Cuts cuts, row_t n_rows, std::vector<std::uint8_t> may_be_missing,
                           std::vector<row_t> caller_rows)
    : cuts_(std::move(cuts)),
      n_rows_(n_rows),
      may_be_missing_(std::move(may_be_missing)),
      is_dense_(std::none_of(may_be_missing_.begin(), may_be_missing_.end(), [](auto flag) { return flag != 0; })),
      caller_rows_(std::move(caller_rows)) {
  require(may_be_missing_.size() == cuts_.n_features(), "may_be_missing needs one flag per feature");
  slot_offsets_.push_back(0);
  for (feature_t first = 0; first < n_features(); first += kGroupSize) {
    Group group{first, std::min(kGroupSize, n_features() - first), 1, row_bytes_};
    for (feature_t feature = first; feature < first + group.n_features; ++feature) {
      const std::size_t n_slots = cuts_.n_bins(feature) + (may_be_missing_[feature] != 0 ? 1u : 0u);
      require(n_slots <= 65536, "feature " + std::to_string(feature) + " has " + std::to_string(cuts_.n_bins(feature)) +
                                    " bins; at most 65535 are supported: lower max_bin or merge categories");
      if (n_slots > 256) group.bytes_per_bin = 2;
      slot_offsets_.push_back(slot_offsets_.back() + n_slots);
    }
    groups_.push_back(group);
    row_bytes_ += kGroupSize * group.bytes_per_bin;  // whole groups: eight bins are loaded at once
  }
  data_.resize(row_bytes_ * n_rows);
}

BinnedMatrixBuilder::BinnedMatrixBuilder(Cuts cuts, row_t n_rows, std::vector<std::uint8_t> may_be_missing,
                                         std::vector<row_t> storage_order)
    : matrix_(std::move(cuts), n_rows, std::move(may_be_missing), std::move(storage_order)),
      stored_rows_(inverse(matrix_.caller_rows_, n_rows)) {}

std::uint8_t* BinnedMatrixBuilder::reserve_row(std::size_t row_in_block) noexcept {
  const std::size_t row = n_added_ + row_in_block;
  return matrix_.data_.data() + (stored_rows_.empty() ? row : stored_rows_[row]) * matrix_.row_bytes_;
}

template <typename Value, typename Row>
void BinnedMatrixBuilder::store(feature_t feature, std::size_t n_rows, const Value& value, const Row& row) const {
  static constexpr float kNoEdge = std::numeric_limits<float>::infinity();
  const Cuts& cuts = matrix_.cuts_;
  const BinnedMatrix::Column at = matrix_.column(feature);
  // A feature without bins is missing everywhere; it has one slot, 0.
  const auto edges = cuts.n_bins(feature) == 0 ? std::span(&kNoEdge, 1) : cuts.values(feature);
  const auto target = [&](std::size_t i) { return row(i) + at.offset; };
  bool has_missing;
  if (cuts.n_bins(feature) == 0) {
    store_values<std::uint8_t, false>(edges, n_rows, [](std::size_t) { return -kNoEdge; }, target);
    has_missing = true;
  } else if (cuts.is_categorical(feature)) {
    has_missing = at.bytes_per_bin == 1 ? store_values<std::uint8_t, true>(edges, n_rows, value, target)
                                        : store_values<std::uint16_t, true>(edges, n_rows, value, target);
  } else {
    has_missing = at.bytes_per_bin == 1 ? store_values<std::uint8_t, false>(edges, n_rows, value, target)
                                        : store_values<std::uint16_t, false>(edges, n_rows, value, target);
  }
  require(!has_missing || matrix_.may_be_missing(feature),
          "feature " + std::to_string(feature) + " holds a missing value");
}

void BinnedMatrixBuilder::store_one(feature_t feature, float value, std::uint8_t* row) const {
  store(feature, 1, [value](std::size_t) { return value; }, [row](std::size_t) { return row; });
}

void BinnedMatrixBuilder::start_block(std::size_t n_rows, std::size_t n_columns) const {
  require(n_added_ + n_rows <= matrix_.n_rows(), "more rows were added than the matrix was made for");
  require(n_columns == matrix_.n_features(), "the block has " + std::to_string(n_columns) + " columns, the cuts " +
                                                 std::to_string(matrix_.n_features()));
}

template <typename T>
void BinnedMatrixBuilder::add(const MatrixView<T>& block, int n_threads) {
  start_block(block.n_rows, block.n_columns);
  for_row_blocks(block.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (feature_t feature = 0; feature < matrix_.n_features(); ++feature)
      store(feature, end - begin, [&](std::size_t i) { return static_cast<float>(block(begin + i, feature)); },
            [&](std::size_t i) { return reserve_row(begin + i); });
  });
  n_added_ += block.n_rows;
}

template <typename Offset, typename Index>
void BinnedMatrixBuilder::add(const CsrView<Offset, Index>& block, int n_threads) {
  start_block(block.n_rows(), matrix_.n_features());
  for_row_blocks(block.n_rows(), n_threads, [&](std::size_t begin, std::size_t end) {
    constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t row = begin; row < end; ++row) {
      std::uint8_t* target = reserve_row(row);
      const auto n_stored = static_cast<std::size_t>(block.indptr[row + 1] - block.indptr[row]);
      if (n_stored < matrix_.n_features())
        for (feature_t feature = 0; feature < matrix_.n_features(); ++feature)
          if (matrix_.may_be_missing(feature)) store_one(feature, kMissing, target);
      for (auto i = block.indptr[row]; i < block.indptr[row + 1]; ++i) {
        const auto entry = static_cast<std::size_t>(i);
        const auto feature = static_cast<feature_t>(block.indices[entry]);
        require(feature < matrix_.n_features(), "column index " + std::to_string(feature) + " is out of range");
        store_one(feature, block.values[entry], target);
      }
    }
  });
  n_added_ += block.n_rows();
}

BinnedMatrix BinnedMatrixBuilder::build() && {
  require(n_added_ == matrix_.n_rows(), "the matrix was made for " + std::to_string(matrix_.n_rows()) +
                                            " rows, but " + std::to_string(n_added_) + " were added");
  return std::move(matrix_);
}

template <typename T>
std::vector<std::uint8_t> columns_with_missing(const MatrixView<T>& table, int n_threads) {
  const std::size_t n_blocks = (table.n_rows + kRowsPerBlock - 1) / kRowsPerBlock;
  std::vector<std::vector<std::uint8_t>> found(n_blocks);
  for_row_blocks(table.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    auto& flags = found[begin / kRowsPerBlock];
    flags.assign(table.n_columns, 0);
    for (std::size_t row = begin; row < end; ++row)
      for (std::size_t column = 0; column < table.n_columns; ++column)
        flags[column] |= static_cast<std::uint8_t>(std::isnan(table(row, column)));
  });
  std::vector<std::uint8_t> result(table.n_columns, 0);
  for (const auto& flags : found)
    for (std::size_t column = 0; column < table.n_columns; ++column) result[column] |= flags[column];
  return result;
}

template void BinnedMatrixBuilder::add(const MatrixView<float>&, int);
template void BinnedMatrixBuilder::add(const MatrixView<double>&, int);
template void BinnedMatrixBuilder::add(const CsrView<std::int64_t, std::int32_t>&, int);
template std::vector<std::uint8_t> columns_with_missing(const MatrixView<float>&, int);
template std::vector<std::uint8_t> columns_with_missing(const MatrixView<double>&, int);

}  // namespace mtboost
