// SPDX-License-Identifier: Apache-2.0
#include "grow/tree_grower.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "base/random.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 65536;

struct Leaf {
  node_t node = 0;
  int depth = 0;
  NodeSums sums;
  Histogram histogram;
  std::vector<feature_t> used;  // features on the path, ascending; kept for interaction constraints only
  Split split;
};

// Loss-guided order: larger (S, s) first, then the older node.
struct LessUrgent {
  bool operator()(const Leaf& a, const Leaf& b) const noexcept {
    if (a.split.score != b.split.score) return a.split.score < b.split.score;
    if (a.split.gain != b.split.gain) return a.split.gain < b.split.gain;
    return a.node > b.node;
  }
};

}  // namespace

// One tree on its way; borrows the grower's buffers.
class TreeGrower::Growth {
 public:
  Growth(TreeGrower& grower, const GrowParams& params, std::span<const GradientPair> gradients,
         std::uint64_t tree_number, ThreadPool& pool)
      : matrix_(*grower.matrix_),
        params_(params),
        gradients_(gradients),
        partition_(grower.partition_),
        histograms_(grower.histograms_),
        pool_(pool),
        arithmetic_(params),
        sampler_(params, matrix_.n_features(), grower.feature_weights_, tree_number),
        interactions_(params, matrix_.n_features()),
        score_(grower.score_.get()),
        tasks_(grower.tasks_ ? &*grower.tasks_ : nullptr),
        finder_(matrix_, params, score_, tasks_) {}

  Tree run(const std::function<void()>& check_interrupt) {
    std::vector<Leaf> urgent;
    urgent.push_back(root());
    while (!urgent.empty()) {
      if (check_interrupt) check_interrupt();
      push(children(cut(std::move(urgent))));
      urgent = pop();
    }
    for (std::size_t node = 1; node < tree_.left.size(); ++node)  // XGBoost's record of a leaf, the root excepted
      if (tree_.left[node] == kNoNode) tree_.base_weight[node] = tree_.value[node];
    return std::move(tree_);
  }

 private:
  struct Pair {
    Leaf left, right;
    Histogram parent;
  };

  Leaf root() {
    Leaf leaf;
    const auto rows = partition_.rows(0);
    leaf.histogram = histograms_.take(tasks_worth_a_layer(rows));
    sum_gradients({{rows, &leaf.histogram, nullptr}});
    if (matrix_.is_dense()) {  // XGBoost's order of summation
      for (const GradientSums& bin : std::span(leaf.histogram.pooled).first(matrix_.cuts().n_bins(0))) leaf.sums.sums += bin;
    } else {
      for (const row_t row : rows) leaf.sums.sums += {gradients_[row].gradient, gradients_[row].hessian};
    }
    leaf.sums.gain = arithmetic_.gain(leaf.sums.sums, leaf.sums.bounds);
    const float weight = arithmetic_.weight(leaf.sums.sums, leaf.sums.bounds);
    tree_.add_node(kNoNode, leaf.sums.sums.hessian, weight, weight * params_.learning_rate);
    std::vector<Leaf*> leaves{&leaf};
    find_splits(leaves);
    return leaf;
  }

  // Cuts the leaves that may be cut; the others stay leaves.
  std::vector<Pair> cut(std::vector<Leaf> leaves) {
    std::vector<Pair> pairs;
    std::vector<RowPartition::NodeSplit> splits;
    for (Leaf& leaf : leaves) {
      if (!may_be_cut(leaf)) {
        histograms_.give_back(std::move(leaf.histogram));
        if (params_.loss_guided) stop();  // as XGBoost: less urgent leaves are not tried
        continue;
      }
      ++n_leaves_;
      pairs.push_back(add_children(leaf));
      const auto at = static_cast<std::size_t>(leaf.node);
      splits.push_back({leaf.node, tree_.left[at], tree_.right[at], tree_.feature[at],
                        bins_going_left(tree_, leaf.node, matrix_.cuts())});
    }
    partition_.split(matrix_, splits, pool_);
    return pairs;
  }

