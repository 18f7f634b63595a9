// SPDX-License-Identifier: Apache-2.0
#include "boosting/component_tree.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kPrefetchDistance = 8;
constexpr feature_t kFeaturesPerChunk = 16;  // so that their sums stay in the second-level cache
constexpr std::size_t kBytesOfStep = std::size_t{256} << 20;  // of the histograms that one step makes

inline void prefetch(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

// Features that one thread handles together; of one width of bins.
struct Chunk {
  std::span<const feature_t> features;  // ascending
  std::uint32_t bytes_per_bin;
};

std::vector<Chunk> chunks_of(const BinnedMatrix& matrix, std::span<const feature_t> features, int n_threads) {
  const auto n_wanted = 2 * static_cast<std::size_t>(n_threads);
  const std::size_t most = std::clamp<std::size_t>((features.size() + n_wanted - 1) / n_wanted, 4, kFeaturesPerChunk);
  std::vector<Chunk> chunks;
  const auto bytes_of = [&](std::size_t i) { return matrix.groups()[features[i] / kGroupSize].bytes_per_bin; };
  for (std::size_t begin = 0, end = 0; begin < features.size(); begin = end) {
    while (end < features.size() && end < begin + most && bytes_of(end) == bytes_of(begin)) ++end;
    chunks.push_back({features.subspan(begin, end - begin), bytes_of(begin)});
  }
  return chunks;
}

// Width: numbers of a row; 0: known at run time only.
template <typename Bin, std::size_t Width>
void add_rows(const BinnedMatrix& matrix, const Chunk& chunk, std::span<const row_t> rows, const Components& components,
              double* histogram) noexcept {
  const std::size_t width = Width > 0 ? Width : components.width(), n_features = chunk.features.size();
  const std::uint8_t* bytes[kFeaturesPerChunk];
  double* slots[kFeaturesPerChunk];
  for (std::size_t i = 0; i < n_features; ++i) {
    const BinnedMatrix::Group& group = matrix.groups()[chunk.features[i] / kGroupSize];
    bytes[i] = matrix.row_data(0) + group.offset + (chunk.features[i] - group.first_feature) * sizeof(Bin);
    slots[i] = histogram + matrix.slot_offset(chunk.features[i]) * width;
  }
  const std::size_t row_bytes = matrix.row_bytes();
  for (std::size_t position = 0; position < rows.size(); ++position) {
    if (position + kPrefetchDistance < rows.size()) {
      const row_t ahead = rows[position + kPrefetchDistance];
      prefetch(components.row(ahead));
      prefetch(bytes[0] + ahead * row_bytes);
      prefetch(bytes[n_features - 1] + ahead * row_bytes);
    }
    const row_t row = rows[position];
    const float* const values = components.row(row);
    double wide[Width > 0 ? Width : 1];
    if constexpr (Width > 0) std::copy_n(values, Width, wide);
    for (std::size_t i = 0; i < n_features; ++i) {
      Bin bin;
      std::memcpy(&bin, bytes[i] + row * row_bytes, sizeof bin);
      double* const sums = slots[i] + bin * width;
      if constexpr (Width > 0)
        for (std::size_t k = 0; k < Width; ++k) sums[k] += wide[k];
      else
        for (std::size_t k = 0; k < width; ++k) sums[k] += double{values[k]};
    }
  }
}

void add_sparse_rows(const BinnedMatrix& matrix, const Chunk& chunk, std::span<const row_t> rows,
                     const Components& components, double* histogram) noexcept {
  const std::size_t width = components.width();
  const auto begin = static_cast<slot_t>(matrix.slot_offset(chunk.features.front()));
  const auto end = static_cast<slot_t>(matrix.slot_offset(chunk.features.back() + 1));
  for (const row_t row : rows) {
    const float* const values = components.row(row);
    const auto own = matrix.row_slots(row);
    for (auto slot = std::ranges::lower_bound(own, begin); slot != own.end() && *slot < end; ++slot) {
      double* const sums = histogram + *slot * width;
      for (std::size_t k = 0; k < width; ++k) sums[k] += double{values[k]};
    }
  }
}

void fill(const BinnedMatrix& matrix, const Chunk& chunk, std::span<const row_t> rows, const Components& components,
          double* histogram) noexcept {
  if (matrix.is_sparse()) return add_sparse_rows(matrix, chunk, rows, components, histogram);
  const auto add = [&]<typename Bin>(Bin) {
    switch (components.width()) {
      case 2: return add_rows<Bin, 2>(matrix, chunk, rows, components, histogram);
      case 4: return add_rows<Bin, 4>(matrix, chunk, rows, components, histogram);
      case 8: return add_rows<Bin, 8>(matrix, chunk, rows, components, histogram);
      case 16: return add_rows<Bin, 16>(matrix, chunk, rows, components, histogram);
      default: return add_rows<Bin, 0>(matrix, chunk, rows, components, histogram);
    }
  };
  if (chunk.bytes_per_bin == 1)
    add(std::uint8_t{});
  else
    add(std::uint16_t{});
}

// The first n of the features in random order, ascending.
std::vector<feature_t> draw(std::vector<feature_t> features, std::size_t n, RandomStream random) {
  n = std::clamp<std::size_t>(n, 1, features.size());
  for (std::size_t i = 0; i < n; ++i) std::swap(features[i], features[i + random.below(features.size() - i)]);
  features.resize(n);
  std::ranges::sort(features);
  return features;
}

}  // namespace

