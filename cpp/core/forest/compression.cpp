// SPDX-License-Identifier: Apache-2.0
#include "forest/compression.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/random.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::uint32_t kNone = ~std::uint32_t{0};

// Lists of numbers side by side: list i is [starts[i], starts[i + 1]).
struct Lists {
  std::vector<std::uint64_t> starts{0};
  std::vector<std::uint32_t> entries;

  std::span<const std::uint32_t> operator[](std::size_t i) const noexcept {
    return std::span(entries).subspan(starts[i], starts[i + 1] - starts[i]);
  }
};

// From the lists that hold each entry to the entries of each list; they ascend.
Lists transposed(const Lists& lists, std::size_t n_entries) {
  Lists result;
  result.starts.assign(n_entries + 1, 0);
  for (const std::uint32_t entry : lists.entries) ++result.starts[entry + 1];
  for (std::size_t i = 0; i < n_entries; ++i) result.starts[i + 1] += result.starts[i];
  result.entries.resize(lists.entries.size());
  std::vector<std::uint64_t> next(result.starts.begin(), result.starts.end() - 1);
  for (std::size_t list = 0; list + 1 < lists.starts.size(); ++list)
    for (const std::uint32_t entry : lists[list]) result.entries[next[entry]++] = static_cast<std::uint32_t>(list);
  return result;
}

std::vector<std::uint32_t> first_nodes(std::span<const DecisionTree> trees) {
  std::vector<std::uint32_t> first{0};
  for (const DecisionTree& tree : trees) first.push_back(first.back() + static_cast<std::uint32_t>(tree.nodes.size()));
  return first;
}

// The nodes of a forest as features. A feature is a node that stands for all whose training rows are the same.
class Indicators {
 public:
  Indicators(std::span<const DecisionTree> trees, const RowsView& rows) : trees_(trees), first_(first_nodes(trees)) {
    const auto leaves = leaves_of(rows);
    find_parents();
    find_features(leaves, rows.table.n_rows);
    by_row_ = features_by_row(leaves, rows.table.n_rows);
    by_feature_ = transposed(by_row_, nodes_.size());
  }

  std::size_t n_features() const noexcept { return nodes_.size(); }
  std::uint32_t node(std::size_t feature) const noexcept { return nodes_[feature]; }
  std::span<const std::uint32_t> rows(std::size_t feature) const noexcept { return by_feature_[feature]; }
  std::span<const std::uint32_t> features(std::size_t row) const noexcept { return by_row_[row]; }

  // Rows of another table that visit each feature's node.
  Lists rows_of(const RowsView& rows) const {
    return transposed(features_by_row(leaves_of(rows), rows.table.n_rows), nodes_.size());
  }

 private:
  // Of all trees, (row, tree).
  std::vector<std::uint32_t> leaves_of(const RowsView& rows) const {
    std::vector<node_t> leaves(rows.table.n_rows * trees_.size());
    ThreadPool serial(1);
    find_leaves(trees_, rows, serial, leaves);
    std::vector<std::uint32_t> numbers(leaves.size());
    for (std::size_t i = 0; i < leaves.size(); ++i)
      numbers[i] = first_[i % trees_.size()] + static_cast<std::uint32_t>(leaves[i]);
    return numbers;
  }

  void find_parents() {
    parents_.assign(first_.back(), kNone);
    for (std::size_t tree = 0; tree < trees_.size(); ++tree)
      for (std::size_t at = 0; at < trees_[tree].nodes.size(); ++at) {
        const DecisionNode& node = trees_[tree].nodes[at];
        if (node.is_leaf()) continue;
        const std::size_t left = first_[tree] + static_cast<std::size_t>(node.left);
        parents_[left] = parents_[left + 1] = first_[tree] + static_cast<std::uint32_t>(at);
      }
  }

  // A set of rows is known by the sum of random keys of its rows: two sets have the same with probability 2^-64.
  void find_features(const std::vector<std::uint32_t>& leaves, std::size_t n_rows) {
    std::vector<std::uint64_t> keys(parents_.size(), 0);
    std::uint64_t all = 0;
    RandomStream random(RandomStream::Purpose::rows, 0, 0);  // any keys would do
    for (std::size_t row = 0; row < n_rows; ++row) {
      const std::uint64_t key = random.next();
      all += key;
      for (std::size_t tree = 0; tree < trees_.size(); ++tree) keys[leaves[row * trees_.size() + tree]] += key;
    }
    for (std::size_t node = parents_.size(); node-- > 0;)  // children come after their parent
      if (parents_[node] != kNone) keys[parents_[node]] += keys[node];
    feature_of_node_.assign(parents_.size(), kNone);
    std::unordered_set<std::uint64_t> known{0};
    for (std::size_t node = 0; node < keys.size(); ++node) {
      if (!known.insert(std::min(keys[node], all - keys[node])).second) continue;
      feature_of_node_[node] = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back(static_cast<std::uint32_t>(node));
    }
  }

