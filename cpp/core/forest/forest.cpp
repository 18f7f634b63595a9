// SPDX-License-Identifier: Apache-2.0
#include "forest/forest.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/random.hpp"
#include "base/require.hpp"
#include "forest/interleaved_walks.hpp"
#include "forest/split_targets.hpp"
#include "forest/zero_paths.hpp"

namespace mtboost {
namespace {

// A block is so large that a tree, once in the cache, serves many rows, and so small that the rows stay there too while
// the trees pass; of sparse rows, which are few values but have leaves of all trees at a time, smaller. Every thread gets
// some.
std::size_t rows_per_block(const RowsView& rows, const ThreadPool& pool) {
  const std::size_t n_values = rows.sparse != nullptr ? 1 << 16 : 1 << 18,
                    n_most = rows.sparse != nullptr ? 1 << 11 : 1 << 16;
  const std::size_t n_fair = rows.table.n_rows / (4 * static_cast<std::size_t>(pool.n_threads())) + 1;
  const std::size_t n_rows = std::min({n_values / std::max<std::size_t>(rows.table.n_columns, 1), n_most, n_fair});
  return std::max<std::size_t>(n_rows, 64);
}

double weight_of(std::span<const double> weights, std::size_t row) noexcept {
  return weights.empty() ? 1.0 : weights[row];
}

std::vector<double> weighted_means(const MatrixView<double>& labels, std::span<const double> weights) {
  std::vector<double> means(labels.n_columns, 0.0);
  double total = 0.0;
  for (std::size_t row = 0; row < labels.n_rows; ++row) {
    const double weight = weight_of(weights, row);
    total += weight;
    for (std::size_t output = 0; output < labels.n_columns; ++output) means[output] += weight * labels(row, output);
  }
  for (double& mean : means) mean /= total;
  return means;
}

// Numbers as splits see them: about their means, and in a unit of about the largest, a power of two, so that no square
// leaves the range of float and nothing is rounded.
class Centred {
 public:
  Centred(const MatrixView<double>& labels, std::span<const double> weights)
      : labels_(labels), means_(weighted_means(labels, weights)) {
    double most = 0.0;
    for (std::size_t row = 0; row < labels.n_rows; ++row)
      for (std::size_t output = 0; output < labels.n_columns; ++output)
        most = std::max(most, std::abs(labels(row, output) - means_[output]));
    if (most > 0.0) unit_ = std::ldexp(1.0, std::ilogb(most));
  }
  double operator()(std::size_t row, std::size_t output) const noexcept {
    return (labels_(row, output) - means_[output]) / unit_;
  }
  double unit() const noexcept { return unit_; }

  template <typename T>
  std::vector<T> values() const {
    std::vector<T> values;
    values.reserve(labels_.n_rows * labels_.n_columns);
    for (std::size_t row = 0; row < labels_.n_rows; ++row)
      for (std::size_t output = 0; output < labels_.n_columns; ++output)
        values.push_back(static_cast<T>((*this)(row, output)));
    return values;
  }

