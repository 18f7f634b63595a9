// SPDX-License-Identifier: Apache-2.0
#include "forest/mt_tree_builder.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "base/require.hpp"

namespace mtboost {
namespace {

// Below so many values of a node threads cost more than they save.
constexpr std::size_t kSerialValues = 1 << 15;

std::vector<task_t> tasks_of_classes(std::span<const std::uint32_t> class_starts) {
  std::vector<task_t> tasks(class_starts.back());
  for (task_t task = 0; task + 1 < class_starts.size(); ++task)
    std::fill(tasks.begin() + class_starts[task], tasks.begin() + class_starts[task + 1], task);
  return tasks;
}

struct Cut {
  TaskGain gain;
  feature_t feature = 0;
  float threshold = 0.0f;
  bool missing_left = false;
  std::size_t n_left = 0;  // of the sorted values that are not missing

  bool is_found() const noexcept { return gain.gain >= 0.0f; }
  bool is_better_than(const Cut& other) const noexcept {
    return gain > other.gain || (gain == other.gain && is_found() && feature < other.feature);
  }
};

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
    std::size_t n_constant;
  };

  void take_rows();
  void decide_tasks_without_rows();
  void add_nodes(std::size_t n);
  void decide(node_t node, const ClassTotals::Task& task, bool has_rows);
  bool is_decided(const ClassTotals::Task& task) const noexcept;
  void decide_pure_tasks(Node& node);
  Cut find_cut(Node& node);
  std::span<const feature_t> draw_features(Node& node);
  void scan(feature_t feature, std::span<const SortedValue> values, bool missing_left, InformationGain& gain, Cut& best);
  std::size_t divide(const Node& node, const Cut& cut);
  void partition(const Node& node);
  void gather_decisions();

  std::span<const row_t> rows_of(const Node& node) const noexcept {
    return std::span(node_rows_).subspan(node.begin, node.end - node.begin);
  }
  std::span<SortedValue> values_of(const Node& node, feature_t feature) noexcept {
    return std::span(values_).subspan(feature * node_rows_.size() + node.begin, node.end - node.begin);
  }
  std::size_t n_blocks(std::size_t n_features, const Node& node) const noexcept {
    if (n_features * (node.end - node.begin) < kSerialValues) return 1;
    return std::min<std::size_t>(n_features, static_cast<std::size_t>(pool_.n_threads()));
  }

