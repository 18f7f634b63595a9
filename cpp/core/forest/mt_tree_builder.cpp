// SPDX-License-Identifier: Apache-2.0
#include "forest/mt_tree_builder.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

// With fewer values in a node threads cost more than they save.
constexpr std::size_t kSerialValues = 1 << 15;

std::vector<task_t> tasks_of_classes(std::span<const std::uint32_t> class_starts) {
  std::vector<task_t> tasks(class_starts.back());
  for (task_t task = 0; task + 1 < class_starts.size(); ++task)
    std::fill(tasks.begin() + class_starts[task], tasks.begin() + class_starts[task + 1], task);
  return tasks;
}

struct BestSplit {
  TaskGain gain;
  feature_t feature = 0;
  bool missing_left = false;
  float threshold = 0.0f;

  bool is_found() const noexcept { return gain.gain >= 0.0f; }
  // Of equal splits the lowest feature, missing values on the right, the lowest threshold: the order in which splits are
  // tried does not matter.
  bool is_better_than(const BestSplit& other) const noexcept {
    if (gain != other.gain) return gain > other.gain;
    return std::tuple(feature, missing_left, threshold) <
           std::tuple(other.feature, other.missing_left, other.threshold);
  }
};

// Between two values, of which infinity stands for none: above `below` and at most `above`, however it is rounded.
float threshold_between(float below, float above) noexcept {
  const auto middle = static_cast<float>((static_cast<double>(below) + static_cast<double>(above)) / 2.0);
  return middle > below ? middle : above;
}

// A feature's values in a node, without zeros: n of those of the tree, side by side in the feature's order.
struct NodeColumn {
  feature_t feature;
  row_t n;
  std::size_t begin;
};
// Ascending by feature; those that are constant in the node are left out.
using NodeColumns = std::vector<NodeColumn>;

std::size_t n_values(std::span<const NodeColumn> columns) noexcept {
  std::size_t sum = 0;
  for (const NodeColumn& column : columns) sum += column.n;
  return sum;
}

// What becomes of the rows of a task in a node.
struct TaskRows {
  bool stay = false;
  std::size_t n_left = 0, n_right = 0;
};

// A decision as it is found; those of a node are brought together in the end.
struct Decision {
  node_t node;
  task_t task;
  float weight;
  std::vector<std::pair<std::uint32_t, double>> shares;  // of the classes that are present
};

class Builder {
 public:
  Builder(const SortedColumns& columns, const TaskLabels& labels, const MTTreeParams& params, std::uint64_t tree,
          ThreadPool& pool);
  MTDecisionTree build(const std::function<void()>& check_interrupt);

 private:
  struct Node {
    node_t number;
    std::size_t begin, end;
    std::uint32_t depth;
    NodeColumns columns;

    std::size_t n_rows() const noexcept { return end - begin; }
  };
  struct Sides {
    NodeColumns first, last;
  };

  void take_rows();
  Node root();
  void decide_tasks_without_rows();
  void add_nodes(std::size_t n);
  void decide(node_t node, const ClassTotals::Task& task, bool has_rows);
  bool is_decided(const ClassTotals::Task& task) const noexcept;
  void decide_pure_tasks(Node& node);
  BestSplit find_split(const Node& node);
  std::span<const NodeColumn> draw_columns(const Node& node);
  void scan(const NodeColumn& column, std::size_t n_rows, bool missing_left, InformationGain& gain, BestSplit& best);
  void divide(const Node& node, const BestSplit& split, std::vector<Node>& waiting /* IN-OUT */);
  Sides partition(const Node& node, std::size_t n_first);
  bool is_constant(const NodeColumn& column, std::size_t n_rows) const noexcept;
  void gather_decisions();

  std::span<const row_t> rows_of(const Node& node) const noexcept {
    return std::span(node_rows_).subspan(node.begin, node.n_rows());
  }
  std::span<const SortedValue> values_of(const NodeColumn& column) const noexcept {
    return std::span(values_).subspan(column.begin, column.n);
  }
  std::size_t n_blocks(std::span<const NodeColumn> columns) const noexcept {
    if (n_values(columns) < kSerialValues) return 1;
    return std::min<std::size_t>(columns.size(), static_cast<std::size_t>(pool_.n_threads()));
  }

