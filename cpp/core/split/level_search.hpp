// SPDX-License-Identifier: Apache-2.0
// The cut that all nodes of a level share in a symmetric tree: the one with the largest gain, summed over the nodes that
// admit it. A node that does not, because it would gain nothing or a side would be too small, stays whole.
// Of a category, all nodes share the feature only: each divides its values by weights of its own, as its library does.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "binning/binned_matrix.hpp"
#include "split/score_search.hpp"
#include "split/split.hpp"
#include "split/split_finder.hpp"

namespace mtboost {

class LevelSearch {
 public:
  // The matrix must outlive the search.
  LevelSearch(const BinnedMatrix& matrix, SplitFinder::MakeScan make_scan);

  // The split of each node; none where it stays whole. `score` of a split is the level's.
  std::vector<Split> find(std::span<const NodeToSplit> nodes, ThreadPool& pool) const;

 private:
  // A feature's best cut for all nodes.
  struct Found {
    double gain = 0.0;
    bin_t position = 0;
    bool default_left = false;
  };
  Found search(feature_t feature, std::span<const NodeToSplit> nodes, FeatureScan& scan) const;
  // A node's part in the cut that was found.
  Split split(feature_t feature, const Found& found, const NodeToSplit& node, FeatureScan& scan) const;

  const BinnedMatrix& matrix_;
  SplitFinder::MakeScan make_scan_;
};

}  // namespace mtboost
