// SPDX-License-Identifier: Apache-2.0
#include "forest/tree_builder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "forest/split_targets.hpp"

namespace mtboost {

// Features --------------------------------------------------------------------------------------------------------------

NodeFeatures::NodeFeatures(feature_t n_features) : features_(n_features), place_(n_features) {
  std::iota(features_.begin(), features_.end(), feature_t{0});
  std::iota(place_.begin(), place_.end(), feature_t{0});
}

void NodeFeatures::swap(std::size_t a, std::size_t b) noexcept {
  std::swap(features_[a], features_[b]);
  place_[features_[a]] = static_cast<feature_t>(a);
  place_[features_[b]] = static_cast<feature_t>(b);
}

feature_t NodeFeatures::draw(RandomStream& random) noexcept {
  swap(n_drawn_, n_drawn_ + random.below(features_.size() - n_drawn_));
  return features_[n_drawn_++];
}

void NodeFeatures::last_is_constant() noexcept { swap(n_drawn_ - 1u, n_constant_++); }

void NodeFeatures::keep_only(std::span<const feature_t> varying) {
  std::vector<feature_t> kept(features_.begin() + n_constant_, features_.begin() + n_drawn_);
  kept.insert(kept.end(), varying.begin(), varying.end());
  const std::size_t first = features_.size() - kept.size();
  n_drawn_ = static_cast<feature_t>(first + n_usable());
  n_constant_ = static_cast<feature_t>(first);
  for (std::size_t i = 0; i < kept.size(); ++i) swap(place_[kept[i]], first + i);
}

// Values ----------------------------------------------------------------------------------------------------------------

NodeValues::NodeValues(const FeatureColumns& columns, feature_t max_features)
    : columns_(columns),
      // Otherwise most of what is copied would be asked for once or never.
      copies_(std::size_t{8} * max_features >= columns.n_features()),
      // 512 KiB of floats, a part of the cache that a core has as its own; measured: half or twice that is as fast.
      most_rows_(std::clamp<std::size_t>(131072 / std::max<std::size_t>(columns.n_features(), 1), 16, 4096)),
      copied_in_(columns.is_sparse() ? 0 : columns.n_features(), 0),
      most_marked_(std::size_t{32} * max_features),
      marks_(columns.is_sparse() ? (columns.n_features() + std::size_t{63}) / 64 : 0) {}

void NodeValues::begin_tree(std::span<const row_t> rows) {
  if (columns_.is_sparse()) {
    place_of_row_.assign(columns_.n_rows(), kNoPlace);
    for (std::size_t i = 0; i < rows.size(); ++i) place_of_row_[rows[i]] = static_cast<row_t>(i);
    return;
  }
  place_.resize(rows.size());
  place_buffer_.resize(rows.size());
  copy_begin_ = copy_end_ = 0;
}

void NodeValues::enter(std::span<const row_t> rows, std::size_t begin) {
  rows_ = rows;
  begin_ = begin;
  if (columns_.is_sparse()) {
    // Marking the values of a node costs less than the draws that it spares, if they are few.
    has_marks_ = false;
    std::size_t n_values = 0;
    for (std::size_t i = 0; i < rows.size() && n_values <= most_marked_; ++i)
      n_values += columns_.features_of_row(rows[i]).size();
    if (n_values <= most_marked_) mark();
    return;
  }
  const bool is_in_copy = begin >= copy_begin_ && begin + rows.size() <= copy_end_;
  if (is_in_copy || !copies_ || rows.size() > most_rows_) return;
  copied_rows_.assign(rows.begin(), rows.end());
  std::iota(place_.begin() + begin, place_.begin() + begin + rows.size(), std::uint32_t{0});
  copy_begin_ = begin;
  copy_end_ = begin + rows.size();
  copy_.resize(std::max(copy_.size(), std::size_t{columns_.n_features()} * rows.size()));
  ++n_copies_;
}

std::span<float> NodeValues::of_feature(feature_t feature) {
  values_.resize(rows_.size());
  if (columns_.is_sparse()) {
    std::ranges::fill(values_, 0.0f);
    for (const StoredValue& own : stored(feature)) values_[own.i] = own.value;
    return values_;
  }
  if (begin_ >= copy_end_ || begin_ < copy_begin_) {
    columns_.read(feature, rows_, values_.data());
    return values_;
  }
  float* copy = copy_.data() + feature * copied_rows_.size();
  if (copied_in_[feature] != n_copies_) {
    columns_.read(feature, copied_rows_, copy);
    copied_in_[feature] = n_copies_;
  }
  for (std::size_t i = 0; i < rows_.size(); ++i) values_[i] = copy[place_[begin_ + i]];
  return values_;
}

// A hybrid of two ways (joly2016, section 28): the place of each stored row is looked up, unless searching the node's few
// rows among the stored ones costs less.
std::span<const StoredValue> NodeValues::stored(feature_t feature) {
  using Stored = FeatureColumns::Stored;
  const auto column = columns_.stored(feature);
  const std::size_t n = rows_.size();
  if (stored_.size() < column.size()) stored_.resize(column.size());
  std::size_t n_stored = 0;
  if (n * static_cast<std::size_t>(std::bit_width(column.size())) < column.size()) {
    auto from = column.begin();
    for (std::size_t i = 0; i < n && from != column.end(); ++i) {
      from = std::ranges::lower_bound(from, column.end(), rows_[i], {}, &Stored::row);
      if (from != column.end() && from->row == rows_[i]) stored_[n_stored++] = {from->value, static_cast<row_t>(i)};
    }
  } else {
    for (const auto& [row, value] : column) {
      // Rows before the node's wrap around. Written in any case, kept if it is in the node: no jump.
      const std::size_t i = place_of_row_[row] - begin_;
      stored_[n_stored] = {value, static_cast<row_t>(i)};
      n_stored += i < n;
    }
  }
  return std::span(stored_).first(n_stored);
}

void NodeValues::mark() {
  std::ranges::fill(marks_, std::uint64_t{0});
  for (const row_t row : rows_)
    for (const feature_t feature : columns_.features_of_row(row))
      marks_[feature / 64] |= std::uint64_t{1} << feature % 64;
  has_marks_ = true;
}

std::span<const feature_t> NodeValues::varying(const NodeFeatures& features) {
  varying_.clear();
  const auto varies = [&](feature_t feature) {
    return !range_of(of_feature(feature), columns_.has_missing(feature)).is_constant(rows_.size());
  };
  if (!columns_.is_sparse()) {
    for (const feature_t feature : features.not_drawn())
      if (varies(feature)) varying_.push_back(feature);
    std::ranges::sort(varying_);
    return varying_;
  }
  if (!has_marks_) mark();
  // What is 0 in the first row varies where it is marked, for some other row has a value.
  const auto in_first_row = columns_.features_of_row(rows_.front());
  auto next = in_first_row.begin();
  for (std::size_t word = 0; word < marks_.size(); ++word)
    for (std::uint64_t left = marks_[word]; left != 0; left &= left - 1) {
      const auto feature = static_cast<feature_t>(word * 64 + static_cast<std::size_t>(std::countr_zero(left)));
      while (next != in_first_row.end() && *next < feature) ++next;
      const bool is_in_first_row = next != in_first_row.end() && *next == feature;
      if (!features.is_drawn(feature) && (!is_in_first_row || varies(feature))) varying_.push_back(feature);
    }
  return varying_;
}

void NodeValues::permute(std::span<const row_t> from) {
  if (columns_.is_sparse()) {
    for (std::size_t i = 0; i < rows_.size(); ++i) place_of_row_[rows_[i]] = static_cast<row_t>(begin_ + i);
    return;
  }
  if (begin_ >= copy_end_ || begin_ < copy_begin_) return;
  for (std::size_t i = 0; i < from.size(); ++i) place_buffer_[i] = place_[begin_ + from[i]];
  std::copy_n(place_buffer_.begin(), from.size(), place_.begin() + begin_);
}

// The tree --------------------------------------------------------------------------------------------------------------

template <typename Target>
TreeBuilder<Target>::TreeBuilder(const FeatureColumns& columns, std::span<const task_t> tasks, task_t n_tasks,
                                 const ForestParams& params)
    : columns_(columns),
      params_(params),
      features_(columns.n_features()),
      values_(columns, params.max_features),
      task_feature_(tasks, n_tasks, params.alpha),
      search_(params.min_samples_leaf),
      has_tasks_(!tasks.empty() && params.task_split_prob > 0.0) {}

template <typename Target>
Structure TreeBuilder<Target>::build(std::vector<row_t> rows, Target target, std::uint64_t tree_number) {
  features_ = NodeFeatures(columns_.n_features());
  values_.begin_tree(rows);
  from_.resize(rows.size());
  from_right_.resize(rows.size());
  rows_buffer_.resize(rows.size());
  Structure grown;
  grown.rows = std::move(rows);
  DecisionTree& tree = grown.tree;
  const auto add_nodes = [&](std::size_t n) {
    tree.nodes.resize(tree.nodes.size() + n);
    tree.impurity.resize(tree.nodes.size());
    tree.weight.resize(tree.nodes.size());
  };
  add_nodes(1);
  std::vector<Node> waiting{{0, 0, grown.rows.size(), 0, 0}};
  while (!waiting.empty()) {
    const Node node = waiting.back();
    waiting.pop_back();
    const auto at = static_cast<std::size_t>(node.number);
    const auto own_rows = std::span<const row_t>(grown.rows).subspan(node.begin, node.end - node.begin);
    target.enter(own_rows);
    tree.impurity[at] = target.is_pure() ? 0.0 : target.impurity();
    tree.weight[at] = static_cast<float>(target.weight());
    Found found;
    if (own_rows.size() >= params_.min_samples_split && node.depth < params_.max_depth && !target.is_pure()) {
      features_.enter(node.n_constant);
      values_.enter(own_rows, node.begin);
      found = find_split(
          own_rows, target,
          {RandomStream::Purpose::splits_of_node, params_.seed, tree_number, static_cast<std::uint64_t>(at)});
    }
    if (!found.split.is_found()) {
      tree.nodes[at].feature = static_cast<std::uint32_t>(grown.leaf_starts.size() - 1) & kTaskFeature;
      grown.leaf_starts.push_back(static_cast<std::uint32_t>(node.end));
      continue;
    }
    const std::size_t middle = divide(grown, node, found);
    const node_t left = tree.n_nodes();
    tree.nodes[at].left = left;
    add_nodes(2);
    waiting.push_back({left + 1, middle, node.end, node.depth + 1, features_.n_constant()});
    waiting.push_back({left, node.begin, middle, node.depth + 1, features_.n_constant()});
  }
  return grown;
}

template <typename Target>
typename TreeBuilder<Target>::Found TreeBuilder<Target>::find_split(std::span<const row_t> rows, Target& target,
                                                                    RandomStream random) {
  // After this many draws in vain all remaining features are checked at once: children inherit what is found.
  const std::size_t most_in_vain = std::size_t{2} * params_.max_features + 64;
  const std::size_t numbers_a_feature = params_.splitter == Splitter::random ? 2 : 1;  // with that of its threshold
  bool has_listed = false;
  Found best;
  const bool tries_tasks = has_tasks_ && random.uniform() < params_.task_split_prob;
  while (!features_.is_exhausted() && features_.n_usable() < params_.max_features) {
    if (!has_listed && features_.n_found_constant() >= most_in_vain) {
      features_.keep_only(values_.varying(features_));
      has_listed = true;
      if (features_.is_exhausted()) break;
    }
    const feature_t feature = features_.draw(random);
    values_.prefetch(features_, random, numbers_a_feature);
    bool is_constant = false;
    const FeatureSplit split = split_of(feature, rows.size(), target, random, is_constant);
    if (is_constant) {
      features_.last_is_constant();
      continue;
    }
    if (split.gain > best.split.gain) best = {split, feature};
    if (rows.size() == 2 && split.is_found()) return best;  // the others divide the two rows in the same way
  }
  if (!tries_tasks) return best;
  const auto phi = task_feature_.values(rows, target, random.below(target.n_choices()));
  task_values_.assign(phi.begin(), phi.end());
  const ValueRange range = range_of(task_values_, false);
  if (range.is_constant(rows.size())) return best;
  const FeatureSplit split = split_of(task_values_, range, target, random);
  if (split.gain > best.split.gain) best = {split, kTaskFeature};
  return best;
}

template <typename Target>
FeatureSplit TreeBuilder<Target>::split_of(feature_t feature, std::size_t n_rows, Target& target, RandomStream& random,
                                           bool& is_constant) {
  is_constant = values_.is_surely_zero(feature);
  if (is_constant) return {};
  if (columns_.is_sparse() && !columns_.has_missing(feature)) {
    const auto stored = values_.stored(feature);
    const ValueRange range = range_of(stored, n_rows);
    is_constant = range.is_constant(n_rows);
    if (is_constant) return {};
    return params_.splitter == Splitter::random ? search_.random_split(stored, n_rows, range, target, random)
                                                : search_.best_split(stored, n_rows, target);
  }
  const std::span<float> values = values_.of_feature(feature);
  const ValueRange range = range_of(values, columns_.has_missing(feature));
  is_constant = range.is_constant(n_rows);
  return is_constant ? FeatureSplit{} : split_of(values, range, target, random);
}

template <typename Target>
FeatureSplit TreeBuilder<Target>::split_of(std::span<float> values, const ValueRange& range, Target& target,
                                           RandomStream& random) {
  return params_.splitter == Splitter::random ? search_.random_split(values, range, target, random)
                                              : search_.best_split(values, range, target);
}

// Rows that go left come first; on each side they still ascend. Returns where the right side begins.
template <typename Target>
std::size_t TreeBuilder<Target>::divide(Structure& grown, const Node& node, const Found& found) {
  const auto rows = std::span(grown.rows).subspan(node.begin, node.end - node.begin);
  const FeatureSplit& split = found.split;
  DecisionNode& own = grown.tree.nodes[static_cast<std::size_t>(node.number)];
  own.feature = found.feature & kTaskFeature;
  own.threshold = split.threshold;
  const std::span<const float> values =
      found.feature == kTaskFeature ? task_values_ : values_.of_feature(found.feature);
  std::size_t n_left = 0, n_right = 0, n_missing = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool is_missing = std::isnan(values[i]);
    const bool is_left = is_missing ? split.missing_left : values[i] < split.threshold;
    n_missing += is_missing;
    // Written to both lists, kept in one: no jump.
    from_[n_left] = from_right_[n_right] = static_cast<row_t>(i);
    n_left += is_left;
    n_right += !is_left;
  }
  std::copy_n(from_right_.begin(), n_right, from_.begin() + static_cast<std::ptrdiff_t>(n_left));
  for (std::size_t i = 0; i < rows.size(); ++i) rows_buffer_[i] = rows[from_[i]];
  std::copy_n(rows_buffer_.begin(), rows.size(), rows.begin());
  values_.permute(std::span(from_).first(rows.size()));
  // Where none is missing in training, a missing value goes with most rows.
  own.default_left = n_missing > 0 ? split.missing_left : 2 * n_left > rows.size();
  if (found.feature == kTaskFeature) list_tasks(grown.tree, own, split.threshold);
  return node.begin + n_left;
}

template <typename Target>
void TreeBuilder<Target>::list_tasks(DecisionTree& tree, DecisionNode& node, float threshold) const {
  node.default_left = task_feature_.prior_goes_left(threshold);
  const auto begin = static_cast<std::ptrdiff_t>(tree.listed_tasks.size());
  for (const task_t task : task_feature_.present())
    if ((task_feature_.phi(task) < threshold) != static_cast<bool>(node.default_left))
      tree.listed_tasks.push_back(task);
  std::sort(tree.listed_tasks.begin() + begin, tree.listed_tasks.end());
  node.threshold = std::bit_cast<float>(static_cast<std::uint32_t>(tree.task_list_starts.size() - 1));
  tree.task_list_starts.push_back(static_cast<std::uint32_t>(tree.listed_tasks.size()));
}

template class TreeBuilder<ScalarTarget>;
template class TreeBuilder<VectorTarget>;
template class TreeBuilder<LabelTarget>;

}  // namespace mtboost