  const SortedColumns& columns_;
  const TaskLabels& labels_;
  const MTTreeParams& params_;
  std::uint64_t tree_number_;
  ThreadPool& pool_;
  std::vector<task_t> task_of_class_;
  std::vector<LabelledRow> rows_;         // all of the table
  std::vector<row_t> node_rows_;          // of the tree; those of a node lie side by side and ascend
  std::vector<SortedValue> values_;       // of all columns, each where it begins in the table's
  NodeColumns drawn_;                     // of the node at hand
  std::vector<std::uint8_t> goes_first_;  // of each row, in a partition
  std::vector<row_t> n_first_;            // of each column of the node at hand, in a partition
  ClassTotals totals_;
  std::vector<InformationGain> gains_;             // one a block of features
  std::vector<std::vector<SortedValue>> buffers_;  // likewise
  std::vector<row_t> row_buffer_;
  std::vector<TaskRows> task_rows_;  // of the tasks in the node at hand
  std::vector<Decision> decisions_;
  MTDecisionTree grown_;
};

Builder::Builder(const SortedColumns& columns, const TaskLabels& labels, const MTTreeParams& params, std::uint64_t tree,
                 ThreadPool& pool)
    : columns_(columns),
      labels_(labels),
      params_(params),
      tree_number_(tree),
      pool_(pool),
      task_of_class_(tasks_of_classes(labels.class_starts)),
      goes_first_(columns.n_rows()),
      totals_(labels.class_starts.back()),
      buffers_(static_cast<std::size_t>(pool.n_threads())) {
  grown_.n_features = columns.n_features();
  grown_.class_starts.assign(labels.class_starts.begin(), labels.class_starts.end());
  for (int block = 0; block < pool.n_threads(); ++block)
    gains_.emplace_back(params.criterion, task_of_class_, grown_.n_tasks());
  task_rows_.resize(grown_.n_tasks());
  take_rows();
}

void Builder::take_rows() {
  for (row_t row = 0; row < columns_.n_rows(); ++row) {
    const double weight = labels_.weights.empty() ? 1.0 : labels_.weights[row];
    rows_.push_back({weight, labels_.labels[row], task_of_class_[labels_.labels[row]]});
    if (weight > 0.0) node_rows_.push_back(row);
  }
  require(!node_rows_.empty(), "no row has a weight above 0");
  row_buffer_.resize(node_rows_.size());
  for (auto& buffer : buffers_) buffer.resize(node_rows_.size());
}

Builder::Node Builder::root() {
  values_.resize(columns_.n_values());
  NodeColumns columns(columns_.n_features());
  pool_.parallel_for(columns_.n_features(), [&](std::size_t at) {
    const auto feature = static_cast<feature_t>(at);
    const auto to = values_.begin() + static_cast<std::ptrdiff_t>(columns_.start(feature));
    const auto end = std::ranges::copy_if(columns_.column(feature), to, [&](const SortedValue& own) {
                       return rows_[own.row].weight > 0.0;
                     }).out;
    columns[at] = {feature, static_cast<row_t>(end - to), columns_.start(feature)};
  });
  std::erase_if(columns, [&](const NodeColumn& own) { return is_constant(own, node_rows_.size()); });
  return {0, 0, node_rows_.size(), 0, std::move(columns)};
}

// The tree --------------------------------------------------------------------------------------------------------------

MTDecisionTree Builder::build(const std::function<void()>& check_interrupt) {
  DecisionTree& tree = grown_.tree;
  add_nodes(1);
  decide_tasks_without_rows();
  std::vector<Node> waiting;
  waiting.push_back(root());
  while (!waiting.empty()) {
    Node node = std::move(waiting.back());
    waiting.pop_back();
    const auto at = static_cast<std::size_t>(node.number);
    if (n_values(node.columns) >= kSerialValues) check_interrupt();
    totals_.enter(rows_of(node), rows_, task_of_class_);
    tree.weight[at] = static_cast<float>(totals_.weight());
    tree.impurity[at] = totals_.bits() / totals_.weight();
    decide_pure_tasks(node);
    BestSplit split;
    if (node.n_rows() >= params_.min_samples_split && node.depth < params_.max_depth) split = find_split(node);
    if (!split.is_found()) {
      if (node.begin < node.end)
        for (const ClassTotals::Task& task : totals_.tasks()) decide(node.number, task, true);
      continue;
    }
    tree.nodes[at].left = tree.n_nodes();
    add_nodes(2);
    divide(node, split, waiting);
  }
  gather_decisions();
  return std::move(grown_);
}

