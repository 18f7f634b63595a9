// SPDX-License-Identifier: Apache-2.0
#include "grow/tree_grower.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "base/ranges.hpp"
#include "base/require.hpp"
#include "grow/row_sample.hpp"
#include "split/unseen_values.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 65536;

std::vector<feature_t> features_of(const BinnedMatrix& matrix, const TreeGrower::Sample& sample) {
  if (!sample.features.empty()) return {sample.features.begin(), sample.features.end()};
  std::vector<feature_t> all(matrix.n_features());
  std::iota(all.begin(), all.end(), feature_t{0});
  return all;
}

}  // namespace

// One tree on its way; borrows the grower's buffers.
class TreeGrower::Growth {
 public:
  // grid: null, or that of the gradients.
  Growth(TreeGrower& grower, const GrowRules& rules, std::span<const GradientPair> gradients, const GradientGrid* grid,
         const Sample& sample, ThreadPool& pool)
      : matrix_(*grower.matrix_),
        rules_(rules),
        params_(rules.params()),
        gradients_(gradients),
        grid_(grid),
        partition_(grower.partition_),
        histograms_(grower.histograms_),
        pool_(pool),
        sampler_(params_, features_of(matrix_, sample), grower.feature_weights_, sample.tree_number),
        interactions_(params_, matrix_.n_features(), rules.constrains_root()),
        score_(grower.score_.get()),
        tasks_(grower.tasks_ ? &*grower.tasks_ : nullptr),
        is_symmetric_(grower.is_symmetric_),
        is_loss_guided_(params_.loss_guided && !is_symmetric_),
        draws_unseen_(grower.draws_unseen_),
        workers_(grower.workers_.get()),
        dispersion_(needs_dispersion(grower) ? dispersion() : 0.0),
        make_scan_(make_scans(grower.task_column_)),
        finder_(matrix_, make_scan_, score_, tasks_, grower.task_gradients_, workers_, grower.has_whole_tasks_),
        level_search_(matrix_, make_scan_, noise(grower.random_strength_, sample.tree_number)) {
    tree_.listed_go_left = rules.lists_left_categories();
  }

  const Tree& run(const std::function<void()>& check_interrupt) {
    std::vector<Leaf> first;
    first.push_back(root());
    push(std::move(first));
    for (auto urgent = pop(); !urgent.empty(); urgent = pop()) {
      if (check_interrupt) check_interrupt();
      push(children(split_leaves(std::move(urgent))));
    }
    if (workers_ != nullptr) count_rows_of_all_workers();
    return tree_;
  }

  // Values of the leaves by gradients before they were quantized. Both: of every row, in the caller's order; ~leaf where a
  // row took no part.
  void renew_leaves(std::span<const node_t> leaves, std::span<const GradientPair> gradients) {
    const auto n_nodes = static_cast<std::size_t>(tree_.n_nodes());
    const std::size_t n_blocks = (leaves.size() + kRowsPerBlock - 1) / kRowsPerBlock;
    std::vector<std::vector<GradientSums>> of_block(n_blocks, std::vector<GradientSums>(n_nodes));
    pool_.parallel_for(n_blocks, leaves.size(), [&](std::size_t block) {
      const std::size_t end = std::min((block + 1) * kRowsPerBlock, leaves.size());
      for (std::size_t row = block * kRowsPerBlock; row < end; ++row)
        if (leaves[row] >= 0)
          of_block[block][static_cast<std::size_t>(leaves[row])] += {gradients[row].gradient, gradients[row].hessian};
    });
    for (node_t node = 0; node < tree_.n_nodes(); ++node) {
      if (!tree_.is_leaf(node)) continue;
      const auto at = static_cast<std::size_t>(node);
      GradientSums sums;
      for (const auto& block : of_block) sums += block[at];
      nodes_[at].weight = rules_.renewed_weight(nodes_[at], sums);
      tree_.value[at] = rules_.leaf_value(nodes_[at]);
    }
  }

  Tree finish() {
    rules_.finish(tree_);
    return std::move(tree_);
  }

 private:
  struct Pair {
    Leaf left, right;
    Histogram parent;
    std::vector<feature_t> candidates;
  };