  Lists features_by_row(const std::vector<std::uint32_t>& leaves, std::size_t n_rows) const {
    Lists features;
    for (std::size_t row = 0; row < n_rows; ++row) {
      for (std::size_t tree = 0; tree < trees_.size(); ++tree)
        for (std::uint32_t node = leaves[row * trees_.size() + tree]; node != kNone; node = parents_[node])
          if (feature_of_node_[node] != kNone) features.entries.push_back(feature_of_node_[node]);
      features.starts.push_back(features.entries.size());
    }
    return features;
  }

  std::span<const DecisionTree> trees_;
  std::vector<std::uint32_t> first_;            // node of each tree
  std::vector<std::uint32_t> parents_;          // of each node; kNone: a root
  std::vector<std::uint32_t> feature_of_node_;  // kNone: another one stands for it
  std::vector<std::uint32_t> nodes_;            // of each feature
  Lists by_row_, by_feature_;
};

class Walk {
 public:
  Walk(const StagewiseData& data, const StagewiseParams& params)
      : params_(params),
        n_outputs_(data.labels.n_columns),
        n_rows_(static_cast<double>(data.labels.n_rows)),
        indicators_(data.trees, data.rows),
        counts_(indicators_.n_features(), 0),
        scores_(indicators_.n_features()),
        intercept_(n_outputs_, 0.0) {
    for (std::size_t feature = 0; feature < indicators_.n_features(); ++feature) {
      const auto n = static_cast<double>(indicators_.rows(feature).size());
      feature_rows_.push_back(n);
      feature_squares_.push_back(n * (1.0 - n / n_rows_));
    }
    path_.losses = {begin(data.labels)};
    path_.intercepts = intercept_;
    if (data.valid_labels.n_rows == 0) return;
    valid_rows_ = indicators_.rows_of(data.valid_rows);
    for (std::size_t row = 0; row < data.valid_labels.n_rows; ++row)
      for (std::size_t output = 0; output < n_outputs_; ++output)
        valid_residuals_.push_back(data.valid_labels(row, output));
    path_.valid_losses = {valid_loss()};
  }

  template <typename GoesOn>
  StagewisePath run(GoesOn&& goes_on) {
    constexpr std::size_t kStepsBetweenChecks = 64;
    std::vector<double> unit(n_outputs_);
    while (path_.nodes.size() < params_.max_steps) {
      if (path_.nodes.size() % kStepsBetweenChecks == 0 && !goes_on()) break;
      const std::size_t feature = find_feature();
      if (feature == indicators_.n_features()) break;
      const double length = direction(feature, unit);
      const double fall = params_.epsilon * (2.0 * length - params_.epsilon * feature_squares_[feature]);
      take(feature, unit);
      path_.losses.push_back(path_.losses.back() - fall / n_rows_);
    }
    return std::move(path_);
  }

 private:
  // Intercepts and sums of labels; returns the loss of the mean labels.
  double begin(const MatrixView<double>& labels) {
    const std::size_t n_features = indicators_.n_features();
    label_sums_.assign(n_features * n_outputs_, 0.0);
    moved_.assign(n_features * n_outputs_, 0.0);
    double loss = 0.0;
    for (std::size_t output = 0; output < n_outputs_; ++output) {
      double& mean = intercept_[output];
      for (std::size_t row = 0; row < labels.n_rows; ++row) mean += labels(row, output);
      mean /= n_rows_;
      double* sums = label_sums_.data() + output * n_features;
      for (std::size_t row = 0; row < labels.n_rows; ++row) {
        const double label = labels(row, output);
        loss += (label - mean) * (label - mean);
        for (const std::uint32_t feature : indicators_.features(row)) sums[feature] += label;
      }
    }
    return loss / n_rows_;
  }

  // Σ of the residuals of the feature's rows: the same as with the centred feature, because the intercept keeps the sum
  // of all residuals at 0. Nothing is added up step by step but numbers of rows, so that nothing drifts.
  double correlation(std::size_t feature, std::size_t output) const noexcept {
    const std::size_t at = output * indicators_.n_features() + feature;
    return label_sums_[at] - feature_rows_[feature] * intercept_[output] - params_.epsilon * moved_[at];
  }