void Builder::add_nodes(std::size_t n) {
  DecisionTree& tree = grown_.tree;
  tree.nodes.resize(tree.nodes.size() + n);
  tree.impurity.resize(tree.nodes.size());
  tree.weight.resize(tree.nodes.size());
  grown_.gains.resize(tree.nodes.size());
}

// Decisions -------------------------------------------------------------------------------------------------------------

void Builder::decide(node_t node, const ClassTotals::Task& task, bool has_rows) {
  Decision decision{node, task.task, has_rows ? static_cast<float>(task.weight) : 0.0f, {}};
  for (const std::uint32_t label : totals_.classes(task))
    decision.shares.emplace_back(label, totals_.weight(label) / task.weight);
  decisions_.push_back(std::move(decision));
}

void Builder::decide_tasks_without_rows() {
  std::vector<std::uint8_t> has_rows(grown_.n_tasks(), 0);
  for (const row_t row : node_rows_) has_rows[rows_[row].task] = 1;
  std::vector<LabelledRow> counted;
  for (const LabelledRow& row : rows_)
    if (!has_rows[row.task]) counted.push_back({1.0, row.label, row.task});
  std::vector<row_t> numbers(counted.size());
  std::iota(numbers.begin(), numbers.end(), row_t{0});
  totals_.enter(numbers, counted, task_of_class_);
  for (const ClassTotals::Task& task : totals_.tasks()) decide(0, task, false);
}

bool Builder::is_decided(const ClassTotals::Task& task) const noexcept {
  if (task.end - task.begin == 1) return true;
  if (params_.purity >= 1.0) return false;
  double most = 0.0;
  for (const std::uint32_t label : totals_.classes(task)) most = std::max(most, totals_.weight(label));
  return most >= params_.purity * task.weight;
}

// Leaves to the node the rows of the other tasks.
void Builder::decide_pure_tasks(Node& node) {
  std::size_t n_decided = 0;
  for (const ClassTotals::Task& task : totals_.tasks()) {
    const bool ends = is_decided(task);
    if (ends) decide(node.number, task, true);
    n_decided += ends;
    task_rows_[task.task].stay = !ends;
  }
  if (n_decided == 0) return;
  std::size_t n_staying = 0;
  for (const row_t row : rows_of(node)) n_staying += goes_first_[row] = task_rows_[rows_[row].task].stay;
  if (n_staying > 0) {
    node.columns = partition(node, n_staying).first;
    totals_.enter(rows_of(node).first(n_staying), rows_, task_of_class_);
  }
  node.end = node.begin + n_staying;
}

// Brings the decisions of each node together, by task.
void Builder::gather_decisions() {
  std::ranges::sort(decisions_, {}, [](const Decision& own) { return std::tuple(own.node, own.task); });
  DecisionTree& tree = grown_.tree;
  LeafOutputs& shares = tree.leaves;
  shares.n_outputs = grown_.n_classes();
  shares.is_sparse = true;
  shares.starts = {0};
  grown_.decision_starts.assign(tree.nodes.size() + 1, 0);
  for (const Decision& decision : decisions_) {
    grown_.decided_tasks.push_back(decision.task);
    grown_.decided_weights.push_back(decision.weight);
    const auto most = std::ranges::max_element(decision.shares, {}, [](const auto& share) { return share.second; });
    grown_.decided_classes.push_back(most->first);
    for (const auto& [label, share] : decision.shares) {
      shares.outputs.push_back(label);
      shares.values.push_back(share);
    }
    shares.starts.push_back(shares.values.size());
    ++grown_.decision_starts[static_cast<std::size_t>(decision.node) + 1];
  }
  std::partial_sum(grown_.decision_starts.begin(), grown_.decision_starts.end(), grown_.decision_starts.begin());
  // What a leaf of a DecisionTree says is one vector: here that of its first decision.
  for (std::size_t at = 0; at < tree.nodes.size(); ++at)
    if (tree.nodes[at].is_leaf()) tree.nodes[at].feature = grown_.decision_starts[at] & kTaskFeature;
}

