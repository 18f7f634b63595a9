// SPDX-License-Identifier: Apache-2.0
#include "boosting/boosted_model.hpp"

#include <algorithm>
#include <cmath>

#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 256;
constexpr std::size_t kOutputsPerTile =
    128;  // of the margins of a block and the leaves of a tree: they stay in the cache
constexpr std::size_t kLeavesAtOnce = std::size_t{1} << 23;

RowsView rows_from(const RowsView& rows, std::size_t begin, std::size_t end, SparseTable& part) {
  RowsView view = rows;
  view.table.n_rows = end - begin;
  if (rows.sparse != nullptr) {
    part = *rows.sparse;
    part.indptr = part.indptr.subspan(begin, end - begin + 1);
    view.sparse = &part;
  } else {
    view.table.data += static_cast<std::ptrdiff_t>(begin) * rows.table.row_stride;
  }
  return view;
}

void add_tile(const BoostedModel& model, std::size_t first, std::size_t last, std::span<const node_t> leaves,
              std::size_t tile, float* margins) noexcept {
  const std::size_t d = model.n_outputs(), n_trees = last - first;
  const std::size_t begin = tile * kOutputsPerTile, n = std::min(kOutputsPerTile, d - begin);
  for (std::size_t tree = first; tree < last; ++tree) {
    const DecisionTree& own = model.trees[tree];
    const float* const weights = model.relabels ? nullptr : model.output_weights.data() + tree * d + begin;
    for (std::size_t row = 0; row * n_trees < leaves.size(); ++row) {
      const std::size_t leaf = own.nodes[static_cast<std::size_t>(leaves[row * n_trees + tree - first])].feature;
      float* const sums = margins + row * d + begin;
      if (weights != nullptr) {
        const auto value = static_cast<float>(own.leaves.values[leaf]);
        for (std::size_t j = 0; j < n; ++j) sums[j] += value * weights[j];
      } else {
        const double* const values = own.leaves.values.data() + leaf * d + begin;
        for (std::size_t j = 0; j < n; ++j) sums[j] += static_cast<float>(values[j]);
      }
    }
  }
}

}  // namespace

void BoostedModel::check() const {
  require(!initial.empty(), "a model without outputs");
  require(std::ranges::all_of(initial, [](float value) { return std::isfinite(value); }), "a constant is not finite");
  require(output_weights.size() == (relabels ? 0 : trees.size() * n_outputs()),
          "the weights of outputs do not fit the trees");
  require(std::ranges::all_of(output_weights, [](float value) { return std::isfinite(value); }),
          "a weight of an output is not finite");
  for (const DecisionTree& tree : trees) {
    tree.check(n_features, 0);
    require(tree.leaves.n_outputs == (relabels ? n_outputs() : 1) && !tree.leaves.is_sparse,
            "a tree has other outputs than the model");
  }
}

void add_trees(const BoostedModel& model, std::size_t first, std::size_t last, const RowsView& rows, ThreadPool& pool,
               std::span<float> margins) {
  if (first >= last || rows.table.n_rows == 0) return;
  const std::size_t d = model.n_outputs(), n_trees = last - first,
                    n_tiles = (d + kOutputsPerTile - 1) / kOutputsPerTile;
  const std::size_t n_at_once = std::max<std::size_t>(kLeavesAtOnce / n_trees, kRowsPerBlock);
  std::vector<node_t> leaves;
  for (std::size_t begin = 0; begin < rows.table.n_rows; begin += n_at_once) {
    const std::size_t n = std::min(n_at_once, rows.table.n_rows - begin);
    SparseTable part{};
    leaves.resize(n * n_trees);
    find_leaves(std::span(model.trees).subspan(first, n_trees), rows_from(rows, begin, begin + n, part), pool, leaves);
    pool.parallel_for((n + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
      const std::size_t row = block * kRowsPerBlock, n_rows = std::min(kRowsPerBlock, n - row);
      for (std::size_t tile = 0; tile < n_tiles; ++tile)
        add_tile(model, first, last, std::span<const node_t>(leaves).subspan(row * n_trees, n_rows * n_trees), tile,
                 margins.data() + (begin + row) * d);
    });
  }
}

}  // namespace mtboost