  // What makes a scan for each thread.
  SplitFinder::MakeScan make_scans(const std::optional<TaskColumn>& tasks) const {
    if (!tasks || tasks->penalty == 0.0) return [&rules = rules_] { return rules.make_scan(); };
    const double price = tasks->penalty * dispersion_;
    return [&rules = rules_, column = tasks->feature, price] {
      return std::make_unique<TaskColumnScan>(column, price, rules.lists_left_categories(), rules.make_task_scan(),
                                              rules.make_scan());
    };
  }

  // σ²: a row's gradient has the variance σ² h. About 1 for a logistic loss, the mean squared error for squared error.
  double dispersion() const {
    double sums[2]{};
    auto& [squares, hessian] = sums;
    for (const row_t row : partition_.rows(0)) {
      squares += static_cast<double>(gradients_[row].gradient) * gradients_[row].gradient;
      hessian += gradients_[row].hessian;
    }
    if (workers_ != nullptr) workers_->sum(sums, "dispersion");
    return hessian > 0.0 ? squares / hessian : 0.0;
  }

  static bool needs_dispersion(const TreeGrower& grower) noexcept {
    return (grower.task_column_ && grower.task_column_->penalty != 0.0) || grower.random_strength_ != 0.0;
  }

  // Of gains, in whose roots a split in one leaf by chance has about the deviation σ.
  LevelSearch::Noise noise(double strength, std::uint64_t tree) const noexcept {
    if (strength == 0.0) return {};
    return {strength * std::sqrt(dispersion_), params_.seed, tree};
  }

  Leaf root() {
    Leaf leaf;
    const auto rows = partition_.rows(0);
    leaf.histogram = histograms_.take(tasks_worth_a_layer(rows));
    // The root's sums may be read from its histogram; LightGBM completes the histogram from the sums.
    sum_gradients({{rows, nullptr, &leaf.histogram, nullptr}});
    leaf.sums = rules_.root(rows, gradients_, leaf.histogram, workers_);
    leaf.sums.n_rows = static_cast<row_t>(rows.size());
    rules_.complete(leaf.sums, 0, matrix_.n_features(), leaf.histogram.pooled);
    leaf.node = add_node(kNoNode, leaf.sums);
    tree_.n_rows.front() = leaf.sums.n_rows;
    find_splits({&leaf});
    return leaf;
  }

  node_t add_node(node_t parent, const NodeSums& sums) {
    if (grid_ != nullptr) nodes_.push_back(sums);
    return tree_.add_node(parent, sums.sums.hessian, sums.weight, rules_.leaf_value(sums));
  }

  // Splits the leaves that may be split; the others stay leaves.
  std::vector<Pair> split_leaves(std::vector<Leaf> leaves) {
    std::vector<Pair> pairs;
    std::vector<RowPartition::NodeSplit> splits;
    for (Leaf& leaf : leaves) {
      if (is_symmetric_ && !leaf.split.is_found()) {
        whole_.push_back(std::move(leaf));
        continue;
      }
      if (!may_be_split(leaf)) {
        histograms_.give_back(std::move(leaf.histogram));
        if (is_loss_guided_) stop();  // as XGBoost: less urgent leaves are not tried
        continue;
      }
      ++n_leaves_;
      pairs.push_back(add_children(leaf));
      const auto at = static_cast<std::size_t>(leaf.node);
      splits.push_back({leaf.node, tree_.left[at], tree_.right[at], tree_.feature[at],
                        bins_going_left(tree_, leaf.node, matrix_.edges())});
    }
    partition_.split(matrix_, splits, pool_);
    return pairs;
  }

  bool may_be_split(const Leaf& leaf) const noexcept {
    const Split& split = leaf.split;
    return split.is_found() && rules_.may_be_split(split) &&
           !(params_.max_depth > 0 && leaf.sums.depth == params_.max_depth) &&
           !(params_.max_leaves > 0 && n_leaves_ == params_.max_leaves);
  }

  // Whose rows stay where they are: none has such values.
  void draw_unseen(Leaf& leaf) const {
    const feature_t feature = leaf.split.rule.feature;
    const auto present =
        std::span(leaf.histogram.pooled).subspan(matrix_.slot_offset(feature), matrix_.edges().n_bins(feature));
    std::vector<GradientSums> bins(present.begin(), present.end());
    bins.push_back(std::accumulate(present.begin(), present.end(), leaf.sums.sums, std::minus{}));  // of missing values
    const auto has_rows = bins_with_rows(bins);
    Split& split = leaf.split;
    const bool to_left = is_left_drawn(feature, split.gain, split.left.hessian, split.right.hessian);
    send_unseen(std::span(has_rows).first(present.size()), has_rows.back() != 0, to_left, split);
  }