// Splits ------------------------------------------------------------------------------------------------------------------

bool Builder::is_constant(const NodeColumn& column, std::size_t n_rows) const noexcept {
  if (column.n == 0) return true;
  const auto values = values_of(column);
  const bool has_zeros = column.n < n_rows;
  return !has_zeros && (values.front().is_missing() || values.front().value == values.back().value);
}

std::span<const NodeColumn> Builder::draw_columns(const Node& node) {
  if (node.columns.size() <= params_.max_features) return node.columns;
  drawn_ = node.columns;
  RandomStream random(RandomStream::Purpose::features_of_node, params_.seed, tree_number_,
                      static_cast<std::uint64_t>(node.number));
  for (feature_t i = 0; i < params_.max_features; ++i)
    std::swap(drawn_[i], drawn_[i + random.below(drawn_.size() - i)]);
  return std::span(drawn_).first(params_.max_features);
}

BestSplit Builder::find_split(const Node& node) {
  const auto columns = draw_columns(node);
  if (columns.empty()) return {};
  const std::size_t n = n_blocks(columns);
  std::vector<BestSplit> best(n);
  pool_.parallel_for(n, [&](std::size_t block) {
    gains_[block].enter(totals_);
    for (std::size_t i = block; i < columns.size(); i += n) {
      scan(columns[i], node.n_rows(), false, gains_[block], best[block]);
      if (values_of(columns[i]).back().is_missing()) scan(columns[i], node.n_rows(), true, gains_[block], best[block]);
    }
  });
  return *std::ranges::max_element(best, [](const BestSplit& a, const BestSplit& b) { return b.is_better_than(a); });
}

// Values below 0 from the least up, which moves rows to the left; then those above 0 from the most down, which moves
// rows to the right. Zeros stay where they are and cost nothing. (joly2016, section 8.1)
void Builder::scan(const NodeColumn& column, std::size_t n_rows, bool missing_left, InformationGain& gain,
                   BestSplit& best) {
  constexpr float kNone = std::numeric_limits<float>::infinity();
  const auto values = values_of(column);
  const auto missing = std::ranges::partition_point(values, [](const SortedValue& own) { return !own.is_missing(); });
  const auto above_zero =
      std::partition_point(values.begin(), missing, [](const SortedValue& own) { return own.value < 0.0f; });
  const bool has_zeros = values.size() < n_rows;
  std::size_t n_moved = 0;
  const auto begin_scan = [&](bool moves_missing) {
    gain.begin_scan();
    n_moved = 0;
    if (!moves_missing) return;
    for (auto own = missing; own != values.end(); ++own, ++n_moved) gain.move(rows_[own->row]);
  };
  const auto try_split = [&](float below, float above) {
    const std::size_t n_fewer = std::min(n_moved, n_rows - n_moved);
    if (below == above || n_fewer == 0 || n_fewer < params_.min_samples_leaf) return;
    const BestSplit split{gain.gain_of_scan(), column.feature, missing_left, threshold_between(below, above)};
    if (split.is_better_than(best)) best = split;
  };

  begin_scan(missing_left);
  float below = -kNone;
  for (auto own = values.begin(); own != above_zero; ++own) {
    try_split(below, own->value);
    gain.move(rows_[own->row]);
    ++n_moved;
    below = own->value;
  }
  try_split(below, has_zeros ? 0.0f : above_zero == missing ? kNone : above_zero->value);

  begin_scan(!missing_left);
  float above = kNone;
  for (auto own = missing; own != above_zero; --own) {
    const SortedValue& next = *(own - 1);
    try_split(next.value, above);
    gain.move(rows_[next.row]);
    ++n_moved;
    above = next.value;
  }
  if (has_zeros) try_split(0.0f, above);
}

// Rows ------------------------------------------------------------------------------------------------------------------

