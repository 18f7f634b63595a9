// SPDX-License-Identifier: Apache-2.0
#include "binning/binned_matrix.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/require.hpp"
#include "base/thread_pool.hpp"

namespace mtboost {
namespace {

constexpr int kCodeBits = 24;               // of the whole numbers that a float holds
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

// The bins of up to a block of values: n_bins if one is missing. All values take a step of the search before any takes
// the next, without jumps, so that the steps of different values overlap in the processor.
template <bool kIsCategorical>
void find_bins(std::span<const float> edges, std::span<const float> values, bin_t* bins /* OUT */) noexcept {
  const auto lies_below = [&](std::uint32_t edge, float value) -> std::uint32_t {
    return kIsCategorical ? edges[edge] < value : edges[edge] <= value;
  };
  std::fill_n(bins, values.size(), 0);
  for (auto length = static_cast<std::uint32_t>(edges.size()); length > 1;) {
    const std::uint32_t half = length / 2;
    for (std::size_t i = 0; i < values.size(); ++i) bins[i] += half & (0u - lies_below(bins[i] + half - 1, values[i]));
    length -= half;
  }
  const auto n_bins = static_cast<bin_t>(edges.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bin_t bin =
        std::min(bins[i] + lies_below(bins[i], values[i]), n_bins - 1);  // above the last edge: the last bin
    bins[i] = std::isnan(values[i]) ? n_bins : bin;
  }
}

void find_bins(const BinEdges& edges, feature_t feature, std::span<const float> values,
               bin_t* bins /* OUT */) noexcept {
  if (edges.n_bins(feature) == 0)
    std::fill_n(bins, values.size(), 0);  // missing everywhere; its only slot is that of missing values
  else if (edges.is_categorical(feature))
    find_bins<true>(edges.values(feature), values, bins);
  else
    find_bins<false>(edges.values(feature), values, bins);
}

// Corrects the bins of values that no training row had.
void find_outer_bins(const BinEdges& edges, feature_t feature, std::span<const float> values,
                     bin_t* bins /* IN-OUT */) noexcept {
  const bin_t n_bins = edges.n_bins(feature);
  if (n_bins == 0) return;
  const float min_value = edges.min_value(feature), last = edges.value(feature, n_bins - 1);
  const bool is_categorical = edges.is_categorical(feature);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (bins[i] == n_bins) continue;  // missing
    const bool is_unknown = is_categorical && values[i] != edges.value(feature, bins[i]);
    if (is_unknown || (!is_categorical && values[i] < min_value))
      bins[i] = edges.always_left_bin(feature);
    else if (!is_categorical && values[i] >= last)
      bins[i] = edges.always_right_bin(feature);
  }
}

}  // namespace

BinnedMatrix::BinnedMatrix(BinEdges edges, row_t n_rows, std::vector<std::uint8_t> may_be_missing,
                           std::vector<row_t> caller_rows, bool is_sparse, bool outer_bins)
    : edges_(std::move(edges)),
      n_rows_(n_rows),
      may_be_missing_(std::move(may_be_missing)),
      is_dense_(std::none_of(may_be_missing_.begin(), may_be_missing_.end(), [](auto flag) { return flag != 0; })),
      is_sparse_(is_sparse),
      outer_bins_(outer_bins),
      caller_rows_(std::move(caller_rows)) {
  require(may_be_missing_.size() == edges_.n_features(), "may_be_missing needs one flag per feature");
  slot_offsets_.push_back(0);
  for (feature_t first = 0; first < n_features(); first += kGroupSize) {
    Group group{first, std::min(kGroupSize, n_features() - first), 1, row_bytes_};
    for (feature_t feature = first; feature < first + group.n_features; ++feature) {
      const std::size_t n_bins = edges_.n_bins(feature);
      const std::size_t n_slots = n_bins + (outer_bins ? 3u : may_be_missing_[feature] != 0 ? 1u : 0u);
      require(n_slots <= kMostBins, "feature " + std::to_string(feature) + " has " + std::to_string(n_bins) +
                                        " bins; at most 65535 are supported: lower max_bin or merge categories");
      if (n_slots > 256) group.bytes_per_bin = 2;
      slot_offsets_.push_back(slot_offsets_.back() + n_slots);
    }
    groups_.push_back(group);
    row_bytes_ += group.n_features * group.bytes_per_bin;
  }
  if (is_sparse_) {
    require(n_slots() <= std::numeric_limits<slot_t>::max(), "all features together have too many bins: lower max_bin");
    row_starts_.push_back(0);
  } else {
    data_.resize(row_bytes_ * n_rows);
    std::size_t n_bytes = 0;
    for (feature_t feature = 0; feature < n_features(); ++feature) {
      column_offsets_.push_back(n_bytes);
      n_bytes += std::size_t{n_rows} * groups_[feature / kGroupSize].bytes_per_bin;
    }
    columns_.resize(n_bytes);
  }
}