  bool may_be_cut(const Leaf& leaf) const noexcept {
    const Split& split = leaf.split;
    return split.is_found() && split.left.hessian != 0.0 && split.right.hessian != 0.0 &&
           !(params_.max_depth > 0 && leaf.depth == params_.max_depth) &&
           !(params_.max_leaves > 0 && n_leaves_ == params_.max_leaves);
  }

  Pair add_children(Leaf& leaf) {
    const Split& split = leaf.split;
    const auto at = static_cast<std::size_t>(leaf.node);
    const GradientSums sums = split.left + split.right;
    tree_.feature[at] = split.cut.feature;
    tree_.threshold[at] = threshold(split.cut);
    tree_.default_left[at] = split.cut.default_left;
    tree_.gain[at] = split.gain;
    tree_.score[at] = split.score;
    tree_.hessian[at] = static_cast<float>(sums.hessian);
    tree_.base_weight[at] = arithmetic_.weight(sums, leaf.sums.bounds);
    tree_.right_bins[at] = split.right_bins;

    Pair pair;
    pair.parent = std::move(leaf.histogram);
    pair.left = child(leaf, split.left);
    pair.right = child(leaf, split.right);
    tree_.left[at] = pair.left.node;
    tree_.right[at] = pair.right.node;
    restrict_weights(leaf, pair);
    return pair;
  }

  float threshold(const Cut& cut) const noexcept {
    // A categorical node has no threshold; XGBoost writes this number and never reads it.
    if (cut.kind != CutKind::ordered) return std::numeric_limits<float>::denorm_min();
    return cut.position == 0 ? matrix_.cuts().min_value(cut.feature) : matrix_.cuts().value(cut.feature, cut.position - 1);
  }

  Leaf child(const Leaf& parent, const GradientSums& sums) {
    Leaf leaf;
    const float weight = arithmetic_.weight(sums, parent.sums.bounds);
    leaf.node = tree_.add_node(parent.node, sums.hessian, weight, weight * params_.learning_rate);
    leaf.depth = parent.depth + 1;
    leaf.sums = {sums, arithmetic_.gain(sums, parent.sums.bounds), parent.sums.bounds};
    if (interactions_.is_active()) {
      leaf.used = parent.used;
      const auto place = std::lower_bound(leaf.used.begin(), leaf.used.end(), parent.split.cut.feature);
      if (place == leaf.used.end() || *place != parent.split.cut.feature) leaf.used.insert(place, parent.split.cut.feature);
    }
    return leaf;
  }

  // Monotone constraints: no weight below a split may cross the middle of its two children.
  void restrict_weights(const Leaf& parent, Pair& pair) const noexcept {
    const feature_t feature = parent.split.cut.feature;
    const int sign = feature < params_.monotone_constraints.size() ? params_.monotone_constraints[feature] : 0;
    const float middle = (tree_.base_weight[static_cast<std::size_t>(pair.left.node)] +
                          tree_.base_weight[static_cast<std::size_t>(pair.right.node)]) / 2.0f;
    if (sign > 0) pair.left.sums.bounds.upper = pair.right.sums.bounds.lower = middle;
    if (sign < 0) pair.left.sums.bounds.lower = pair.right.sums.bounds.upper = middle;
  }

  // Histograms and best splits of the children that may still be cut.
  std::vector<Leaf> children(std::vector<Pair> pairs) {
    std::vector<Leaf> leaves;
    std::vector<Sums> work;
    leaves.reserve(2 * pairs.size());
    for (Pair& pair : pairs) {
      const bool ends_here = (params_.max_depth > 0 && pair.left.depth >= params_.max_depth) ||
                             (params_.max_leaves > 0 && n_leaves_ >= params_.max_leaves);
      if (ends_here) {
        histograms_.give_back(std::move(pair.parent));
        continue;
      }
      const bool right_is_lighter = pair.right.sums.sums.hessian < pair.left.sums.sums.hessian;
      leaves.push_back(std::move(pair.left));
      leaves.push_back(std::move(pair.right));
      Leaf& heavy = leaves[leaves.size() - (right_is_lighter ? 2 : 1)];
      Leaf& light = leaves[leaves.size() - (right_is_lighter ? 1 : 2)];
      heavy.histogram = std::move(pair.parent);
      const auto layered_tasks = tasks_worth_two_layers(heavy.histogram, heavy, light);
      histograms_.keep_layers(heavy.histogram, layered_tasks);
      light.histogram = histograms_.take(layered_tasks);
      work.push_back({partition_.rows(light.node), &light.histogram, &heavy.histogram});
    }
    sum_gradients(work);
    std::vector<Leaf*> to_search;
    for (Leaf& leaf : leaves) to_search.push_back(&leaf);
    find_splits(to_search);
    return leaves;
  }