void Builder::divide(const Node& node, const BestSplit& split, std::vector<Node>& waiting) {
  const auto at = static_cast<std::size_t>(node.number);
  const auto column = std::ranges::lower_bound(node.columns, split.feature, {}, &NodeColumn::feature);
  const auto values = values_of(*column);
  for (const row_t row : rows_of(node)) goes_first_[row] = 0.0f < split.threshold;
  for (const SortedValue& own : values)
    goes_first_[own.row] = own.is_missing() ? split.missing_left : own.value < split.threshold;

  InformationGain& gain = gains_.front();
  gain.enter(totals_);
  gain.begin_scan();
  for (const ClassTotals::Task& task : totals_.tasks()) task_rows_[task.task] = {};
  std::size_t n_left = 0;
  for (const row_t row : rows_of(node)) {
    const bool is_left = goes_first_[row] != 0;
    TaskRows& task_rows = task_rows_[rows_[row].task];
    ++(is_left ? task_rows.n_left : task_rows.n_right);
    if (is_left) gain.move(rows_[row]);
    n_left += is_left;
  }
  gain.gain_of_scan();
  grown_.gains[at] = static_cast<float>(std::max(0.0, gain.information()));

  DecisionNode& own = grown_.tree.nodes[at];
  own.feature = split.feature & kTaskFeature;
  own.threshold = split.threshold;
  // Where none is missing in training, a missing value goes with most rows.
  own.default_left = values.back().is_missing() ? split.missing_left : 2 * n_left > node.n_rows();

  for (const ClassTotals::Task& task : totals_.tasks()) {
    if (task_rows_[task.task].n_left == 0) decide(own.left, task, false);
    if (task_rows_[task.task].n_right == 0) decide(own.left + 1, task, false);
  }
  Sides sides = partition(node, n_left);
  const std::size_t middle = node.begin + n_left;
  waiting.push_back({own.left + 1, middle, node.end, node.depth + 1, std::move(sides.last)});
  waiting.push_back({own.left, node.begin, middle, node.depth + 1, std::move(sides.first)});
}

// Moves the n_first rows of the first part to the front; the order within both parts is kept. Features that are constant
// in a part are not considered below it.
Builder::Sides Builder::partition(const Node& node, std::size_t n_first) {
  const auto stable = [&](auto part, auto& buffer, auto&& row_of) {
    std::size_t n_before = 0, n_after = 0;
    for (const auto own : part) {
      // Written to both places, kept in one: no jump.
      const bool is_first = goes_first_[row_of(own)] != 0;
      part[n_before] = buffer[n_after] = own;
      n_before += is_first;
      n_after += !is_first;
    }
    std::copy_n(buffer.begin(), n_after, part.begin() + static_cast<std::ptrdiff_t>(n_before));
    return static_cast<row_t>(n_before);
  };
  stable(std::span(node_rows_).subspan(node.begin, node.n_rows()), row_buffer_, [](row_t row) { return row; });
  const NodeColumns& columns = node.columns;
  n_first_.resize(columns.size());
  const std::size_t n = n_blocks(columns);
  pool_.parallel_for(n, [&](std::size_t block) {
    for (std::size_t i = block; i < columns.size(); i += n)
      n_first_[i] = stable(std::span(values_).subspan(columns[i].begin, columns[i].n), buffers_[block],
                           [](const SortedValue& own) { return own.row; });
  });
  Sides sides;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const auto& [feature, n_values, begin] = columns[i];
    const NodeColumn first{feature, n_first_[i], begin}, last{feature, n_values - n_first_[i], begin + n_first_[i]};
    if (!is_constant(first, n_first)) sides.first.push_back(first);
    if (!is_constant(last, node.n_rows() - n_first)) sides.last.push_back(last);
  }
  return sides;
}

}  // namespace

MTDecisionTree grow_mt_tree(const SortedColumns& columns, const TaskLabels& labels, const MTTreeParams& params,
                            std::uint64_t tree, ThreadPool& pool, const std::function<void()>& check_interrupt) {
  params.check();
  return Builder(columns, labels, params, tree, pool).build(check_interrupt);
}

}  // namespace mtboost
