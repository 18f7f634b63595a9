// SPDX-License-Identifier: Apache-2.0
#include "boosting/component_tree.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "base/require.hpp"
#include "boosting/component_histogram.hpp"
#include "boosting/feature_draw.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kBytesOfStep = std::size_t{256} << 20;  // of the histograms that one step makes

// Few are at most a part 1 / kFew of a tree's features. Measured: a third takes half the time, half of them up to twice.
constexpr std::size_t kFew = 4;
constexpr std::size_t kFeaturesPerTask = 16;  // of few, that one thread considers

// The features of one tree.
FeatureDraw features_of_tree(feature_t n_features, const ComponentTreeParams& params, std::uint64_t tree) {
  auto features = drawable_features(n_features, params.feature_weights);
  if (params.colsample < 1.0) {
    const auto n = static_cast<std::size_t>(params.colsample * static_cast<double>(features.size()) + 0.5);
    features = FeatureDraw(std::move(features), {})
                   .draw(std::max<std::size_t>(n, 1),
                         RandomStream(RandomStream::Purpose::features_of_tree, params.seed, tree));
    std::ranges::sort(features);
  }
  return {std::move(features), params.feature_weights};
}

}  // namespace

// One tree while it grows.
class ComponentTreeGrower::Growth {
 public:
  Growth(ComponentTreeGrower& grower, const Components& components, const ComponentTreeParams& params,
         std::uint64_t number, ThreadPool& pool)
      : grower_(grower),
        matrix_(grower.matrix_),
        components_(components),
        params_(params),
        number_(number),
        pool_(pool),
        search_(matrix_, components, params.min_samples_leaf),
        draw_(features_of_tree(matrix_.n_features(), params, number)),
        considers_few_(std::size_t{params.max_features} * kFew <= draw_.features().size()) {
    if (!considers_few_) chunks_ = chunks_of(matrix_, draw_.features(), pool.n_threads());
  }

  DecisionTree grow(const std::function<void()>& check_interrupt) {
    plant();
    while (!open_.empty() && (params_.max_leaf_nodes == 0 || n_leaves_ < params_.max_leaf_nodes)) {
      check_interrupt();
      divide(next());
    }
    return finish();
  }

 private:
  // Two nodes, and the histogram of their parent.
  struct Pair {
    Node left, right;
    bool is_left_open, is_right_open;
    std::vector<double> parent_histogram;
  };

  void plant() {
    Node root{0, 0, 1, std::vector<double>(components_.width(), 0.0)};
    for (const row_t row : grower_.partition_.rows(0))
      for (std::size_t k = 0; k < root.sums.size(); ++k) root.sums[k] += double{components_.row(row)[k]};
    tree_.nodes.emplace_back();
    sums_.push_back(root.sums);
    gains_.push_back(0.0);
    if (!may_go_on(root)) return;
    if (considers_few_) return search_few(std::span(&root, 1));
    root.histogram = take();
    std::vector<ComponentSplit> splits(chunks_.size());
    const auto is_seen = seen_features(root);
    pool_.parallel_for(chunks_.size(), [&](std::size_t chunk) {
      fill_chunk(matrix_, chunks_[chunk], grower_.partition_.rows(0), components_, root.histogram);
      splits[chunk] = best_split(chunks_[chunk], root, is_seen);
    });
    keep(std::move(root), splits);
  }

  // Nodes to divide in one step: all that wait, as far as memory goes. Their order changes the numbers of the nodes only;
  // also where few features are considered without a histogram, so that numbers do not depend on the choice.
  std::vector<Node> next() {
    std::size_t n = 1;
    if (params_.max_leaf_nodes == 0) {
      n = std::clamp<std::size_t>(kBytesOfStep / (buffer_size() * sizeof(double)), 1, open_.size());
    } else {
      const auto best = std::ranges::max_element(open_, [](const Node& a, const Node& b) {
        return a.split.gain != b.split.gain ? a.split.gain < b.split.gain : a.number > b.number;
      });
      std::iter_swap(best, open_.end() - 1);
    }
    std::vector<Node> nodes(std::make_move_iterator(open_.end() - static_cast<std::ptrdiff_t>(n)),
                            std::make_move_iterator(open_.end()));
    open_.resize(open_.size() - n);
    return nodes;
  }