  // Fill `own` from rows; where `sibling` holds the parent's sums, leave the sibling's there.
  struct Sums {
    std::span<const row_t> rows;
    Histogram* own;
    Histogram* sibling;
  };
  void sum_gradients(const Sums& sums, std::size_t first_group, std::size_t last_group) {
    const SlotRange range = slots_of_groups(matrix_, first_group, last_group);
    const auto in_range = [&](std::span<GradientSums> slots) { return slots.subspan(range.begin, range.end - range.begin); };
    const auto add_to = [&](std::span<GradientSums> slots, std::span<const row_t> rows) {
      add_rows(matrix_, rows, gradients_, first_group, last_group, slots);
    };
    auto& [pooled, layers] = *sums.own;
    std::ranges::fill(in_range(pooled), GradientSums{});
    auto rest = sums.rows;
    for (TaskLayer& layer : layers) {
      const auto of_task = rows_of_task(*tasks_, layer.task, rest);
      std::ranges::fill(in_range(layer.slots), GradientSums{});
      add_to(pooled, {rest.begin(), of_task.begin()});
      add_to(layer.slots, of_task);
      add(in_range(layer.slots), in_range(pooled));
      rest = {of_task.end(), rest.end()};
    }
    add_to(pooled, rest);
    if (sums.sibling == nullptr) return;
    subtract(in_range(pooled), in_range(sums.sibling->pooled));
    for (std::size_t i = 0; i < layers.size(); ++i)
      subtract(in_range(layers[i].slots), in_range(sums.sibling->layers[i].slots));
  }

  // Layers of all nodes together take no more memory than the matrix: 16 bytes a slot, for 16 rows or more of its bin.
  // In the sparse layout they would be mostly empty, and rows are found fast without them.
  bool is_worth_layers(std::size_t n_rows, std::size_t n_layers) const noexcept {
    return score_ != nullptr && !matrix_.is_sparse() && n_rows * matrix_.n_features() >= 16 * matrix_.n_slots() * n_layers;
  }
  std::vector<task_t> tasks_worth_a_layer(std::span<const row_t> rows) const {
    std::vector<task_t> layered;
    if (!is_worth_layers(rows.size(), 1)) return layered;
    for_each_task(*tasks_, rows, [&](task_t task, std::span<const row_t> of_task) {
      if (is_worth_layers(of_task.size(), 1)) layered.push_back(task);
    });
    return layered;
  }
  // For both siblings, so that the one's layers can be won from the other's.
  std::vector<task_t> tasks_worth_two_layers(const Histogram& parent, const Leaf& left, const Leaf& right) const {
    std::vector<task_t> layered;
    for (const TaskLayer& layer : parent.layers) {
      const auto n_rows = [&](const Leaf& leaf) {
        return rows_of_task(*tasks_, layer.task, partition_.rows(leaf.node)).size();
      };
      if (is_worth_layers(n_rows(left) + n_rows(right), 2)) layered.push_back(layer.task);
    }
    return layered;
  }

