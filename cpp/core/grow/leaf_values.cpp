// SPDX-License-Identifier: Apache-2.0
#include "grow/leaf_values.hpp"

#include <algorithm>

#include "base/require.hpp"

namespace mtboost {

LeafTaskSums sum_by_leaf_and_task(std::span<const node_t> leaves, std::span<const std::int32_t> codes,
                                  std::span<const GradientPair> pairs, std::size_t n_nodes, std::size_t n_tasks) {
  require(codes.size() == leaves.size() && pairs.size() == leaves.size(),
          "leaves, codes and pairs must have one entry per row");
  std::vector<GradientSums> table(n_nodes * n_tasks);
  for (std::size_t row = 0; row < leaves.size(); ++row) {
    if (leaves[row] < 0) continue;
    const auto leaf = static_cast<std::size_t>(leaves[row]);
    const auto task = static_cast<std::size_t>(codes[row]);  // huge if it is negative
    require(leaf < n_nodes, "a row's leaf is not a node of the tree");
    require(task < n_tasks, "a row's code is not a task");
    table[leaf * n_tasks + task] += {pairs[row].gradient, pairs[row].hessian};
  }
  const auto has_hessian = [](const GradientSums& sums) { return sums.hessian > 0.0; };
  const auto n_found = static_cast<std::size_t>(std::ranges::count_if(table, has_hessian));
  LeafTaskSums found{std::vector<node_t>(n_found), std::vector<std::int32_t>(n_found), std::vector<double>(n_found),
                     std::vector<double>(n_found)};
  std::size_t next = 0;
  for (std::size_t leaf = 0; leaf < n_nodes; ++leaf)
    for (std::size_t task = 0; task < n_tasks; ++task) {
      const GradientSums& sums = table[leaf * n_tasks + task];
      if (!has_hessian(sums)) continue;
      found.leaf[next] = static_cast<node_t>(leaf);
      found.task[next] = static_cast<std::int32_t>(task);
      found.gradient[next] = sums.gradient;
      found.hessian[next++] = sums.hessian;
    }
  return found;
}

template <typename Margin>
void add_leaf_values(std::span<const double> values, std::size_t n_columns, std::span<const node_t> leaves,
                     std::span<const std::int32_t> codes, std::size_t n_outputs, std::size_t output,
                     std::span<Margin> margins, ThreadPool& pool) {
  constexpr std::size_t kRowsPerBlock = 65536;
  require(margins.size() == leaves.size() * n_outputs && output < n_outputs,
          "margins must have shape (n_rows, n_outputs)");
  require(n_columns > 0 && values.size() % n_columns == 0, "values must have shape (n_nodes, n_columns)");
  require(codes.empty() || codes.size() == leaves.size(), "codes must have shape (n_rows,)");
  const std::size_t n_nodes = values.size() / n_columns;
  const auto last = static_cast<std::int32_t>(n_columns - 1);
  pool.parallel_for((leaves.size() + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const std::size_t end = std::min((block + 1) * kRowsPerBlock, leaves.size());
    for (std::size_t row = block * kRowsPerBlock; row < end; ++row) {
      const auto leaf = static_cast<std::size_t>(leaves[row] < 0 ? ~leaves[row] : leaves[row]);
      const std::int32_t column = codes.empty() || codes[row] == -1 ? last : codes[row];
      require(leaf < n_nodes, "a row's leaf is not a node of the tree");
      require(column >= 0 && column <= last, "a row's code is not a column of values");
      const double value = values[leaf * n_columns + static_cast<std::size_t>(column)];
      margins[row * n_outputs + output] += static_cast<Margin>(value);
    }
  });
}

template void add_leaf_values(std::span<const double>, std::size_t, std::span<const node_t>,
                              std::span<const std::int32_t>, std::size_t, std::size_t, std::span<float>, ThreadPool&);
template void add_leaf_values(std::span<const double>, std::size_t, std::span<const node_t>,
                              std::span<const std::int32_t>, std::size_t, std::size_t, std::span<double>, ThreadPool&);

}  // namespace mtboost