// One tree while it grows.
class ComponentTreeGrower::Growth {
 public:
  Growth(ComponentTreeGrower& grower, const Components& components, const ComponentTreeParams& params,
         std::uint64_t number, ThreadPool& pool)
      : grower_(grower), matrix_(grower.matrix_), components_(components), params_(params), number_(number), pool_(pool) {
    features_.resize(matrix_.n_features());
    std::iota(features_.begin(), features_.end(), feature_t{0});
    if (params.colsample < 1.0)
      features_ = draw(std::move(features_), static_cast<std::size_t>(params.colsample * matrix_.n_features() + 0.5),
                       RandomStream(RandomStream::Purpose::features_of_tree, params.seed, number));
    chunks_ = chunks_of(matrix_, features_, pool.n_threads());
    is_part_.assign(components.width(), 0.0);
    std::fill_n(is_part_.begin(), components.n_components(), 1.0);
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
    root.histogram = take();
    std::vector<Cut> cuts(chunks_.size());
    const auto is_seen = seen_features(root);
    pool_.parallel_for(chunks_.size(), [&](std::size_t chunk) {
      clear(chunks_[chunk], root.histogram);
      fill(matrix_, chunks_[chunk], grower_.partition_.rows(0), components_, root.histogram.data());
      cuts[chunk] = best_cut(chunks_[chunk], root, root.histogram, is_seen);
    });
    keep(std::move(root), cuts);
  }