bin_t BinnedMatrix::bin(row_t row, feature_t feature) const noexcept {
  if (!is_sparse_) return column(feature)[row];
  const auto slots = row_slots(row);
  const auto first = static_cast<slot_t>(slot_offset(feature));
  const auto found = std::lower_bound(slots.begin(), slots.end(), first);
  return found != slots.end() && *found < slot_offset(feature + 1) ? *found - first : edges_.unstored_bin(feature);
}

BinnedMatrixBuilder::BinnedMatrixBuilder(BinEdges edges, row_t n_rows, std::vector<std::uint8_t> may_be_missing,
                                         std::vector<row_t> storage_order, bool is_sparse, bool outer_bins)
    : matrix_(std::move(edges), n_rows, std::move(may_be_missing), std::move(storage_order), is_sparse, outer_bins),
      stored_rows_(inverse(matrix_.caller_rows_, n_rows)) {
  require(!outer_bins || !matrix_.edges_.is_of_lightgbm(), "LightGBM's bins hold all values");
}

void BinnedMatrixBuilder::find_bins(feature_t feature, std::span<const float> values, bin_t* bins) const noexcept {
  mtboost::find_bins(matrix_.edges_, feature, values, bins);
  if (matrix_.outer_bins_) find_outer_bins(matrix_.edges_, feature, values, bins);
}

template <typename Bin>
void BinnedMatrixBuilder::store_bins(feature_t feature, std::span<const bin_t> bins, std::size_t first_row_in_block,
                                     bool are_sorted) {
  const BinnedMatrix::Group& group = matrix_.groups_[feature / kGroupSize];
  std::uint8_t* rows = matrix_.data_.data() + group.offset + (feature - group.first_feature) * sizeof(Bin);
  std::uint8_t* column = matrix_.columns_.data() + matrix_.column_offsets_[feature];
  const auto write_row = [&](std::size_t row, Bin bin) {
    std::memcpy(rows + row * matrix_.row_bytes_, &bin, sizeof bin);
  };
  Bin narrow[kRowsPerBlock];
  std::copy(bins.begin(), bins.end(), narrow);
  const std::size_t first = n_added_ + first_row_in_block;
  if (stored_rows_.empty() || are_sorted) {
    std::memcpy(column + first * sizeof(Bin), narrow, bins.size() * sizeof(Bin));
    for (std::size_t i = 0; i < bins.size(); ++i) write_row(first + i, narrow[i]);
  } else {
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const std::size_t row = stored_rows_[first + i];
      std::memcpy(column + row * sizeof(Bin), &narrow[i], sizeof(Bin));
      write_row(row, narrow[i]);
    }
  }
}

void BinnedMatrixBuilder::store(feature_t feature, std::span<const float> values, std::size_t first_row_in_block,
                                bool are_sorted) {
  bin_t bins[kRowsPerBlock];
  find_bins(feature, values, bins);
  store(feature, std::span<const bin_t>(bins).first(values.size()), first_row_in_block, are_sorted);
}

void BinnedMatrixBuilder::store(feature_t feature, std::span<const bin_t> bins, std::size_t first_row_in_block,
                                bool are_sorted) {
  const bin_t missing = matrix_.edges_.n_bins(feature);
  require(matrix_.may_be_missing(feature) || std::find(bins.begin(), bins.end(), missing) == bins.end(),
          [&] { return "feature " + std::to_string(feature) + " holds a missing value"; });
  if (matrix_.column(feature).bytes_per_bin == 1)
    store_bins<std::uint8_t>(feature, bins, first_row_in_block, are_sorted);
  else
    store_bins<std::uint16_t>(feature, bins, first_row_in_block, are_sorted);
}