  void divide(std::vector<Node> nodes) {
    std::vector<Pair> pairs;
    std::vector<RowPartition::NodeSplit> splits;
    for (Node& node : nodes) {
      splits.push_back(split_of(node));
      pairs.push_back(children_of(std::move(node)));
    }
    grower_.partition_.split(matrix_, splits, pool_);
    grower_.others_.split(matrix_, splits, pool_);
    n_leaves_ += nodes.size();

    if (!considers_few_) return search_all(pairs);
    std::vector<Node> open;
    for (Pair& pair : pairs) {
      if (pair.is_left_open) open.push_back(std::move(pair.left));
      if (pair.is_right_open) open.push_back(std::move(pair.right));
    }
    search_few(open);
  }

  // Opens those of the nodes that have a split, having summed only the features that each of them considers.
  void search_few(std::span<Node> nodes /* IN-OUT */) {
    struct Task {
      std::size_t node;
      std::span<const feature_t> features;
      ComponentSplit split{};
      std::vector<double> slots{};  // of the feature that is split
    };
    std::vector<std::vector<feature_t>> features;
    std::vector<Task> tasks;
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      features.push_back(features_of(nodes[node]));
      const std::span<const feature_t> own(features.back());
      for (std::size_t begin = 0; begin < own.size(); begin += kFeaturesPerTask)
        tasks.push_back({node, own.subspan(begin, std::min(kFeaturesPerTask, own.size() - begin))});
    }
    pool_.parallel_for(tasks.size(), [&](std::size_t at) {
      Task& task = tasks[at];
      const Node& node = nodes[task.node];
      std::vector<double> slots, scratch;
      task.split.gain = search_.noise(node.sums);
      for (const feature_t feature : task.features) {
        fill_feature(matrix_, feature, grower_.partition_.rows(node.number), components_, slots);
        if (search_.improve(feature, node.sums, slots.data(), scratch, task.split)) std::swap(slots, task.slots);
      }
    });
    for (Task& task : tasks) {
      Node& node = nodes[task.node];
      if (task.slots.empty() || task.split.gain <= node.split.gain) continue;
      node.split = task.split;
      node.histogram = std::move(task.slots);
    }
    for (Node& node : nodes)
      if (node.split.gain > 0.0) open_.push_back(std::move(node));
  }

  // The same for children, having summed all features of the tree.
  void search_all(std::span<Pair> pairs /* IN-OUT */) {
    std::vector<Pair*> open;
    for (Pair& pair : pairs) {
      if (pair.is_left_open || pair.is_right_open)
        open.push_back(&pair);
      else
        give_back(std::move(pair.parent_histogram));
    }
    std::vector<std::vector<std::uint8_t>> seen(2 * open.size());
    for (std::size_t i = 0; i < open.size(); ++i) {
      Pair& pair = *open[i];
      seen[2 * i] = seen_features(pair.left);
      seen[2 * i + 1] = seen_features(pair.right);
      Node& small = is_left_small(pair) ? pair.left : pair.right;
      Node& large = is_left_small(pair) ? pair.right : pair.left;
      small.histogram = take();
      large.histogram = std::move(pair.parent_histogram);
    }
    std::vector<ComponentSplit> splits(2 * open.size() * chunks_.size());
    pool_.parallel_for(open.size() * chunks_.size(), [&](std::size_t task) {
      const std::size_t i = task / chunks_.size(), at = task % chunks_.size();
      const FeatureChunk& chunk = chunks_[at];
      Pair& pair = *open[i];
      Node& small = is_left_small(pair) ? pair.left : pair.right;
      Node& large = is_left_small(pair) ? pair.right : pair.left;
      fill_chunk(matrix_, chunk, grower_.partition_.rows(small.number), components_, small.histogram);
      if (is_left_small(pair) ? pair.is_right_open : pair.is_left_open)
        subtract_chunk(matrix_, chunk, components_.width(), small.histogram, large.histogram);
      if (pair.is_left_open) splits[2 * i * chunks_.size() + at] = best_split(chunk, pair.left, seen[2 * i]);
      if (pair.is_right_open)
        splits[(2 * i + 1) * chunks_.size() + at] = best_split(chunk, pair.right, seen[2 * i + 1]);
    });
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto of_node = [&](std::size_t node) {
        return std::span<const ComponentSplit>(splits).subspan(node * chunks_.size(), chunks_.size());
      };
      keep(std::move(open[i]->left), of_node(2 * i));
      keep(std::move(open[i]->right), of_node(2 * i + 1));
    }
  }

  RowPartition::NodeSplit split_of(const Node& node) {
    const ComponentSplit& split = node.split;
    const bin_t n_bins = matrix_.edges().n_bins(split.feature);
    const auto left = tree_.n_nodes();
    RowPartition::NodeSplit partition{node.number, left, left + 1, split.feature,
                                      std::vector<std::uint8_t>(n_bins + 1, 0)};
    std::fill_n(partition.goes_left.begin(), split.bin + 1, std::uint8_t{1});
    partition.goes_left[n_bins] = split.is_missing_left;
    auto& own = tree_.nodes[static_cast<std::size_t>(node.number)];
    own.threshold = matrix_.edges().value(split.feature, split.bin);
    own.feature = split.feature & kTaskFeature;
    own.default_left = split.is_missing_left;
    own.left = left;
    gains_[static_cast<std::size_t>(node.number)] = split.gain;
    tree_.nodes.resize(tree_.nodes.size() + 2);
    gains_.resize(tree_.nodes.size(), 0.0);
    return partition;
  }

  Pair children_of(Node node) {
    const std::size_t width = components_.width();
    const ComponentSplit& split = node.split;
    const double* const slots =
        node.histogram.data() + (considers_few_ ? 0 : matrix_.slot_offset(split.feature) * width);
    std::vector<double> left(width, 0.0), right = node.sums;
    const auto add_bins = [&](bin_t begin, bin_t end, double sign) {
      for (bin_t bin = begin; bin < end; ++bin)
        for (std::size_t k = 0; k < width; ++k) left[k] += sign * slots[bin * width + k];
    };
    // The sums are exact, so that missing values are what the others leave.
    if (split.is_missing_left) {
      left = node.sums;
      add_bins(split.bin + 1, matrix_.edges().n_bins(split.feature), -1.0);
    } else {
      add_bins(0, split.bin + 1, 1.0);
    }
    for (std::size_t k = 0; k < width; ++k) right[k] -= left[k];
    const node_t first = tree_.nodes[static_cast<std::size_t>(node.number)].left;
    sums_.push_back(left);
    sums_.push_back(right);
    Pair pair{{first, node.depth + 1, 2 * node.path, std::move(left)},
              {first + 1, node.depth + 1, 2 * node.path + 1, std::move(right)},
              false,
              false,
              std::move(node.histogram)};
    pair.is_left_open = may_go_on(pair.left);
    pair.is_right_open = may_go_on(pair.right);
    return pair;
  }

  bool may_go_on(const Node& node) const noexcept {
    const double n_rows = node.sums[components_.count_at()];
    return node.depth < params_.max_depth && n_rows >= 2.0 * params_.min_samples_leaf && n_rows >= 2.0;
  }

  bool is_left_small(const Pair& pair) const noexcept {
    return pair.left.sums[components_.count_at()] <= pair.right.sums[components_.count_at()];
  }

  void keep(Node node, std::span<const ComponentSplit> splits_of_chunks) {
    for (const ComponentSplit& split : splits_of_chunks)
      if (split.gain > node.split.gain) node.split = split;
    if (node.split.gain > 0.0)
      open_.push_back(std::move(node));
    else
      give_back(std::move(node.histogram));
  }

  // Ascending.
  std::vector<feature_t> features_of(const Node& node) const {
    auto features = draw_.draw(params_.max_features,
                               RandomStream(RandomStream::Purpose::features_of_node, params_.seed, number_, node.path));
    std::ranges::sort(features);
    return features;
  }

  // One flag a feature; empty: all of the tree's.
  std::vector<std::uint8_t> seen_features(const Node& node) const {
    if (params_.max_features >= draw_.features().size()) return {};
    std::vector<std::uint8_t> is_seen(matrix_.n_features(), 0);
    for (const feature_t feature : features_of(node)) is_seen[feature] = 1;
    return is_seen;
  }

  ComponentSplit best_split(const FeatureChunk& chunk, const Node& node, std::span<const std::uint8_t> is_seen) const {
    ComponentSplit best;
    best.gain = search_.noise(node.sums);
    bool has_split = false;
    std::vector<double> scratch;
    for (const feature_t feature : chunk.features) {
      if (!is_seen.empty() && is_seen[feature] == 0) continue;
      const double* const slots = node.histogram.data() + matrix_.slot_offset(feature) * components_.width();
      has_split |= search_.improve(feature, node.sums, slots, scratch, best);
    }
    return has_split ? best : ComponentSplit{};
  }

  DecisionTree finish() {
    if (!considers_few_)
      for (Node& node : open_) give_back(std::move(node.histogram));
    grower_.leaves_.clear();
    grower_.means_.clear();
    for (std::size_t at = 0; at < tree_.nodes.size(); ++at) {
      tree_.weight.push_back(static_cast<float>(sums_[at][components_.weight_at()]));
      if (!tree_.nodes[at].is_leaf()) continue;
      tree_.nodes[at].feature = static_cast<std::uint32_t>(grower_.leaves_.size()) & kTaskFeature;
      grower_.leaves_.push_back(static_cast<node_t>(at));
      grower_.means_.push_back(sums_[at][0] / sums_[at][components_.weight_at()]);
    }
    std::vector<double> losses(tree_.nodes.size(), 0.0);
    pool_.parallel_for(grower_.leaves_.size(), [&](std::size_t leaf) {
      losses[static_cast<std::size_t>(grower_.leaves_[leaf])] = loss_of(grower_.leaves_[leaf]);
    });
    tree_.impurity.assign(tree_.nodes.size(), 0.0);
    for (std::size_t at = tree_.nodes.size(); at-- > 0;) {
      const DecisionNode& node = tree_.nodes[at];
      if (!node.is_leaf()) {
        const auto left = static_cast<std::size_t>(node.left);
        losses[at] = losses[left] + losses[left + 1] + gains_[at];
      }
      tree_.impurity[at] = losses[at] / sums_[at][components_.weight_at()];
    }
    return std::move(tree_);
  }

  // Σ w ‖c − mean‖² of a node, from components times weights.
  double loss_of(node_t node) const noexcept {
    const auto& sums = sums_[static_cast<std::size_t>(node)];
    const std::size_t q = components_.n_components();
    double loss = 0.0;
    for (const row_t row : grower_.partition_.rows(node)) {
      const float* const own = components_.row(row);
      const double weight = own[components_.weight_at()];
      for (std::size_t k = 0; k < q; ++k) {
        const double difference = own[k] / weight - sums[k] / sums[components_.weight_at()];
        loss += weight * difference * difference;
      }
    }
    return loss;
  }

  // ---- histograms
  std::size_t buffer_size() const noexcept { return matrix_.n_slots() * components_.width(); }
  std::vector<double> take() {
    auto& free = grower_.free_histograms_;
    if (free.empty()) return std::vector<double>(buffer_size());
    auto buffer = std::move(free.back());
    free.pop_back();
    buffer.resize(buffer_size());
    return buffer;
  }
  void give_back(std::vector<double> buffer) {
    if (!buffer.empty()) grower_.free_histograms_.push_back(std::move(buffer));
  }
  ComponentTreeGrower& grower_;
  const BinnedMatrix& matrix_;
  const Components& components_;
  const ComponentTreeParams& params_;
  std::uint64_t number_;
  ThreadPool& pool_;
  ComponentSplitSearch search_;
  FeatureDraw draw_;
  bool considers_few_;
  std::vector<FeatureChunk> chunks_;  // of draw_.features(), unless a node considers few
  std::vector<Node> open_;
  std::size_t n_leaves_ = 1;
  DecisionTree tree_;
  std::vector<std::vector<double>> sums_;  // of each node
  std::vector<double> gains_;
};

ComponentTreeGrower::ComponentTreeGrower(const BinnedMatrix& matrix) : matrix_(matrix) {
  require(matrix.caller_rows().empty(), "rows must lie in the caller's order");
  require(!matrix.edges().is_of_lightgbm(), "bins must be XGBoost's");
  for (feature_t feature = 0; feature < matrix.n_features(); ++feature)
    require(!matrix.edges().is_categorical(feature),
            [&] { return "feature " + std::to_string(feature) + " is categorical; trees here compare numbers only"; });
}

DecisionTree ComponentTreeGrower::grow(const Components& components, std::span<const row_t> rows,
                                       std::span<const row_t> others, const ComponentTreeParams& params,
                                       std::uint64_t tree, ThreadPool& pool,
                                       const std::function<void()>& check_interrupt) {
  partition_.start(rows);
  others_.start(others);
  return Growth(*this, components, params, tree, pool).grow(check_interrupt);
}

}  // namespace mtboost