 private:
  const MatrixView<double>& labels_;
  std::vector<double> means_;
  double unit_ = 1.0;
};

std::vector<float> projected(const Centred& labels, const MatrixView<double>& table, const Projection& projection) {
  const std::size_t q = projection.n_components();
  std::vector<float> components(table.n_rows * q, 0.0f);
  for (std::size_t row = 0; row < table.n_rows; ++row)
    for (std::size_t output = 0; output < table.n_columns; ++output)
      projection.add(output, static_cast<float>(labels(row, output)), &components[row * q]);
  return components;
}

std::vector<float> projected(const LabelsView& labels, const Projection& projection) {
  const std::size_t q = projection.n_components(), n_rows = labels.n_rows();
  std::vector<float> components(n_rows * q, 0.0f);
  for (std::size_t row = 0; row < n_rows; ++row)
    labels.for_each(row, [&](std::uint32_t label, double value) {
      projection.add(label, static_cast<float>(value), &components[row * q]);
    });
  return components;
}

// Rows and weights of one tree.
struct Bag {
  std::vector<row_t> rows;
  std::vector<double> weights;  // of all rows of the table; empty: all 1
};

Bag make_bag(const ForestData& data, const ForestParams& params, std::uint64_t tree) {
  Bag bag;
  const row_t n_rows = data.columns.n_rows();
  const auto counts = bootstrap_counts(params, n_rows, data.weights, tree);
  if (!counts.empty() || !data.weights.empty()) {
    bag.weights.resize(n_rows);
    for (row_t row = 0; row < n_rows; ++row)
      bag.weights[row] = weight_of(data.weights, row) * (counts.empty() ? 1 : counts[row]);
  }
  for (row_t row = 0; row < n_rows; ++row)
    if (weight_of(bag.weights, row) > 0.0) bag.rows.push_back(row);
  require(!bag.rows.empty(), "no row has a weight above 0");  // a leaf needs a row
  return bag;
}

// unit: of the labels that splits see. make_target(tree, weights, room for components of this tree alone)
template <typename MakeTarget>
std::vector<DecisionTree> grow(const ForestData& data, const ForestParams& params, std::uint64_t first_tree,
                               ThreadPool& pool, const std::function<void()>& check_interrupt, double unit,
                               MakeTarget&& make_target) {
  using Target = decltype(make_target(std::uint64_t{}, RowWeights{}, std::declval<std::vector<float>&>()));
  std::vector<DecisionTree> trees(params.n_trees);
  const auto n_threads = std::min<std::size_t>(static_cast<std::size_t>(pool.n_threads()), trees.size());
  std::vector<std::unique_ptr<TreeBuilder<Target>>> free_builders;
  std::mutex mutex;
  for (std::size_t thread = 0; thread < n_threads; ++thread)
    free_builders.push_back(std::make_unique<TreeBuilder<Target>>(data.columns, data.tasks, data.n_tasks, params));
  pool.parallel_for(trees.size(), [&](std::size_t i) {
    check_interrupt();
    std::unique_ptr<TreeBuilder<Target>> builder;
    {
      std::lock_guard lock(mutex);
      builder = std::move(free_builders.back());
      free_builders.pop_back();
    }
    const std::uint64_t tree = first_tree + i;
    Bag bag = make_bag(data, params, tree);
    std::vector<float> components;
    trees[i] = with_leaf_outputs(builder->build(std::move(bag.rows), make_target(tree, bag.weights, components), tree),
                                 data.labels, bag.weights);
    for (double& impurity : trees[i].impurity) impurity *= unit * unit;
    std::lock_guard lock(mutex);
    free_builders.push_back(std::move(builder));
  });
  return trees;
}

struct Walk {
  std::size_t number;  // of the row, or of the tree
  node_t at;
  DecisionNode node;
};

struct DenseWalk {
  const float* values;  // of the row
  std::size_t row;
  node_t at;
};

// The values of a row lie side by side. tasks: of the rows; empty if the tree does not divide any.
void find_leaves(const DecisionTree& tree, const MatrixView<float>& rows, std::span<const task_t> tasks,
                 std::span<node_t> leaves /* OUT */) {
  const DecisionNode* nodes = tree.nodes.data();
  const auto start = [&](std::size_t row) { return DenseWalk{&rows(row, 0), row, 0}; };
  const auto walk = [&](const auto& child) {
    interleave_walks(rows.n_rows, start, [&](DenseWalk& own) {
      const DecisionNode& node = nodes[own.at];
      if (node.is_leaf()) {
        leaves[own.row] = own.at;
        return true;
      }
      own.at = child(node, own);
      return false;
    });
  };
  if (tree.divides_tasks())
    walk([&](const DecisionNode& node, const DenseWalk& own) {
      return node.divides_tasks() ? tree.child(node, tasks[own.row]) : node.child(own.values[node.feature]);
    });
  else  // a comparison less for each node
    walk([](const DecisionNode& node, const DenseWalk& own) { return node.child(own.values[node.feature]); });
}

// Leaves of some rows of a sparse table, (tree, row). Rows are spread out one after the other.
std::vector<node_t> find_leaves_of_sparse(std::span<const DecisionTree> trees, const RowsView& rows, std::size_t begin,
                                          std::size_t n) {
  const SparseTable& table = *rows.sparse;
  std::vector<float> values(rows.table.n_columns, table.absent);
  std::vector<node_t> leaves(trees.size() * n);
  for (std::size_t i = 0; i < n; ++i) {
    const auto first = static_cast<std::size_t>(table.indptr[begin + i]);
    const auto last = static_cast<std::size_t>(table.indptr[begin + i + 1]);
    for (std::size_t k = first; k < last; ++k) values[table.indices[k]] = table.values[k];
    const auto start = [&](std::size_t tree) { return Walk{tree, 0, trees[tree].nodes.front()}; };
    const auto step = [&](Walk& walk) {
      const auto& [tree, at, node] = walk;
      if (node.is_leaf()) {
        leaves[tree * n + i] = at;
        return true;
      }
      walk.at =
          node.divides_tasks() ? trees[tree].child(node, rows.tasks[begin + i]) : node.child(values[node.feature]);
      walk.node = trees[tree].nodes[static_cast<std::size_t>(walk.at)];
      return false;
    };
    interleave_walks(trees.size(), start, step);
    for (std::size_t k = first; k < last; ++k) values[table.indices[k]] = table.absent;
  }
  return leaves;
}

// Some rows side by side, read once from end to end: the values that trees ask for come one by one, from all over the
// row, and each would be waited for. Of wide rows and few trees they are so few that the rows stay where they are.
struct Block {
  Block(const MatrixView<float>& table, std::size_t begin, std::size_t n, std::size_t n_trees)
      : rows{&table(begin, 0), n, table.n_columns, table.row_stride, table.column_stride} {
    constexpr std::size_t kReadByTree = 256;  // sixteen values, each with the line of the cache it is in
    if (table.n_columns > kReadByTree * n_trees && table.column_stride == 1) return;
    values.resize(n * table.n_columns);
    float* next = values.data();
    for (std::size_t row = 0; row < n; ++row)
      for (std::size_t column = 0; column < table.n_columns; ++column) *next++ = rows(row, column);
    rows = {values.data(), n, table.n_columns, static_cast<std::ptrdiff_t>(table.n_columns), 1};
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  std::vector<float> values;
  MatrixView<float> rows;
};

// Calls body(first row, number of rows, leaves_of) for blocks of the rows; leaves_of(tree) are those of the rows in one
// tree, until it is called for the next.
template <typename Body>
void for_each_block(std::span<const DecisionTree> trees, const RowsView& rows, ThreadPool& pool, Body&& body) {
  const auto& [table, tasks, sparse] = rows;
  std::optional<ZeroPaths> paths;
  if (sparse != nullptr) paths = ZeroPaths::if_they_pay(trees, *sparse, static_cast<feature_t>(table.n_columns));
  const std::size_t n_block = rows_per_block(rows, pool);
  pool.parallel_for((table.n_rows + n_block - 1) / n_block, [&](std::size_t number) {
    const std::size_t begin = number * n_block, n = std::min(begin + n_block, table.n_rows) - begin;
    if (sparse != nullptr) {
      const std::vector<node_t> leaves =
          paths ? paths->find_leaves(*sparse, tasks, begin, n) : find_leaves_of_sparse(trees, rows, begin, n);
      return body(begin, n, [&](std::size_t tree) { return std::span(leaves).subspan(tree * n, n); });
    }
    const Block block(table, begin, n, trees.size());
    std::vector<node_t> leaves(n);
    body(begin, n, [&](std::size_t tree) {
      find_leaves(trees[tree], block.rows, tasks.empty() ? tasks : tasks.subspan(begin, n), leaves);
      return std::span<const node_t>(leaves);
    });
  });
}

}  // namespace

std::vector<DecisionTree> grow_trees(const ForestData& data, const ForestParams& params, std::uint64_t first_tree,
                                     ThreadPool& pool, const std::function<void()>& check_interrupt) {
  using Components = std::vector<float>;
  const auto grow_on = [&](double unit, auto&& make_target) {
    return grow(data, params, first_tree, pool, check_interrupt, unit, make_target);
  };
  const auto grow_on_components = [&](double unit, const auto& project) {
    const auto of_tree = [&](std::uint64_t tree) {
      return project(projection_of_tree(data.projection, n_outputs(data.labels), params.seed, tree));
    };
    const bool is_shared = data.projection.is_shared;
    const Components shared = is_shared ? of_tree(0) : Components{};
    return grow_on(unit, [&](std::uint64_t tree, RowWeights weights, Components& own) {
      if (!is_shared) own = of_tree(tree);
      return VectorTarget(is_shared ? shared : own, data.projection.n_components, weights);
    });
  };
  const bool projects = data.projection.n_components > 0;
  if (const auto* labels = std::get_if<LabelsView>(&data.labels)) {
    if (projects) return grow_on_components(1.0, [&](const Projection& own) { return projected(*labels, own); });
    return grow_on(1.0, [&](std::uint64_t, RowWeights weights, Components&) { return LabelTarget(*labels, weights); });
  }
  const auto& table = std::get<MatrixView<double>>(data.labels);
  const Centred labels(table, data.weights);
  if (projects)
    return grow_on_components(labels.unit(), [&](const Projection& own) { return projected(labels, table, own); });
  if (table.n_columns == 1) {
    const auto y = labels.values<double>();
    return grow_on(labels.unit(),
                   [&](std::uint64_t, RowWeights weights, Components&) { return ScalarTarget(y, weights); });
  }
  const auto y = labels.values<float>();
  return grow_on(labels.unit(), [&](std::uint64_t, RowWeights weights, Components&) {
    return VectorTarget(y, table.n_columns, weights);
  });
}

Projection projection_of_tree(const ForestProjection& projection, std::size_t n_outputs, std::uint64_t seed,
                              std::uint64_t tree) {
  if (projection.given) return *projection.given;
  return {projection.kind, projection.n_components, n_outputs,
          RandomStream(RandomStream::Purpose::projection_of_tree, seed, projection.is_shared ? 0 : tree)};
}

std::vector<std::uint32_t> bootstrap_counts(const ForestParams& params, row_t n_rows, std::span<const double> weights,
                                            std::uint64_t tree) {
  std::vector<std::uint32_t> counts;
  if (params.n_bootstrap == 0 || n_rows == 0) return counts;
  std::vector<row_t> candidates;
  for (row_t row = 0; row < n_rows; ++row)
    if (weight_of(weights, row) > 0.0) candidates.push_back(row);
  counts.resize(n_rows);
  if (candidates.empty()) return counts;
  const auto n_candidates = static_cast<row_t>(candidates.size());
  RandomStream random(RandomStream::Purpose::rows, params.seed, tree);
  for (row_t draw = 0; draw < params.n_bootstrap; ++draw) ++counts[candidates[random.below(n_candidates)]];
  return counts;
}

void predict(std::span<const DecisionTree> trees, const RowsView& rows, ThreadPool& pool, std::span<double> outputs) {
  const std::size_t n_outputs = trees.front().leaves.n_outputs;
  const auto n_trees = static_cast<double>(trees.size());
  for_each_block(trees, rows, pool, [&](std::size_t begin, std::size_t n, const auto& leaves_of) {
    const auto own = outputs.subspan(begin * n_outputs, n * n_outputs);
    std::ranges::fill(own, 0.0);
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      const auto leaves = leaves_of(tree);
      for (std::size_t i = 0; i < n; ++i)
        trees[tree].leaves.add_to(own.subspan(i * n_outputs, n_outputs),
                                  trees[tree].nodes[static_cast<std::size_t>(leaves[i])].feature);
    }
    for (double& output : own) output /= n_trees;
  });
}

void predict_out_of_bag(std::span<const DecisionTree> trees, const ForestParams& params, const RowsView& rows,
                        std::span<const double> weights, ThreadPool& pool, std::span<double> outputs) {
  const auto n_rows = static_cast<row_t>(rows.table.n_rows);
  if (n_rows == 0) return;
  const std::size_t n_outputs = trees.front().leaves.n_outputs;
  std::vector<std::vector<bool>> is_in_bag(trees.size());
  pool.parallel_for(trees.size(), [&](std::size_t tree) {
    const auto counts = bootstrap_counts(params, n_rows, weights, tree);
    is_in_bag[tree].resize(n_rows);
    for (row_t row = 0; row < n_rows; ++row) is_in_bag[tree][row] = counts[row] > 0;
  });
  for_each_block(trees, rows, pool, [&](std::size_t begin, std::size_t n, const auto& leaves_of) {
    std::vector<std::uint32_t> n_trees(n, 0);
    const auto own = outputs.subspan(begin * n_outputs, n * n_outputs);
    std::ranges::fill(own, 0.0);
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      const auto leaves = leaves_of(tree);
      for (std::size_t i = 0; i < n; ++i) {
        if (is_in_bag[tree][begin + i]) continue;
        ++n_trees[i];
        trees[tree].leaves.add_to(own.subspan(i * n_outputs, n_outputs),
                                  trees[tree].nodes[static_cast<std::size_t>(leaves[i])].feature);
      }
    }
    for (std::size_t i = 0; i < n; ++i)
      for (double& output : own.subspan(i * n_outputs, n_outputs))
        output = n_trees[i] == 0 ? std::numeric_limits<double>::quiet_NaN() : output / n_trees[i];
  });
}