void BinnedMatrixBuilder::start_block(std::size_t n_rows, std::size_t n_columns) const {
  require(!is_built_, "the matrix has been built");
  require(n_added_ + n_rows <= matrix_.n_rows(), "more rows were added than the matrix was made for");
  require(n_columns == matrix_.n_features(),
          "the block has " + std::to_string(n_columns) + " columns, the edges " + std::to_string(matrix_.n_features()));
}

template <typename ForEachValue>
void BinnedMatrixBuilder::append_sparse(std::size_t n_rows, const ForEachValue& for_each_value, int n_threads) {
  BinnedMatrix& matrix = matrix_;
  std::vector<std::size_t> n_values(n_rows, 0);
  for_row_blocks(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      for_each_value(row, [&](feature_t feature, float value) {
        const bool is_there = !std::isnan(value) && matrix.edges_.n_bins(feature) > 0;
        require(is_there || matrix.may_be_missing(feature),
                [&] { return "feature " + std::to_string(feature) + " holds a missing value"; });
        n_values[row] += is_there ? 1 : 0;
      });
  });
  auto& starts = matrix.row_starts_;
  starts.reserve(std::size_t{matrix.n_rows()} + 1);
  matrix.slots_.resize(std::accumulate(n_values.begin(), n_values.end(), starts.back()));
  for (const std::size_t n : n_values) starts.push_back(starts.back() + n);
  for_row_blocks(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      const std::size_t first = starts[n_added_ + row];
      std::size_t next = first;
      for_each_value(row, [&](feature_t feature, float value) {
        if (std::isnan(value) || matrix.edges_.n_bins(feature) == 0) return;
        bin_t bin;
        find_bins(feature, {&value, 1}, &bin);
        matrix.slots_[next++] = static_cast<slot_t>(matrix.slot_offset(feature) + bin);
      });
      std::sort(matrix.slots_.begin() + static_cast<std::ptrdiff_t>(first),
                matrix.slots_.begin() + static_cast<std::ptrdiff_t>(next));
    }
  });
  n_added_ += n_rows;
}

// Rows were appended in the caller's order.
void BinnedMatrixBuilder::sort_by_storage_order() {
  BinnedMatrix& matrix = matrix_;
  if (matrix.caller_rows_.empty()) return;
  const auto starts = std::exchange(matrix.row_starts_, {0});
  const auto slots = std::exchange(matrix.slots_, {});
  matrix.row_starts_.reserve(starts.size());
  matrix.slots_.reserve(slots.size());
  for (const row_t row : matrix.caller_rows_) {
    matrix.slots_.insert(matrix.slots_.end(), slots.begin() + static_cast<std::ptrdiff_t>(starts[row]),
                         slots.begin() + static_cast<std::ptrdiff_t>(starts[row + 1]));
    matrix.row_starts_.push_back(matrix.slots_.size());
  }
}

void BinnedMatrixBuilder::make_columns() {
  BinnedMatrix& matrix = matrix_;
  std::vector<feature_t> feature_of_slot(matrix.n_slots());
  for (feature_t feature = 0; feature < matrix.n_features(); ++feature)
    std::fill(feature_of_slot.begin() + static_cast<std::ptrdiff_t>(matrix.slot_offset(feature)),
              feature_of_slot.begin() + static_cast<std::ptrdiff_t>(matrix.slot_offset(feature + 1)), feature);
  auto& starts = matrix.column_starts_;
  starts.assign(matrix.n_features() + 1, 0);
  for (const slot_t slot : matrix.slots_) ++starts[feature_of_slot[slot] + 1];
  for (std::size_t feature = 1; feature < starts.size(); ++feature) starts[feature] += starts[feature - 1];
  matrix.column_rows_.resize(matrix.slots_.size());
  matrix.column_bins_.resize(matrix.slots_.size());
  auto next = starts;
  for (row_t row = 0; row < matrix.n_rows(); ++row)
    for (const slot_t slot : matrix.row_slots(row)) {
      const feature_t feature = feature_of_slot[slot];
      const std::size_t at = next[feature]++;
      matrix.column_rows_[at] = row;
      matrix.column_bins_[at] = static_cast<std::uint16_t>(slot - matrix.slot_offset(feature));
    }
}