  // Nodes to divide in one step: all that wait, as far as memory goes. Their order changes the numbers of the nodes only.
  std::vector<Node> next() {
    std::size_t n = 1;
    if (params_.max_leaf_nodes == 0) {
      n = std::clamp<std::size_t>(kBytesOfStep / (buffer_size() * sizeof(double)), 1, open_.size());
    } else {
      const auto best = std::ranges::max_element(open_, [](const Node& a, const Node& b) {
        return a.cut.gain != b.cut.gain ? a.cut.gain < b.cut.gain : a.number > b.number;
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
    std::vector<Cut> cuts(2 * open.size() * chunks_.size());
    pool_.parallel_for(open.size() * chunks_.size(), [&](std::size_t task) {
      const std::size_t i = task / chunks_.size(), at = task % chunks_.size();
      const Chunk& chunk = chunks_[at];
      Pair& pair = *open[i];
      Node& small = is_left_small(pair) ? pair.left : pair.right;
      Node& large = is_left_small(pair) ? pair.right : pair.left;
      clear(chunk, small.histogram);
      fill(matrix_, chunk, grower_.partition_.rows(small.number), components_, small.histogram.data());
      if (is_left_small(pair) ? pair.is_right_open : pair.is_left_open) subtract(chunk, small.histogram, large.histogram);
      if (pair.is_left_open)
        cuts[2 * i * chunks_.size() + at] = best_cut(chunk, pair.left, pair.left.histogram, seen[2 * i]);
      if (pair.is_right_open)
        cuts[(2 * i + 1) * chunks_.size() + at] = best_cut(chunk, pair.right, pair.right.histogram, seen[2 * i + 1]);
    });
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto of_node = [&](std::size_t node) {
        return std::span<const Cut>(cuts).subspan(node * chunks_.size(), chunks_.size());
      };
      keep(std::move(open[i]->left), of_node(2 * i));
      keep(std::move(open[i]->right), of_node(2 * i + 1));
    }
  }

  RowPartition::NodeSplit split_of(const Node& node) {
    const Cut& cut = node.cut;
    const bin_t n_bins = matrix_.cuts().n_bins(cut.feature);
    const auto left = tree_.n_nodes();
    RowPartition::NodeSplit split{node.number, left, left + 1, cut.feature, std::vector<std::uint8_t>(n_bins + 1, 0)};
    std::fill_n(split.goes_left.begin(), cut.bin + 1, std::uint8_t{1});
    split.goes_left[n_bins] = cut.is_missing_left;
    auto& own = tree_.nodes[static_cast<std::size_t>(node.number)];
    own.threshold = matrix_.cuts().value(cut.feature, cut.bin);
    own.feature = cut.feature & kTaskFeature;
    own.default_left = cut.is_missing_left;
    own.left = left;
    gains_[static_cast<std::size_t>(node.number)] = cut.gain;
    tree_.nodes.resize(tree_.nodes.size() + 2);
    gains_.resize(tree_.nodes.size(), 0.0);
    return split;
  }

  Pair children_of(Node node) {
    const std::size_t width = components_.width();
    const Cut& cut = node.cut;
    const double* const slots = node.histogram.data() + matrix_.slot_offset(cut.feature) * width;
    std::vector<double> left(width, 0.0), right = node.sums;
    const auto add_bins = [&](bin_t begin, bin_t end, double sign) {
      for (bin_t bin = begin; bin < end; ++bin)
        for (std::size_t k = 0; k < width; ++k) left[k] += sign * slots[bin * width + k];
    };
    // The sums are exact, so that missing values are what the others leave.
    if (cut.is_missing_left) {
      left = node.sums;
      add_bins(cut.bin + 1, matrix_.cuts().n_bins(cut.feature), -1.0);
    } else {
      add_bins(0, cut.bin + 1, 1.0);
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

  void keep(Node node, std::span<const Cut> cuts_of_chunks) {
    for (const Cut& cut : cuts_of_chunks)
      if (cut.gain > node.cut.gain) node.cut = cut;
    if (node.cut.gain > 0.0)
      open_.push_back(std::move(node));
    else
      give_back(std::move(node.histogram));
  }

  // One flag a feature; empty: all of the tree's.
  std::vector<std::uint8_t> seen_features(const Node& node) const {
    if (params_.max_features >= features_.size()) return {};
    std::vector<std::uint8_t> is_seen(matrix_.n_features(), 0);
    const RandomStream random(RandomStream::Purpose::features_of_node, params_.seed, number_, node.path);
    for (const feature_t feature : draw(features_, params_.max_features, random)) is_seen[feature] = 1;
    return is_seen;
  }

  Cut best_cut(const Chunk& chunk, const Node& node, const std::vector<double>& histogram,
               const std::vector<std::uint8_t>& is_seen) const {
    Cut best;
    best.gain = components_.noise(node.sums[components_.count_at()], node.sums[components_.weight_at()]);
    const double noise = best.gain;
    std::vector<double> scratch(3 * components_.width());
    for (const feature_t feature : chunk.features) {
      if (!is_seen.empty() && is_seen[feature] == 0) continue;
      switch (components_.width()) {
        case 2: scan<2>(feature, node, histogram, scratch, best); break;
        case 4: scan<4>(feature, node, histogram, scratch, best); break;
        case 8: scan<8>(feature, node, histogram, scratch, best); break;
        default: scan<0>(feature, node, histogram, scratch, best);
      }
    }
    return best.gain > noise ? best : Cut{};
  }

  template <std::size_t Width>
  void scan(feature_t feature, const Node& node, const std::vector<double>& histogram, std::vector<double>& scratch,
            Cut& best) const noexcept {
    const std::size_t width = Width > 0 ? Width : components_.width();
    const std::size_t count_at = components_.count_at(), weight_at = components_.weight_at();
    const double* const sums = node.sums.data();
    const double* const slots = histogram.data() + matrix_.slot_offset(feature) * width;
    const bin_t n_bins = matrix_.cuts().n_bins(feature);
    double* const left = scratch.data();
    double* const with_missing = left + width;
    double* const missing = with_missing + width;

    std::copy_n(sums, width, missing);
    if (matrix_.may_be_missing(feature))
      for (bin_t bin = 0; bin < n_bins; ++bin)
        for (std::size_t k = 0; k < width; ++k) missing[k] -= slots[bin * width + k];
    else
      std::fill_n(missing, width, 0.0);
    const bool has_missing = missing[count_at] > 0.0;

    const double* const is_part = is_part_.data();
    const double least = params_.min_samples_leaf;
    const auto gain_of = [&](const double* own) -> double {
      if (own[count_at] < least || sums[count_at] - own[count_at] < least) return 0.0;
      const double weight = own[weight_at], other = sums[weight_at] - weight;
      const double inverse = 1.0 / weight, inverse_of_other = 1.0 / other;
      double squares[2] = {0.0, 0.0};  // of differences of means, even and odd components
      for (std::size_t k = 0; k < width; k += 2)
        for (std::size_t lane = 0; lane < 2; ++lane) {
          const std::size_t at = k + lane;
          const double difference = (own[at] * inverse - (sums[at] - own[at]) * inverse_of_other) * is_part[at];
          squares[lane] += difference * difference;
        }
      return weight * other / sums[weight_at] * (squares[0] + squares[1]);
    };
    std::fill_n(left, width, 0.0);
    for (bin_t bin = 0; bin < n_bins; ++bin) {
      const double* const slot = slots + bin * width;
      if (slot[count_at] == 0.0) continue;  // divides as the cut before
      for (std::size_t k = 0; k < width; ++k) left[k] += slot[k];
      const double gain = gain_of(left);
      if (gain > best.gain) best = {gain, feature, bin, false};
      if (!has_missing) continue;
      for (std::size_t k = 0; k < width; ++k) with_missing[k] = left[k] + missing[k];
      const double other_gain = gain_of(with_missing);
      if (other_gain > best.gain) best = {other_gain, feature, bin, true};
    }
  }

  DecisionTree finish() {
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
    if (free_.empty()) return std::vector<double>(buffer_size());
    auto buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void give_back(std::vector<double> buffer) {
    if (!buffer.empty()) free_.push_back(std::move(buffer));
  }
  template <typename Visit>
  void for_each_slots(const Chunk& chunk, const Visit& visit) const {
    const std::size_t width = components_.width();
    if (matrix_.is_sparse())
      return visit(matrix_.slot_offset(chunk.features.front()) * width, matrix_.slot_offset(chunk.features.back() + 1) * width);
    for (const feature_t feature : chunk.features)
      visit(matrix_.slot_offset(feature) * width, matrix_.slot_offset(feature + 1) * width);
  }
  void clear(const Chunk& chunk, std::vector<double>& histogram) const {
    for_each_slots(chunk, [&](std::size_t begin, std::size_t end) {
      std::fill_n(histogram.begin() + static_cast<std::ptrdiff_t>(begin), end - begin, 0.0);
    });
  }
  void subtract(const Chunk& chunk, const std::vector<double>& small, std::vector<double>& large) const {
    for_each_slots(chunk, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) large[i] -= small[i];
    });
  }

  ComponentTreeGrower& grower_;
  const BinnedMatrix& matrix_;
  const Components& components_;
  const ComponentTreeParams& params_;
  std::uint64_t number_;
  ThreadPool& pool_;
  std::vector<feature_t> features_;
  std::vector<Chunk> chunks_;
  std::vector<double> is_part_;  // 1 of a component, 0 of the other numbers of a row
  std::vector<Node> open_;
  std::size_t n_leaves_ = 1;
  DecisionTree tree_;
  std::vector<std::vector<double>> sums_;  // of each node
  std::vector<double> gains_;
  std::vector<std::vector<double>> free_;
};

ComponentTreeGrower::ComponentTreeGrower(const BinnedMatrix& matrix) : matrix_(matrix) {
  require(matrix.caller_rows().empty(), "rows must lie in the caller's order");
  require(!matrix.cuts().is_of_lightgbm(), "bins must be XGBoost's");
  for (feature_t feature = 0; feature < matrix.n_features(); ++feature)
    require(!matrix.cuts().is_categorical(feature),
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