  // The most correlated of those whose step lowers the loss, which falls by ε (2 |correlation| - ε Σ squares); of features
  // that are equal but for rounding the first. n_features: none.
  std::size_t find_feature() noexcept {
    constexpr double kRounding = 1e-9;
    std::ranges::fill(scores_, 0.0);
    for (std::size_t output = 0; output < n_outputs_; ++output)
      for (std::size_t feature = 0; feature < scores_.size(); ++feature) {
        const double sum = correlation(feature, output);
        scores_[feature] += sum * sum;
      }
    double most = 0.0;
    for (std::size_t feature = 0; feature < scores_.size(); ++feature) {
      const double half = 0.5 * params_.epsilon * feature_squares_[feature];
      if (!(scores_[feature] > half * half * (1.0 + kRounding))) scores_[feature] = 0.0;
      most = std::max(most, scores_[feature]);
    }
    if (most == 0.0) return scores_.size();
    const auto found = std::ranges::find_if(scores_, [&](double score) { return score >= most * (1.0 - kRounding); });
    return static_cast<std::size_t>(found - scores_.begin());
  }

  // The correlations with each output as a vector of length 1; returns their length. For one output: the sign.
  double direction(std::size_t feature, std::span<double> unit /* OUT */) const noexcept {
    double squares = 0.0;
    for (std::size_t output = 0; output < n_outputs_; ++output) {
      unit[output] = correlation(feature, output);
      squares += unit[output] * unit[output];
    }
    const double length = std::sqrt(squares);
    for (double& value : unit) value /= length;
    return length;
  }

  void take(std::size_t feature, std::span<const double> unit) {
    for (const std::uint32_t row : indicators_.rows(feature))
      for (const std::uint32_t other : indicators_.features(row)) ++counts_[other];
    for (std::size_t output = 0; output < n_outputs_; ++output) {
      double* moved = moved_.data() + output * counts_.size();
      for (std::size_t other = 0; other < counts_.size(); ++other) moved[other] += unit[output] * counts_[other];
      intercept_[output] -= params_.epsilon * unit[output] * feature_rows_[feature] / n_rows_;
    }
    std::ranges::fill(counts_, 0);
    path_.nodes.push_back(indicators_.node(feature));
    for (const double value : unit) path_.changes.push_back(params_.epsilon * value);
    path_.intercepts.insert(path_.intercepts.end(), intercept_.begin(), intercept_.end());
    if (path_.valid_losses.empty()) return;
    for (const std::uint32_t row : valid_rows_[feature])
      for (std::size_t output = 0; output < n_outputs_; ++output)
        valid_residuals_[row * n_outputs_ + output] -= params_.epsilon * unit[output];
    path_.valid_losses.push_back(valid_loss());
  }

  double valid_loss() const noexcept {
    double loss = 0.0;
    for (std::size_t at = 0; at < valid_residuals_.size();)
      for (std::size_t output = 0; output < n_outputs_; ++output, ++at) {
        const double residual = valid_residuals_[at] - intercept_[output];
        loss += residual * residual;
      }
    return loss / (static_cast<double>(valid_residuals_.size()) / static_cast<double>(n_outputs_));
  }

  const StagewiseParams& params_;
  std::size_t n_outputs_;
  double n_rows_;
  Indicators indicators_;
  std::vector<double> feature_rows_;     // number of rows of each feature
  std::vector<double> feature_squares_;  // Σ of its squares, when it is centred
  std::vector<double> label_sums_;       // (output, feature), over its rows
  std::vector<double> moved_;  // (output, feature): Σ over steps of unit times rows shared with the step's feature
  std::vector<std::int32_t> counts_;  // rows shared with the feature of this step; 0 between steps
  std::vector<double> scores_;        // squared length of the correlations; 0 where a step would not help
  std::vector<double> intercept_;
  Lists valid_rows_;                     // of each feature
  std::vector<double> valid_residuals_;  // (row, output), without the intercept
  StagewisePath path_;
};

