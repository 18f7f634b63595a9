// SPDX-License-Identifier: Apache-2.0
// The split that all nodes of a level share in a symmetric tree: the one with the largest gain s, summed over the nodes that
// admit it. A node that does not, because it would gain nothing or a side would be too small, stays whole.
// With noise it is the one with the largest sqrt(T + s) + noise, where T is what the levels above have gained and each
// split that gains has independent noise: chance decides among splits that are nearly as good, and only among these.
// Of a category, all nodes share the feature only: each splits its values by its own leaf weights, as the library does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "base/thread_pool.hpp"
#include "binning/binned_matrix.hpp"
#include "split/score_search.hpp"
#include "split/split.hpp"
#include "split/split_finder.hpp"

namespace mtboost {

// Of one tree.
class LevelSearch {
 public:
  struct Noise {
    double deviation = 0.0;  // 0: none
    std::uint64_t seed = 0;  // the keys of the draws
    std::uint64_t tree = 0;
  };

  // The matrix must outlive the search.
  LevelSearch(const BinnedMatrix& matrix, SplitFinder::MakeScan make_scan, Noise noise);

  // The split of each node of the next level; none where it stays whole. `score` of a split is the level's.
  std::vector<Split> find(std::span<const NodeToSplit> nodes, ThreadPool& pool);

 private:
  // A feature's best split for all nodes.
  struct Found {
    double rank = -std::numeric_limits<double>::infinity();  // the level takes the largest
    double gain = 0.0;                                       // 0: no split
    bin_t position = 0;
    bool default_left = false;
  };
  Found search(feature_t feature, std::span<const NodeToSplit> nodes, FeatureScan& scan) const;
  // A node's part in the split that was found.
  Split split(feature_t feature, const Found& found, const NodeToSplit& node, FeatureScan& scan) const;

  double rank(double gain, RandomStream noise) const noexcept;

  const BinnedMatrix& matrix_;
  SplitFinder::MakeScan make_scan_;
  Noise noise_;
  std::uint64_t level_ = 0;
  double gained_ = 0.0;  // T
};

}  // namespace mtboost