  const SortedColumns& columns_;
  const TaskLabels& labels_;
  const MTTreeParams& params_;
  std::uint64_t tree_number_;
  ThreadPool& pool_;
  std::vector<task_t> task_of_class_;
  std::vector<LabelledRow> rows_;   // all of the table
  std::vector<row_t> node_rows_;    // of the tree; those of a node lie side by side and ascend
  std::vector<SortedValue> values_;  // (feature, place): the same rows in the feature's order
  std::vector<feature_t> features_;  // in front those known to be constant in the node at hand
  std::vector<std::uint8_t> goes_first_;  // of each row, in a partition
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
      features_(columns.n_features()),
      goes_first_(columns.n_rows()),
      totals_(labels.class_starts.back()),
      buffers_(static_cast<std::size_t>(pool.n_threads())) {
  grown_.n_features = columns.n_features();
  grown_.class_starts.assign(labels.class_starts.begin(), labels.class_starts.end());
  std::iota(features_.begin(), features_.end(), feature_t{0});
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
  values_.resize(columns_.n_features() * node_rows_.size());
  pool_.parallel_for(columns_.n_features(), [&](std::size_t feature) {
    std::ranges::copy_if(columns_.column(static_cast<feature_t>(feature)),
                         values_.begin() + static_cast<std::ptrdiff_t>(feature * node_rows_.size()),
                         [&](const SortedValue& own) { return rows_[own.row].weight > 0.0; });
  });
}

// The tree --------------------------------------------------------------------------------------------------------------

MTDecisionTree Builder::build(const std::function<void()>& check_interrupt) {
  DecisionTree& tree = grown_.tree;
  add_nodes(1);
  decide_tasks_without_rows();
  std::vector<Node> waiting{{0, 0, node_rows_.size(), 0, 0}};
  while (!waiting.empty()) {
    Node node = waiting.back();
    waiting.pop_back();
    const auto at = static_cast<std::size_t>(node.number);
    if ((node.end - node.begin) * columns_.n_features() >= kSerialValues) check_interrupt();
    totals_.enter(rows_of(node), rows_, task_of_class_);
    tree.weight[at] = static_cast<float>(totals_.weight());
    tree.impurity[at] = totals_.bits() / totals_.weight();
    decide_pure_tasks(node);
    Cut cut;
    if (node.end - node.begin >= params_.min_samples_split && node.depth < params_.max_depth) cut = find_cut(node);
    if (!cut.is_found()) {
      if (node.begin < node.end)
        for (const ClassTotals::Task& task : totals_.tasks()) decide(node.number, task, true);
      continue;
    }
    tree.nodes[at].left = tree.n_nodes();
    add_nodes(2);
    const std::size_t middle = divide(node, cut);
    const node_t left = tree.nodes[at].left;
    waiting.push_back({left + 1, middle, node.end, node.depth + 1, node.n_constant});
    waiting.push_back({left, node.begin, middle, node.depth + 1, node.n_constant});
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
    partition(node);
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

// Cuts ------------------------------------------------------------------------------------------------------------------

// Features that are constant in the node join those in front; none of them is looked at further down.
std::span<const feature_t> Builder::draw_features(Node& node) {
  const auto begin = features_.begin() + static_cast<std::ptrdiff_t>(node.n_constant);
  const auto usable = std::partition(begin, features_.end(), [&](feature_t feature) {
    const auto values = values_of(node, feature);
    return values.front().is_missing() || values.front().value == values.back().value;
  });
  node.n_constant = static_cast<std::size_t>(usable - features_.begin());
  const auto drawn = std::span(features_).subspan(node.n_constant);
  if (drawn.size() <= params_.max_features) return drawn;
  RandomStream random(RandomStream::Purpose::features_of_node, params_.seed, tree_number_,
                      static_cast<std::uint64_t>(node.number));
  for (feature_t i = 0; i < params_.max_features; ++i) std::swap(drawn[i], drawn[i + random.below(drawn.size() - i)]);
  return drawn.first(params_.max_features);
}

Cut Builder::find_cut(Node& node) {
  const auto features = draw_features(node);
  if (features.empty()) return {};
  const std::size_t n = n_blocks(features.size(), node);
  std::vector<Cut> best(n);
  pool_.parallel_for(n, [&](std::size_t block) {
    gains_[block].enter(totals_);
    for (std::size_t i = block; i < features.size(); i += n) {
      const auto values = values_of(node, features[i]);
      scan(features[i], values, false, gains_[block], best[block]);
      if (values.back().is_missing()) scan(features[i], values, true, gains_[block], best[block]);
    }
  });
  return *std::ranges::max_element(best, [](const Cut& a, const Cut& b) { return b.is_better_than(a); });
}

// Of equal cuts of a feature the first: missing values on the right, then low thresholds.
void Builder::scan(feature_t feature, std::span<const SortedValue> values, bool missing_left, InformationGain& gain,
                   Cut& best) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto missing = std::ranges::partition_point(values, [](const SortedValue& own) { return !own.is_missing(); });
  const auto known = static_cast<std::size_t>(missing - values.begin());
  gain.begin_scan();
  if (missing_left)
    for (const SortedValue& own : values.subspan(known)) gain.move_left(rows_[own.row]);
  for (std::size_t place = 0; place <= known; ++place) {
    // Behind the last value the threshold is infinity, which divides nothing from infinite values.
    const float above = place < known ? values[place].value : kInfinity;
    const std::size_t n_left = place + (missing_left ? values.size() - known : 0);
    const std::size_t n_fewer = std::min(n_left, values.size() - n_left);
    const bool is_cut = place == 0 || values[place - 1].value < above;
    if (is_cut && n_fewer > 0 && n_fewer >= params_.min_samples_leaf) {
      Cut cut{gain.gain_of_scan(), feature, above, missing_left, place};
      if (place > 0 && place < known) {
        const double below = values[place - 1].value;
        const auto middle = static_cast<float>((below + above) / 2.0);
        if (middle > values[place - 1].value) cut.threshold = middle;
      }
      if (cut.is_better_than(best)) best = cut;
    }
    if (place < known) gain.move_left(rows_[values[place].row]);
  }
}

// Rows ------------------------------------------------------------------------------------------------------------------

// Returns where the right side begins.
std::size_t Builder::divide(const Node& node, const Cut& cut) {
  const auto at = static_cast<std::size_t>(node.number);
  const auto values = values_of(node, cut.feature);
  InformationGain& gain = gains_.front();
  gain.enter(totals_);
  gain.begin_scan();
  for (const ClassTotals::Task& task : totals_.tasks()) task_rows_[task.task] = {};
  std::size_t n_left = 0;
  for (std::size_t place = 0; place < values.size(); ++place) {
    const row_t row = values[place].row;
    const bool is_left = values[place].is_missing() ? cut.missing_left : place < cut.n_left;
    goes_first_[row] = is_left;
    TaskRows& task_rows = task_rows_[rows_[row].task];
    ++(is_left ? task_rows.n_left : task_rows.n_right);
    if (is_left) gain.move_left(rows_[row]);
    n_left += is_left;
  }
  gain.gain_of_scan();
  grown_.gains[at] = static_cast<float>(std::max(0.0, gain.information()));

  DecisionNode& own = grown_.tree.nodes[at];
  own.feature = cut.feature & kTaskFeature;
  own.threshold = cut.threshold;
  // Where none is missing in training, a missing value goes with most rows.
  own.default_left = values.back().is_missing() ? cut.missing_left : 2 * n_left > values.size();

  for (const ClassTotals::Task& task : totals_.tasks()) {
    if (task_rows_[task.task].n_left == 0) decide(own.left, task, false);
    if (task_rows_[task.task].n_right == 0) decide(own.left + 1, task, false);
  }
  partition(node);
  return node.begin + n_left;
}

// Rows that go first come first; the order within both parts stays. Constant features need not follow.
void Builder::partition(const Node& node) {
  const auto stable = [&](auto part, auto& buffer, auto&& row_of) {
    std::size_t n_first = 0, n_last = 0;
    for (const auto own : part) {
      // Written to both places, kept in one: no jump.
      const bool is_first = goes_first_[row_of(own)] != 0;
      part[n_first] = buffer[n_last] = own;
      n_first += is_first;
      n_last += !is_first;
    }
    std::copy_n(buffer.begin(), n_last, part.begin() + static_cast<std::ptrdiff_t>(n_first));
  };
  stable(std::span(node_rows_).subspan(node.begin, node.end - node.begin), row_buffer_, [](row_t row) { return row; });
  const auto features = std::span(features_).subspan(node.n_constant);
  const std::size_t n = n_blocks(features.size(), node);
  pool_.parallel_for(n, [&](std::size_t block) {
    for (std::size_t i = block; i < features.size(); i += n)
      stable(values_of(node, features[i]), buffers_[block], [](const SortedValue& own) { return own.row; });
  });
}

}  // namespace

MTDecisionTree grow_mt_tree(const SortedColumns& columns, const TaskLabels& labels, const MTTreeParams& params,
                            std::uint64_t tree, ThreadPool& pool, const std::function<void()>& check_interrupt) {
  return Builder(columns, labels, params, tree, pool).build(check_interrupt);
}

}  // namespace mtboost
