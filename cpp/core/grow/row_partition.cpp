// SPDX-License-Identifier: Apache-2.0
#include "grow/row_partition.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "binning/sparse_column.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 16384;
constexpr std::size_t kStepsPerRow = 4;

// Both put the rows that go left at the front of `sides`, the others at its end, backwards.
template <typename Bin>
std::size_t divide(const std::uint8_t* column, const std::uint8_t* goes_left, std::span<const row_t> rows,
                   row_t* sides /* OUT */) noexcept {
  row_t *left = sides, *right = sides + rows.size();
  for (const row_t row : rows) {  // without a branch: both targets are written, one of them moves on
    Bin bin;
    std::memcpy(&bin, column + row * sizeof bin, sizeof bin);
    const std::ptrdiff_t is_left = goes_left[bin];
    *left = right[-1] = row;
    left += is_left;
    right -= 1 - is_left;
  }
  return static_cast<std::size_t>(left - sides);
}

// Rows whose value is not stored go together; only the others are looked up.
std::size_t divide(const BinnedMatrix::SparseColumn& column, std::span<const std::uint8_t> goes_left,
                   bin_t unstored_bin, std::span<const row_t> rows, row_t* sides /* OUT */) noexcept {
  row_t *left = sides, *right = sides + rows.size();
  std::size_t next = 0;
  const auto move_to = [&](bool is_left, std::size_t begin, std::size_t end) {
    for (std::size_t position = begin; position < end; ++position) *(is_left ? left++ : --right) = rows[position];
  };
  const bool are_unstored_left = goes_left[unstored_bin] != 0;
  for_each_value(column, rows, [&](std::size_t position, bin_t bin) {
    move_to(are_unstored_left, next, position);
    move_to(goes_left[bin] != 0, position, position + 1);
    next = position + 1;
  });
  move_to(are_unstored_left, next, rows.size());
  return static_cast<std::size_t>(left - sides);
}

}  // namespace

void RowPartition::start(UnsetArray<row_t> rows) {
  rows_ = std::move(rows);
  sides_.resize(rows_.size());
  slices_.assign(1, {0, rows_.size()});
}

void RowPartition::start(std::span<const row_t> rows) {
  rows_.assign(rows.begin(), rows.end());
  start(take_rows());
}

void RowPartition::split(const BinnedMatrix& matrix, std::span<const NodeSplit> splits, ThreadPool& pool) {
  std::vector<Block> blocks;
  std::size_t n_steps = 0;
  for (std::size_t split = 0; split < splits.size(); ++split) {
    const Slice slice = slices_[static_cast<std::size_t>(splits[split].node)];
    n_steps += kStepsPerRow * (slice.end - slice.begin);
    for (std::size_t begin = slice.begin; begin < slice.end; begin += kRowsPerBlock)
      blocks.push_back({split, begin, std::min(begin + kRowsPerBlock, slice.end)});
  }
  pool.parallel_for(blocks.size(), n_steps, [&](std::size_t i) {
    Block& block = blocks[i];
    const NodeSplit& split = splits[block.split];
    const auto rows = std::span<const row_t>(rows_).subspan(block.begin, block.end - block.begin);
    row_t* sides = sides_.data() + block.begin;
    if (matrix.is_sparse()) {
      block.n_left = divide(matrix.sparse_column(split.feature), split.goes_left,
                            matrix.edges().unstored_bin(split.feature), rows, sides);
      return;
    }
    const BinnedMatrix::Column column = matrix.column(split.feature);
    const auto divide_block = column.bytes_per_bin == 1 ? divide<std::uint8_t> : divide<std::uint16_t>;
    block.n_left = divide_block(column.bytes, split.goes_left.data(), rows, sides);
  });

  std::size_t first_block = 0;
  for (std::size_t split = 0; split < splits.size(); ++split) {
    const Slice slice = slices_[static_cast<std::size_t>(splits[split].node)];
    std::size_t middle = slice.begin;
    std::size_t last_block = first_block;
    for (; last_block < blocks.size() && blocks[last_block].split == split; ++last_block)
      middle += blocks[last_block].n_left;
    std::size_t left = slice.begin, right = middle;
    for (; first_block < last_block; ++first_block) {
      Block& block = blocks[first_block];
      block.left_target = left;
      block.right_target = right;
      left += block.n_left;
      right += block.end - block.begin - block.n_left;
    }
    const auto n_nodes = static_cast<std::size_t>(std::max(splits[split].left, splits[split].right)) + 1;
    if (slices_.size() < n_nodes) slices_.resize(n_nodes);
    slices_[static_cast<std::size_t>(splits[split].left)] = {slice.begin, middle};
    slices_[static_cast<std::size_t>(splits[split].right)] = {middle, slice.end};
  }
  pool.parallel_for(blocks.size(), n_steps, [&](std::size_t i) {
    const Block& block = blocks[i];
    const row_t* sides = sides_.data();
    std::copy(sides + block.begin, sides + block.begin + block.n_left, rows_.data() + block.left_target);
    std::reverse_copy(sides + block.begin + block.n_left, sides + block.end, rows_.data() + block.right_target);
  });
}

}  // namespace mtboost