  void sum_gradients(const std::vector<Sums>& work) {
    struct Item {
      const Sums* sums;
      std::size_t first_group, last_group;
    };
    const std::size_t n_groups = matrix_.groups().size();
    const auto n_threads = static_cast<std::size_t>(pool_.n_threads());
    // A node is divided among threads by feature groups, and only if nodes alone cannot keep them busy: a group on its
    // own reads its rows' memory for eight features only.
    const std::size_t n_runs = n_threads == 1 || work.size() >= 4 * n_threads ? 1 : std::min(n_groups, n_threads);
    std::vector<Item> items;
    for (const Sums& sums : work)
      for (std::size_t run = 0; run < n_runs; ++run)
        items.push_back({&sums, run * n_groups / n_runs, (run + 1) * n_groups / n_runs});
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.sums->rows.size() > b.sums->rows.size(); });
    pool_.parallel_for(items.size(), [&](std::size_t i) {
      const auto& [sums, first_group, last_group] = items[i];
      sum_gradients(*sums, first_group, last_group);
    });
  }

  void find_splits(const std::vector<Leaf*>& leaves) {
    std::vector<std::vector<feature_t>> features;
    std::vector<NodeToSplit> nodes;
    for (const Leaf* leaf : leaves)
      features.push_back(interactions_.allowed(leaf->used, sampler_.features(leaf->depth, leaf->node)));
    for (std::size_t i = 0; i < leaves.size(); ++i)
      nodes.push_back({&leaves[i]->histogram, leaves[i]->sums, partition_.rows(leaves[i]->node), features[i]});
    auto splits = finder_.find(nodes, gradients_, pool_);
    for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i]->split = std::move(splits[i]);
  }

  void stop() {
    for (Leaf& leaf : waiting_) histograms_.give_back(std::move(leaf.histogram));
    waiting_.clear();
  }

  void push(std::vector<Leaf> leaves) {
    for (Leaf& leaf : leaves) {
      if (leaf.split.is_found()) {
        waiting_.push_back(std::move(leaf));
        if (params_.loss_guided) std::push_heap(waiting_.begin(), waiting_.end(), LessUrgent{});
      } else {
        histograms_.give_back(std::move(leaf.histogram));
      }
    }
  }

  std::vector<Leaf> pop() {
    if (!params_.loss_guided) return std::exchange(waiting_, {});
    std::vector<Leaf> urgent;
    if (!waiting_.empty()) {
      std::pop_heap(waiting_.begin(), waiting_.end(), LessUrgent{});
      urgent.push_back(std::move(waiting_.back()));
      waiting_.pop_back();
    }
    return urgent;
  }

  const BinnedMatrix& matrix_;
  const GrowParams& params_;
  std::span<const GradientPair> gradients_;
  RowPartition& partition_;
  HistogramPool& histograms_;
  ThreadPool& pool_;
  XgboostArithmetic arithmetic_;
  FeatureSampler sampler_;
  InteractionConstraints interactions_;
  const SplitScore* score_;
  const TaskRows* tasks_;
  SplitFinder finder_;
  Tree tree_;
  std::vector<Leaf> waiting_;
  int n_leaves_ = 1;
};

TreeGrower::TreeGrower(std::shared_ptr<const BinnedMatrix> matrix, std::shared_ptr<const SplitScore> score,
                       std::optional<TaskRows> tasks, std::vector<float> feature_weights)
    : matrix_(std::move(matrix)),
      score_(std::move(score)),
      tasks_(std::move(tasks)),
      feature_weights_(std::move(feature_weights)),
      histograms_(matrix_->n_slots()) {
  require(score_ == nullptr || tasks_.has_value(), "a split score over tasks needs tasks");
  require(!tasks_ || tasks_->end(tasks_->n_tasks() - 1) == matrix_->n_rows(), "tasks must cover all rows");
  require(feature_weights_.empty() || feature_weights_.size() == matrix_->n_features(),
          "feature_weights needs one weight per feature");
}

std::vector<row_t> TreeGrower::participating_rows(const GrowParams& params, std::span<const std::uint8_t> is_active,
                                                  std::uint64_t tree_number) const {
  std::vector<row_t> rows;
  rows.reserve(matrix_->n_rows());
  const auto add = [&](row_t begin, row_t end) {
    const std::size_t n_before = rows.size();
    rows.resize(n_before + (end - begin));
    std::iota(rows.begin() + static_cast<std::ptrdiff_t>(n_before), rows.end(), begin);
  };
  if (is_active.empty()) {
    add(0, matrix_->n_rows());
  } else {
    require(tasks_.has_value() && is_active.size() == tasks_->n_tasks(), "is_active needs one flag per task");
    for (task_t task = 0; task < tasks_->n_tasks(); ++task)
      if (is_active[task] != 0) add(tasks_->begin(task), tasks_->end(task));
  }
  if (params.subsample < 1.0) {
    // Each row on its own, as XGBoost does; keyed by row, so that a task that quits does not change the others' draws.
    std::erase_if(rows, [&](row_t row) {
      return RandomStream(RandomStream::Purpose::rows, params.seed, tree_number, row).uniform() >= params.subsample;
    });
  }
  return rows;
}