  Pair add_children(Leaf& leaf) {
    if (draws_unseen_) draw_unseen(leaf);
    const Split& split = leaf.split;
    const auto at = static_cast<std::size_t>(leaf.node);
    tree_.feature[at] = split.rule.feature;
    tree_.position[at] = split.rule.position;
    tree_.default_left[at] = split.rule.default_left;
    tree_.score[at] = split.score;
    tree_.listed_bins[at] = split.listed_bins;
    rules_.record(leaf.sums, split, leaf.node, tree_);

    auto [left, right] = rules_.children(leaf.sums, split);
    Pair pair;
    pair.parent = std::move(leaf.histogram);
    pair.candidates = std::move(leaf.candidates);
    pair.left = child(leaf, left, leaf.number);
    pair.right = child(leaf, right, n_leaves_ - 1);
    tree_.left[at] = pair.left.node;
    tree_.right[at] = pair.right.node;
    return pair;
  }

  Leaf child(const Leaf& parent, const NodeSums& sums, int number) {
    Leaf leaf;
    leaf.node = add_node(parent.node, sums);
    leaf.number = number;
    leaf.sums = sums;
    leaf.sums.depth = parent.sums.depth + 1;
    if (interactions_.is_active()) {
      leaf.used = parent.used;
      const auto place = std::lower_bound(leaf.used.begin(), leaf.used.end(), parent.split.rule.feature);
      if (place == leaf.used.end() || *place != parent.split.rule.feature)
        leaf.used.insert(place, parent.split.rule.feature);
    }
    return leaf;
  }

  // Histograms and best splits of the children that may still be split.
  std::vector<Leaf> children(std::vector<Pair> pairs) {
    std::vector<Leaf> leaves;
    std::vector<Sums> work;
    leaves.reserve(2 * pairs.size());
    for (Pair& pair : pairs) {
      for (Leaf* leaf : {&pair.left, &pair.right}) {
        leaf->sums.n_rows = static_cast<row_t>(partition_.rows(leaf->node).size());
        tree_.n_rows[static_cast<std::size_t>(leaf->node)] = leaf->sums.n_rows;
      }
      const bool ends_here = (params_.max_depth > 0 && pair.left.sums.depth >= params_.max_depth) ||
                             (params_.max_leaves > 0 && n_leaves_ >= params_.max_leaves);
      if (ends_here || !(rules_.may_be_searched(pair.left.sums) || rules_.may_be_searched(pair.right.sums))) {
        histograms_.give_back(std::move(pair.parent));
        continue;
      }
      const bool is_right_summed = rules_.is_right_summed(pair.left.sums, pair.right.sums);
      pair.left.candidates = pair.right.candidates = std::move(pair.candidates);
      leaves.push_back(std::move(pair.left));
      leaves.push_back(std::move(pair.right));
      Leaf& heavy = leaves[leaves.size() - (is_right_summed ? 2 : 1)];
      Leaf& light = leaves[leaves.size() - (is_right_summed ? 1 : 2)];
      heavy.histogram = std::move(pair.parent);
      const auto layered_tasks = tasks_worth_two_layers(heavy.histogram, heavy, light);
      histograms_.keep_layers(heavy.histogram, layered_tasks);
      light.histogram = histograms_.take(layered_tasks);
      work.push_back({partition_.rows(light.node), &light.sums, &light.histogram, &heavy.histogram});
    }
    sum_gradients(work);
    for (Leaf& leaf : whole_) {
      if (++leaf.sums.depth < params_.max_depth)
        leaves.push_back(std::move(leaf));
      else
        histograms_.give_back(std::move(leaf.histogram));
    }
    whole_.clear();
    std::vector<Leaf*> to_search;
    for (Leaf& leaf : leaves) to_search.push_back(&leaf);
    find_splits(std::move(to_search));
    return leaves;
  }