void find_leaves(std::span<const DecisionTree> trees, const RowsView& rows, ThreadPool& pool,
                 std::span<node_t> leaves) {
  for_each_block(trees, rows, pool, [&](std::size_t begin, std::size_t n, const auto& leaves_of) {
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      const auto of_tree = leaves_of(tree);
      for (std::size_t i = 0; i < n; ++i) leaves[(begin + i) * trees.size() + tree] = of_tree[i];
    }
  });
}

std::vector<double> importances(std::span<const DecisionTree> trees, feature_t n_features) {
  std::vector<double> mean(n_features + 1, 0.0), own(n_features + 1);
  for (const DecisionTree& tree : trees) {
    std::ranges::fill(own, 0.0);
    const auto loss = [&](node_t node) {
      const auto at = static_cast<std::size_t>(node);
      return static_cast<double>(tree.weight[at]) * tree.impurity[at];
    };
    double total = 0.0;
    for (node_t node = 0; node < tree.n_nodes(); ++node) {
      const DecisionNode& own_node = tree.nodes[static_cast<std::size_t>(node)];
      if (own_node.is_leaf()) continue;
      const double fall = std::max(0.0, loss(node) - loss(own_node.left) - loss(own_node.left + 1));
      own[own_node.divides_tasks() ? n_features : own_node.feature] += fall;
      total += fall;
    }
    if (total > 0.0)
      for (std::size_t i = 0; i < own.size(); ++i) mean[i] += own[i] / total;
  }
  double sum = 0.0;
  for (const double value : mean) sum += value;
  if (sum > 0.0)
    for (double& value : mean) value /= sum;
  return mean;
}

}  // namespace mtboost