std::span<const GradientPair> TreeGrower::in_stored_order(std::span<const GradientPair> gradients, ThreadPool& pool) {
  const auto caller_rows = matrix_->caller_rows();
  if (caller_rows.empty()) return gradients;
  stored_gradients_.resize(gradients.size());
  pool.parallel_for((gradients.size() + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const std::size_t end = std::min((block + 1) * kRowsPerBlock, gradients.size());
    for (std::size_t row = block * kRowsPerBlock; row < end; ++row) stored_gradients_[row] = gradients[caller_rows[row]];
  });
  return stored_gradients_;
}

std::vector<node_t> TreeGrower::leaves_of_all_rows(const Tree& tree, std::span<const row_t> participating,
                                                   ThreadPool& pool) const {
  std::vector<node_t> leaves(matrix_->n_rows(), kNoNode);
  const auto caller_rows = matrix_->caller_rows();
  const auto caller_row = [&](row_t row) { return caller_rows.empty() ? row : caller_rows[row]; };
  pool.parallel_for(static_cast<std::size_t>(tree.n_nodes()), [&](std::size_t node) {
    if (!tree.is_leaf(static_cast<node_t>(node))) return;
    for (const row_t row : partition_.rows(static_cast<node_t>(node))) leaves[caller_row(row)] = static_cast<node_t>(node);
  });
  if (participating.size() == leaves.size()) return leaves;
  pool.parallel_for((leaves.size() + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const auto end = static_cast<row_t>(std::min((block + 1) * kRowsPerBlock, leaves.size()));
    std::vector<row_t> rows;
    for (auto row = static_cast<row_t>(block * kRowsPerBlock); row < end; ++row)
      if (leaves[caller_row(row)] == kNoNode) rows.push_back(row);
    std::vector<node_t> found(rows.size());
    find_leaves(tree, *matrix_, rows, found);
    for (std::size_t i = 0; i < rows.size(); ++i) leaves[caller_row(rows[i])] = ~found[i];
  });
  return leaves;
}

TreeGrower::Grown TreeGrower::grow(const GrowParams& params, std::span<const GradientPair> gradients,
                                   std::span<const std::uint8_t> is_active, std::uint64_t tree_number, int n_threads,
                                   const std::function<void()>& check_interrupt) {
  params.check(matrix_->n_features());
  require(gradients.size() == matrix_->n_rows(), "gradients have " + std::to_string(gradients.size()) + " rows, the data " +
                                                     std::to_string(matrix_->n_rows()));
  ThreadPool pool(n_threads);
  const auto rows = participating_rows(params, is_active, tree_number);
  partition_.start(rows);
  Tree tree = Growth(*this, params, in_stored_order(gradients, pool), tree_number, pool).run(check_interrupt);
  auto leaves = leaves_of_all_rows(tree, rows, pool);
  return {std::move(tree), std::move(leaves)};
}

void add_leaf_values(std::span<const float> values, std::span<const node_t> leaves, std::size_t n_outputs,
                     std::size_t output, std::span<float> margins, ThreadPool& pool) {
  require(margins.size() == leaves.size() * n_outputs && output < n_outputs, "margins must have shape (n_rows, n_outputs)");
  const auto n_nodes = static_cast<node_t>(values.size());
  pool.parallel_for((leaves.size() + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const std::size_t end = std::min((block + 1) * kRowsPerBlock, leaves.size());
    for (std::size_t row = block * kRowsPerBlock; row < end; ++row) {
      const node_t leaf = leaves[row] < 0 ? ~leaves[row] : leaves[row];
      require(leaf < n_nodes, "a row's leaf is not a node of the tree");
      margins[row * n_outputs + output] += values[static_cast<std::size_t>(leaf)];
    }
  });
}

}  // namespace mtboost