  // Fill `own` from rows; where `sibling` holds the parent's sums, leave the sibling's there.
  struct Sums {
    std::span<const row_t> rows;
    const NodeSums* node;  // null: not known yet
    Histogram* own;
    Histogram* sibling;
  };
  void sum_gradients(const Sums& sums, std::size_t first_group, std::size_t last_group) {
    const SlotRange range = slots_of_groups(matrix_, first_group, last_group);
    const auto in_range = [&](std::span<GradientSums> slots) {
      return slots.subspan(range.begin, range.end - range.begin);
    };
    UnsetArray<PackedSums> room(grid_ == nullptr ? 0 : room_for_packed_sums(matrix_));
    const auto add_to = [&](std::span<GradientSums> slots, std::span<const row_t> rows) {
      if (grid_ == nullptr)
        add_rows(matrix_, rows, gradients_, first_group, last_group, slots);
      else
        add_rows(matrix_, rows, gradients_, *grid_, first_group, last_group, room, slots);
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
    if (sums.node != nullptr) {
      const auto& groups = matrix_.groups();
      const auto& last = groups[last_group - 1];
      rules_.complete(*sums.node, groups[first_group].first_feature, last.first_feature + last.n_features, pooled);
    }
    if (sums.sibling == nullptr || workers_ != nullptr) return;
    subtract(in_range(pooled), in_range(sums.sibling->pooled));
    for (std::size_t i = 0; i < layers.size(); ++i)
      subtract(in_range(layers[i].slots), in_range(sums.sibling->layers[i].slots));
  }

  // Layers of all nodes together take no more memory than the matrix: 16 bytes a slot, for 16 rows or more of its bin.
  // In the sparse layout they would be mostly empty, and rows are found fast without them.
  // On several machines tasks are added up in other portions (split/shared_score_search.hpp).
  bool is_worth_layers(std::size_t n_rows, std::size_t n_layers) const noexcept {
    return score_ != nullptr && workers_ == nullptr && !matrix_.is_sparse() &&
           n_rows * matrix_.n_features() >= 16 * matrix_.n_slots() * n_layers;
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
    std::size_t n_steps = work.size() * matrix_.n_slots();
    for (const Sums& sums : work) n_steps += sums.rows.size() * matrix_.n_features();
    for (const Sums& sums : work)
      for (std::size_t run = 0; run < n_runs; ++run)
        items.push_back({&sums, run * n_groups / n_runs, (run + 1) * n_groups / n_runs});
    std::stable_sort(items.begin(), items.end(),
                     [](const Item& a, const Item& b) { return a.sums->rows.size() > b.sums->rows.size(); });
    pool_.parallel_for(items.size(), n_steps, [&](std::size_t i) {
      const auto& [sums, first_group, last_group] = items[i];
      sum_gradients(*sums, first_group, last_group);
    });
    if (workers_ != nullptr && !work.empty()) sum_over_workers(work);
  }

  void sum_over_workers(const std::vector<Sums>& work) {
    std::vector<std::span<GradientSums>> histograms;
    for (const Sums& sums : work) histograms.emplace_back(sums.own->pooled);
    sum_together(*workers_, histograms, "histograms");
    for (const Sums& sums : work)
      if (sums.sibling != nullptr) subtract(sums.own->pooled, sums.sibling->pooled);
  }

  // Those of a tree were this worker's so far.
  void count_rows_of_all_workers() {
    std::vector<double> counts(tree_.n_rows.begin(), tree_.n_rows.end());
    workers_->sum(counts, "rows of the nodes");
    for (std::size_t node = 0; node < counts.size(); ++node) tree_.n_rows[node] = static_cast<row_t>(counts[node]);
  }

  // Of leaves that are large enough.
  void find_splits(std::vector<Leaf*> leaves) {
    if (leaves.empty()) return;
    const node_t first = leaves.front()->node;  // by which all of a symmetric tree's level draw features
    std::erase_if(leaves, [&](const Leaf* leaf) { return !rules_.may_be_searched(leaf->sums); });
    std::vector<std::vector<std::uint8_t>> may_be_used(leaves.size());
    std::vector<NodeToSplit> nodes;
    const bool inherits = rules_.inherits_features() && !is_symmetric_;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      Leaf& leaf = *leaves[i];
      const node_t drawing = is_symmetric_ ? first : leaf.node;
      auto own = interactions_.allowed(leaf.used, sampler_.features(leaf.sums.depth, drawing));
      if (inherits && leaf.node != 0)
        may_be_used[i] = flags_of(leaf.candidates, own);
      else
        leaf.candidates = std::move(own);
      nodes.push_back({&leaf.histogram, leaf.sums, partition_.rows(leaf.node), leaf.candidates, may_be_used[i]});
    }
    if (is_symmetric_) {
      auto splits = level_search_.find(nodes, pool_);
      for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i]->split = std::move(splits[i]);
      return;
    }
    auto found = finder_.find(nodes, gradients_, pool_);
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      leaves[i]->split = std::move(found[i].best);
      leaves[i]->candidates = inherits ? std::move(found[i].with_gain) : std::vector<feature_t>{};
    }
  }

  // Which of `features` are among `chosen`; both ascending.
  static std::vector<std::uint8_t> flags_of(std::span<const feature_t> features, std::span<const feature_t> chosen) {
    std::vector<std::uint8_t> flags;
    for (const feature_t feature : features) flags.push_back(std::ranges::binary_search(chosen, feature));
    return flags;
  }

  void stop() {
    for (Leaf& leaf : waiting_) histograms_.give_back(std::move(leaf.histogram));
    waiting_.clear();
  }

  auto less_urgent() const noexcept {
    return [this](const Leaf& a, const Leaf& b) { return rules_.is_less_urgent(a, b); };
  }

  void push(std::vector<Leaf> leaves) {
    const bool is_level_split = is_symmetric_ && may_split_level(leaves);
    for (Leaf& leaf : leaves) {
      if (is_symmetric_ ? is_level_split : leaf.split.is_found()) {
        waiting_.push_back(std::move(leaf));
        if (is_loss_guided_) std::push_heap(waiting_.begin(), waiting_.end(), less_urgent());
      } else {
        histograms_.give_back(std::move(leaf.histogram));
      }
    }
  }

  // Whether any leaf of a symmetric tree is to be split, and all those that are make no more leaves than there may be.
  bool may_split_level(const std::vector<Leaf>& leaves) const noexcept {
    const auto n_splits = std::ranges::count_if(leaves, [](const Leaf& leaf) { return leaf.split.is_found(); });
    return n_splits > 0 && (params_.max_leaves <= 0 || n_leaves_ + n_splits <= params_.max_leaves);
  }

  std::vector<Leaf> pop() {
    if (!is_loss_guided_) return std::exchange(waiting_, {});
    std::vector<Leaf> urgent;
    if (!waiting_.empty()) {
      std::pop_heap(waiting_.begin(), waiting_.end(), less_urgent());
      urgent.push_back(std::move(waiting_.back()));
      waiting_.pop_back();
    }
    return urgent;
  }

  const BinnedMatrix& matrix_;
  const GrowRules& rules_;
  const GrowParams& params_;
  std::span<const GradientPair> gradients_;
  const GradientGrid* grid_;
  RowPartition& partition_;
  HistogramPool& histograms_;
  ThreadPool& pool_;
  FeatureSampler sampler_;
  InteractionConstraints interactions_;
  const SplitScore* score_;
  const TaskRows* tasks_;
  bool is_symmetric_;
  bool is_loss_guided_;
  bool draws_unseen_;
  const Communicator* workers_;
  double dispersion_;  // 0 where it is not needed
  SplitFinder::MakeScan make_scan_;
  SplitFinder finder_;
  LevelSearch level_search_;
  Tree tree_;
  std::vector<NodeSums> nodes_;  // of the tree; only with a grid
  std::vector<Leaf> waiting_;
  std::vector<Leaf> whole_;  // of a symmetric tree: leaves that this level does not split
  int n_leaves_ = 1;
};