template <typename T>
void BinnedMatrixBuilder::add(const MatrixView<T>& block, int n_threads) {
  start_block(block.n_rows, block.n_columns);
  if (matrix_.is_sparse()) {
    const auto for_each_value = [&](std::size_t row, const auto& visit) {
      for (feature_t feature = 0; feature < matrix_.n_features(); ++feature)
        visit(feature, static_cast<float>(block(row, feature)));
    };
    return append_sparse(block.n_rows, for_each_value, n_threads);
  }
  // Of a whole table the rows are read in the order in which they are stored: a row is read in one piece, but would be
  // written byte by byte, in two places.
  const std::vector<row_t>& caller_rows = matrix_.caller_rows_;
  const bool are_sorted = !caller_rows.empty() && block.n_rows == matrix_.n_rows();
  for_row_blocks(block.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    float values[kRowsPerBlock];
    for (feature_t feature = 0; feature < matrix_.n_features(); ++feature) {
      for (std::size_t i = 0; i < end - begin; ++i)
        values[i] = static_cast<float>(block(are_sorted ? caller_rows[begin + i] : begin + i, feature));
      store(feature, std::span(values).first(end - begin), begin, are_sorted);
    }
  });
  n_added_ += block.n_rows;
}

template <typename Offset, typename Index>
void BinnedMatrixBuilder::add(const CsrView<Offset, Index>& block, int n_threads) {
  start_block(block.n_rows(), matrix_.n_features());
  for (const Index feature : block.indices)
    require(feature >= 0 && static_cast<feature_t>(feature) < matrix_.n_features(),
            [&] { return "column index " + std::to_string(feature) + " is out of range"; });
  if (matrix_.is_sparse()) {
    const auto for_each_value = [&](std::size_t row, const auto& visit) {
      for (auto i = static_cast<std::size_t>(block.indptr[row]); i < static_cast<std::size_t>(block.indptr[row + 1]);
           ++i)
        visit(static_cast<feature_t>(block.indices[i]), block.values[i]);
    };
    return append_sparse(block.n_rows(), for_each_value, n_threads);
  }
  // A block is first laid out feature by feature, so that the searches of different rows overlap.
  for_row_blocks(block.n_rows(), n_threads, [&](std::size_t begin, std::size_t end) {
    const std::size_t n_rows = end - begin;
    std::vector<float> values(n_rows * matrix_.n_features(), std::numeric_limits<float>::quiet_NaN());
    for (std::size_t row = begin; row < end; ++row)
      for (auto i = static_cast<std::size_t>(block.indptr[row]); i < static_cast<std::size_t>(block.indptr[row + 1]);
           ++i)
        values[static_cast<std::size_t>(block.indices[i]) * n_rows + row - begin] = block.values[i];
    for (feature_t feature = 0; feature < matrix_.n_features(); ++feature)
      store(feature, std::span<const float>(values).subspan(feature * n_rows, n_rows), begin);
  });
  n_added_ += block.n_rows();
}

int BinnedMatrixBuilder::code_bits(feature_t feature) const noexcept {
  const bin_t n_bins = matrix_.edges_.n_bins(feature) + (matrix_.may_be_missing(feature) ? 1 : 0);
  return std::bit_width(n_bins == 0 ? 0u : n_bins - 1);
}

