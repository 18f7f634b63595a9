// SPDX-License-Identifier: Apache-2.0
// The rows of each node as slices of one array. Splitting a node reorders its slice: left rows first, each side in
// ascending order, whatever the number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/large_array.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "binning/binned_matrix.hpp"

namespace mtboost {

class RowPartition {
 public:
  // Starts a tree: these rows, ascending, belong to the root, node 0.
  void start(UnsetArray<row_t> rows);
  void start(std::span<const row_t> rows);  // of a copy of them
  // The row list of the last tree, whose memory may be used for that of the next.
  UnsetArray<row_t> take_rows() noexcept { return std::move(rows_); }

  std::span<const row_t> rows(node_t node) const noexcept {
    const Slice& slice = slices_[static_cast<std::size_t>(node)];
    return std::span(rows_).subspan(slice.begin, slice.end - slice.begin);
  }

  struct NodeSplit {
    node_t node, left, right;
    feature_t feature;
    std::vector<std::uint8_t> goes_left;  // per bin, missing last
  };
  void split(const BinnedMatrix& matrix, std::span<const NodeSplit> splits, ThreadPool& pool);

 private:
  struct Slice {
    std::size_t begin = 0, end = 0;
  };
  // A run of one node's rows, and how many of them go left.
  struct Block {
    std::size_t split, begin, end;
    std::size_t n_left = 0, left_target = 0, right_target = 0;
  };

  UnsetArray<row_t> rows_;
  UnsetArray<row_t> sides_;  // of each block: left rows from its front on, right rows from its end backwards
  std::vector<Slice> slices_;
};

}  // namespace mtboost