TreeGrower::TreeGrower(std::shared_ptr<const BinnedMatrix> matrix, std::shared_ptr<const SplitScore> score,
                       std::optional<TaskRows> tasks, std::vector<float> feature_weights,
                       std::optional<TaskColumn> task_column, bool is_symmetric, double random_strength,
                       std::shared_ptr<const Communicator> workers, bool has_whole_tasks, bool has_quantized_gradients,
                       bool draws_unseen)
    : matrix_(std::move(matrix)),
      score_(std::move(score)),
      tasks_(std::move(tasks)),
      feature_weights_(std::move(feature_weights)),
      task_column_(task_column),
      is_symmetric_(is_symmetric),
      random_strength_(random_strength),
      workers_(std::move(workers)),
      has_whole_tasks_(has_whole_tasks),
      has_quantized_gradients_(has_quantized_gradients),
      draws_unseen_(draws_unseen),
      histograms_(matrix_->n_slots()) {
  require(matrix_->n_features() > 0, "the table has no features");
  require(score_ == nullptr || tasks_.has_value(), "a split score over tasks needs tasks");
  require(score_ == nullptr || !is_symmetric_, "symmetric trees need the plain score");
  require_rate("random_strength", random_strength_);
  require(random_strength_ == 0.0 || is_symmetric_, "random_strength is for symmetric trees");
  require(!tasks_ || tasks_->end(tasks_->n_tasks() - 1) == matrix_->n_rows(), "tasks must cover all rows");
  require(feature_weights_.empty() || feature_weights_.size() == matrix_->n_features(),
          "feature_weights needs one weight per feature");
  for (const float weight : feature_weights_) require_rate("feature_weights", weight);
  require(!has_quantized_gradients_ || (!matrix_->edges().is_of_lightgbm() && workers_ == nullptr),
          "quantized gradients are for XGBoost's trees on a single machine");
  require(!draws_unseen_ || !matrix_->edges().is_of_lightgbm(), "where unseen values go is for XGBoost's trees");
  if (task_column_) check_task_column();
}