// The tree above and at its last nodes with coefficients. A leaf has their sum along its path.
// nodes: of the tree, numbered from first_node; their coefficients begin at row `offset`.
DecisionTree pruned_tree(const DecisionTree& tree, std::uint32_t first_node, std::span<const std::uint32_t> nodes,
                         std::size_t offset, const MatrixView<double>& coefficients) {
  const std::size_t n_nodes = tree.nodes.size(), n_outputs = coefficients.n_columns;
  std::vector<std::uint32_t> own(n_nodes, kNone);  // row of each node's coefficients
  std::vector<std::uint8_t> is_kept(n_nodes, 0);   // it or a node below has coefficients
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    own[nodes[i] - first_node] = static_cast<std::uint32_t>(offset + i);
    is_kept[nodes[i] - first_node] = 1;
  }
  const auto is_divided = [&](std::size_t node) {
    const node_t left = tree.nodes[node].left;
    return left >= 0 && (is_kept[static_cast<std::size_t>(left)] || is_kept[static_cast<std::size_t>(left) + 1]);
  };
  for (std::size_t node = n_nodes; node-- > 0;)
    if (is_divided(node)) is_kept[node] = 1;

  DecisionTree result;
  result.leaves.n_outputs = static_cast<std::uint32_t>(n_outputs);
  std::vector<std::size_t> from{0};          // node of the whole tree
  std::vector<double> sums(n_outputs, 0.0);  // (node, output), along the path
  for (std::size_t at = 0; at < from.size(); ++at) {
    const std::size_t node = from[at];
    if (own[node] != kNone)
      for (std::size_t output = 0; output < n_outputs; ++output)
        sums[at * n_outputs + output] += coefficients(own[node], output);
    DecisionNode copy = tree.nodes[node];
    if (is_divided(node)) {
      if (copy.divides_tasks()) {
        const auto tasks = tree.task_list(copy.task_list());
        copy.threshold = std::bit_cast<float>(static_cast<std::uint32_t>(result.task_list_starts.size() - 1));
        result.listed_tasks.insert(result.listed_tasks.end(), tasks.begin(), tasks.end());
        result.task_list_starts.push_back(static_cast<std::uint32_t>(result.listed_tasks.size()));
      }
      copy.left = static_cast<node_t>(from.size());
      for (const int side : {0, 1}) {
        from.push_back(static_cast<std::size_t>(tree.nodes[node].left + side));
        for (std::size_t output = 0; output < n_outputs; ++output) sums.push_back(sums[at * n_outputs + output]);
      }
    } else {
      copy = {};
      copy.feature = static_cast<std::uint32_t>(result.leaves.n_vectors()) & kTaskFeature;
      result.leaves.values.insert(result.leaves.values.end(),
                                  sums.begin() + static_cast<std::ptrdiff_t>(at * n_outputs),
                                  sums.begin() + static_cast<std::ptrdiff_t>((at + 1) * n_outputs));
    }
    result.nodes.push_back(copy);
    result.impurity.push_back(tree.impurity[node]);
    result.weight.push_back(tree.weight[node]);
  }
  return result;
}

}  // namespace

std::vector<StagewisePath> walk_stagewise(std::span<const StagewiseData> data, const StagewiseParams& params,
                                          ThreadPool& pool, const std::function<void()>& check_interrupt) {
  params.check();
  std::vector<StagewisePath> paths(data.size());
  std::atomic<bool> is_stopped = false;
  pool.parallel_for(data.size(), [&](std::size_t i) {
    try {
      Walk walk(data[i], params);
      paths[i] = walk.run([&] {
        check_interrupt();
        return !is_stopped;
      });
    } catch (...) {
      is_stopped = true;
      throw;
    }
  });
  return paths;
}

std::vector<DecisionTree> cut_off(std::span<const DecisionTree> trees, std::span<const std::uint32_t> nodes,
                                  const MatrixView<double>& coefficients, std::span<const double> intercept) {
  const auto first = first_nodes(trees);
  std::vector<DecisionTree> kept;
  for (std::size_t tree = 0; tree < trees.size(); ++tree) {
    const auto begin = std::ranges::lower_bound(nodes, first[tree]),
               end = std::ranges::lower_bound(nodes, first[tree + 1]);
    if (begin == end) continue;
    const std::size_t offset = static_cast<std::size_t>(begin - nodes.begin());
    kept.push_back(pruned_tree(trees[tree], first[tree], std::span(begin, end), offset, coefficients));
  }
  if (kept.empty()) {
    DecisionTree leaf;
    leaf.nodes.resize(1);
    leaf.impurity = {trees.front().impurity.front()};
    leaf.weight = {trees.front().weight.front()};
    leaf.leaves.n_outputs = static_cast<std::uint32_t>(intercept.size());
    leaf.leaves.values.assign(intercept.size(), 0.0);
    kept.push_back(std::move(leaf));
  }
  // The mean of the trees is wanted, where coefficients make a sum.
  for (DecisionTree& tree : kept)
    for (std::size_t at = 0; at < tree.leaves.values.size(); ++at) {
      double& value = tree.leaves.values[at];
      value = static_cast<double>(kept.size()) * value + intercept[at % intercept.size()];
    }
  return kept;
}

}  // namespace mtboost