void BinnedMatrixBuilder::add_codes(const MatrixView<float>& codes, std::span<const feature_t> n_features,
                                    int n_threads) {
  require(!matrix_.is_sparse() && !matrix_.outer_bins_, "codes are added to the dense layout, of training rows");
  const auto first_feature = n_features_added_;
  const auto n_new = std::accumulate(n_features.begin(), n_features.end(), std::size_t{0});
  require(n_features.size() == codes.n_columns && n_new <= matrix_.n_features() - first_feature,
          "n_features needs one entry per column of the codes, of the features that have not been added");
  start_block(codes.n_rows, matrix_.n_features());
  require(codes.n_rows == matrix_.n_rows(), "codes are added of all rows at once");
  for (feature_t feature = first_feature, column = 0; column < codes.n_columns; ++column) {
    int n_bits = 0;
    for (const feature_t end = feature + n_features[column]; feature < end; ++feature) n_bits += code_bits(feature);
    require(n_bits <= kCodeBits, "the codes of a column need more bits than a float holds");
  }
  for_row_blocks(codes.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    bin_t rest[kRowsPerBlock], bins[kRowsPerBlock];
    feature_t feature = first_feature;
    for (std::size_t column = 0; column < codes.n_columns; ++column) {
      for (std::size_t row = begin; row < end; ++row) {
        const float code = codes(row, column);
        require(code >= 0.0f && code < static_cast<float>(1u << kCodeBits), "a code is out of range");
        rest[row - begin] = static_cast<bin_t>(code);
      }
      for (const feature_t last = feature + n_features[column]; feature < last; ++feature) {
        const int n_bits = code_bits(feature);
        const bin_t n_bins = matrix_.edges_.n_bins(feature);
        for (std::size_t i = 0; i < end - begin; ++i) {
          bins[i] = std::min(rest[i] & ((1u << n_bits) - 1), n_bins);
          rest[i] >>= n_bits;
        }
        store(feature, std::span<const bin_t>(bins).first(end - begin), begin);
      }
    }
  });
  n_features_added_ += static_cast<feature_t>(n_new);
  if (n_features_added_ == matrix_.n_features()) n_added_ = codes.n_rows;
}

void BinnedMatrixBuilder::add(const StoredColumns& stored, int n_threads) {
  start_block(stored.n_rows(), stored.n_features());
  if (matrix_.is_sparse()) return append_sparse(stored, n_threads);
  for_row_blocks(stored.n_rows(), n_threads, [&](std::size_t begin, std::size_t end) {
    bin_t bins[kRowsPerBlock];
    for (feature_t feature = 0; feature < matrix_.n_features(); ++feature) {
      const bool has_every_row = stored.has_every_row(stored.column_of(feature));
      for (std::size_t row = begin; row < end; ++row)
        bins[row - begin] =
            has_every_row ? stored.bin(static_cast<row_t>(row), feature) : matrix_.edges_.unstored_bin(feature);
      store(feature, std::span<const bin_t>(bins).first(end - begin), begin);
    }
  });
  for (std::size_t column = 0; column < stored.n_columns(); ++column)
    if (!stored.has_every_row(column))
      stored.for_each_value(column, [&](row_t row, feature_t feature, bin_t bin) { store(feature, {&bin, 1}, row); });
  n_added_ += stored.n_rows();
}

// Column by column, though rows lie one after another: first how many values each row has, then the values.
void BinnedMatrixBuilder::append_sparse(const StoredColumns& stored, int n_threads) {
  BinnedMatrix& matrix = matrix_;
  require(n_added_ == 0, "stored columns hold all rows at once");
  const auto for_each_value = [&](const auto& visit) {
    for (std::size_t column = 0; column < stored.n_columns(); ++column) stored.for_each_value(column, visit);
  };
  auto& starts = matrix.row_starts_;
  starts.assign(std::size_t{stored.n_rows()} + 1, 0);
  for_each_value([&](row_t row, feature_t, bin_t) { ++starts[row + 1]; });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  matrix.slots_.resize(starts.back());
  std::vector<std::size_t> next(starts.begin(), starts.end() - 1);
  for_each_value([&](row_t row, feature_t feature, bin_t bin) {
    matrix.slots_[next[row]++] = static_cast<slot_t>(matrix.slot_offset(feature) + bin);
  });
  for_row_blocks(stored.n_rows(), n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      std::sort(matrix.slots_.begin() + static_cast<std::ptrdiff_t>(starts[row]),
                matrix.slots_.begin() + static_cast<std::ptrdiff_t>(starts[row + 1]));
  });
  n_added_ += stored.n_rows();
}

BinnedMatrix BinnedMatrixBuilder::build() && {
  require(!is_built_, "the matrix has been built");
  require(n_added_ == matrix_.n_rows(), "the matrix was made for " + std::to_string(matrix_.n_rows()) + " rows, but " +
                                            std::to_string(n_added_) + " were added");
  if (matrix_.is_sparse()) {
    sort_by_storage_order();
    make_columns();
  }
  is_built_ = true;
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