void TreeGrower::check_task_column() const {
  const auto& [feature, penalty] = *task_column_;
  require(score_ == nullptr, "a task column needs the plain score");
  require(feature < matrix_->n_features(), "the task column is not one of the features");
  require_rate("task_penalty", penalty);
  const bin_t n_bins = matrix_->edges().n_bins(feature);
  if (matrix_->edges().is_of_lightgbm()) {  // keeps rare categories where missing values are
    require(matrix_->edges().is_categorical(feature) || n_bins < 2, "the task column must be a category");
    return;
  }
  require(matrix_->edges().is_categorical(feature), "the task column must be a category");
  for (row_t row = 0; row < matrix_->n_rows(); ++row)
    require(matrix_->bin(row, feature) < n_bins, "the task column has missing values: every row needs a task");
}

void TreeGrower::list_participating_rows(const GrowParams& params, const Sample& sample, ThreadPool& pool,
                                         UnsetArray<row_t>& rows) const {
  const auto list_from = [](row_t first, std::span<row_t> part) { std::iota(part.begin(), part.end(), first); };
  if (sample.tasks.empty()) {
    rows.resize(matrix_->n_rows());
    pool.parallel_for((rows.size() + kRowsPerBlock - 1) / kRowsPerBlock, rows.size(), [&](std::size_t block) {
      const std::size_t begin = block * kRowsPerBlock;
      list_from(static_cast<row_t>(begin),
                std::span(rows).subspan(begin, std::min(kRowsPerBlock, rows.size() - begin)));
    });
  } else {
    require(tasks_.has_value() && sample.tasks.size() == tasks_->n_tasks(), "tasks needs one flag per task");
    rows.clear();
    rows.reserve(matrix_->n_rows());
    for (task_t task = 0; task < tasks_->n_tasks(); ++task) {
      if (sample.tasks[task] == 0) continue;
      const std::size_t n_before = rows.size();
      rows.resize(n_before + (tasks_->end(task) - tasks_->begin(task)));
      list_from(tasks_->begin(task), std::span(rows).subspan(n_before));
    }
  }
  if (!sample.rows.empty()) {
    require(sample.rows.size() == matrix_->n_rows(), "rows needs one flag per row");
    const auto caller_rows = matrix_->caller_rows();
    std::erase_if(rows, [&](row_t row) { return sample.rows[caller_rows.empty() ? row : caller_rows[row]] == 0; });
  }
  if (params.subsample < 1.0) {
    const RowSample sample_of_tree(params.subsample, params.seed, sample.tree_number,
                                   workers_ == nullptr ? 0 : workers_->rank());
    std::size_t n_drawn = 0;
    for (const row_t row : rows) {  // without a branch, which would be unpredictable
      rows[n_drawn] = row;
      n_drawn += sample_of_tree.contains(row) ? 1 : 0;
    }
    rows.resize(n_drawn);
  }
}

std::span<const GradientPair> TreeGrower::in_stored_order(std::span<const GradientPair> gradients, ThreadPool& pool) {
  const auto caller_rows = matrix_->caller_rows();
  if (caller_rows.empty()) return gradients;
  stored_gradients_.resize(gradients.size());
  pool.parallel_for((gradients.size() + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    const std::size_t end = std::min((block + 1) * kRowsPerBlock, gradients.size());
    for (std::size_t row = block * kRowsPerBlock; row < end; ++row)
      stored_gradients_[row] = gradients[caller_rows[row]];
  });
  return stored_gradients_;
}

// Leaves the rounded gradients in stored_gradients_, in stored order.
GradientGrid TreeGrower::quantize(std::span<const GradientPair> gradients, const Sample& sample, std::uint64_t seed,
                                  ThreadPool& pool) {
  if (in_stored_order(gradients, pool).data() != stored_gradients_.data())
    stored_gradients_.assign(gradients.begin(), gradients.end());
  const GradientGrid grid(partition_.rows(0), stored_gradients_, pool);
  const RandomStream stream(RandomStream::Purpose::rounding_of_gradients, seed, sample.tree_number);
  grid.round(partition_.rows(0), stream, stored_gradients_, pool);
  return grid;
}

UnsetArray<node_t> TreeGrower::leaves_of_all_rows(const Tree& tree, std::size_t n_participating,
                                                  ThreadPool& pool) const {
  UnsetArray<node_t> leaves(matrix_->n_rows());
  if (n_participating < leaves.size()) std::ranges::fill(leaves, kNoNode);
  const auto caller_rows = matrix_->caller_rows();
  const auto caller_row = [&](row_t row) { return caller_rows.empty() ? row : caller_rows[row]; };
  // By blocks of rows, so that what is written lies near together.
  const std::size_t n_blocks = (leaves.size() + kRowsPerBlock - 1) / kRowsPerBlock;
  const auto end_of = [&](std::size_t block) {
    return static_cast<row_t>(std::min((block + 1) * kRowsPerBlock, leaves.size()));
  };
  pool.parallel_for(n_blocks, n_participating, [&](std::size_t block) {
    for (node_t node = 0; node < tree.n_nodes(); ++node) {
      if (!tree.is_leaf(node)) continue;
      const auto rows = partition_.rows(node);
      auto row = std::ranges::lower_bound(rows, static_cast<row_t>(block * kRowsPerBlock));
      for (const row_t end = end_of(block); row != rows.end() && *row < end; ++row) leaves[caller_row(*row)] = node;
    }
  });
  if (n_participating == leaves.size()) return leaves;
  pool.parallel_for(n_blocks, [&](std::size_t block) {
    const row_t end = end_of(block);
    std::vector<row_t> rows;
    for (auto row = static_cast<row_t>(block * kRowsPerBlock); row < end; ++row)
      if (leaves[caller_row(row)] == kNoNode) rows.push_back(row);
    std::vector<node_t> found(rows.size());
    find_leaves(tree, *matrix_, rows, found);
    for (std::size_t i = 0; i < rows.size(); ++i) leaves[caller_row(rows[i])] = ~found[i];
  });
  return leaves;
}

TreeGrower::Grown TreeGrower::grow(const GrowRules& rules, std::span<const GradientPair> gradients,
                                   const Sample& sample, int n_threads, const std::function<void()>& check_interrupt) {
  const GrowParams& params = rules.params();
  require(!is_symmetric_ || params.max_depth > 0, "symmetric trees need max_depth > 0");
  require(gradients.size() == matrix_->n_rows(), "gradients have " + std::to_string(gradients.size()) +
                                                     " rows, the data " + std::to_string(matrix_->n_rows()));
  require(std::ranges::adjacent_find(sample.features, std::ranges::greater_equal{}) == sample.features.end() &&
              (sample.features.empty() || sample.features.back() < matrix_->n_features()),
          "features must ascend, and be below the number of features");
  const std::size_t steps_per_cell = score_ == nullptr ? 1 : 16;  // a score over tasks visits the rows again and again
  ThreadPool pool(threads_for(std::size_t{matrix_->n_rows()} * matrix_->n_features() * steps_per_cell, n_threads));
  UnsetArray<row_t> rows = partition_.take_rows();
  list_participating_rows(params, sample, pool, rows);
  const std::size_t n_rows = rows.size();
  partition_.start(std::move(rows));
  std::optional<GradientGrid> grid;
  if (has_quantized_gradients_) grid = quantize(gradients, sample, params.seed, pool);
  const auto of_growth = grid ? std::span<const GradientPair>(stored_gradients_) : in_stored_order(gradients, pool);
  Growth growth(*this, rules, of_growth, grid ? &*grid : nullptr, sample, pool);
  auto leaves = leaves_of_all_rows(growth.run(check_interrupt), n_rows, pool);
  if (grid) growth.renew_leaves(leaves, gradients);
  return {growth.finish(), std::move(leaves)};
}

}  // namespace mtboost
