// SPDX-License-Identifier: Apache-2.0
// Threads as machines: each grows the tree on its rows, and all of them must grow that of one machine with all rows.
// Gradients are whole numbers, so that sums have the same bits in any order.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/communicator.hpp"
#include "check.hpp"
#include "grow/lightgbm_rules.hpp"
#include "grow/xgboost_rules.hpp"
#include "tables.hpp"
#include "trees.hpp"

namespace mtboost::test::test_several_machines {
namespace {

constexpr row_t kRows = 3000;
constexpr task_t kTasks = 6;

// What the threads share; they meet in sum().
struct Meeting {
  explicit Meeting(int n_workers) : barrier(n_workers) {}
  std::barrier<> barrier;
  std::mutex mutex;
  std::vector<double> total;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}
  int rank() const noexcept override { return rank_; }
  void sum(std::span<double> values, const char*) const override {
    {
      std::lock_guard lock(meeting_.mutex);
      meeting_.total.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) meeting_.total[i] += values[i];
    }
    meeting_.barrier.arrive_and_wait();
    std::ranges::copy(meeting_.total, values.begin());
    meeting_.barrier.arrive_and_wait();
    if (rank_ == 0) meeting_.total.clear();
    meeting_.barrier.arrive_and_wait();
  }

 private:
  int rank_;
  Meeting& meeting_;
};

// Tables of all kinds; of each feature with missing values some worker has none.
Table make_table(std::vector<Feature> features) { return random_table(kRows, std::move(features), 8); }

std::vector<Feature> dense_features() { return {{20}, {7}, {40}, {2}, {13}}; }
std::vector<Feature> mixed_features() {
  return {{20, 0.2}, {3, 0.1, true}, {9, 0.1, true}, {300, 0.0}, {12, 0.3}, {6, 0.0, true}};
}

struct Setting {
  std::shared_ptr<const SplitScore> score;
  XgboostParams params;
  bool is_symmetric = false;
  double random_strength = 0.0;
  std::optional<TaskColumn> task_column = std::nullopt;
  bool is_sparse = false;
  bool has_whole_tasks = false;
};

// The rows of one machine, grouped by task.
struct Part {
  Table table;
  std::vector<GradientPair> gradients;
  std::vector<row_t> first_rows{0};
};

task_t task_of(row_t row) { return static_cast<task_t>(row * row % 17 % kTasks); }

// Some worker has all rows of the last task, and of the others each has some.
int worker_of(row_t row, int n_workers, bool has_whole_tasks) {
  if (has_whole_tasks) return static_cast<int>(task_of(row)) % n_workers;
  return task_of(row) == kTasks - 1 ? 0 : static_cast<int>(row / 3 % static_cast<row_t>(n_workers));
}

template <typename IsOwn>
Part part_of(const Table& table, const std::vector<GradientPair>& gradients, IsOwn&& is_own) {
  Part part{{table.features, 0, {}}, {}};
  const std::size_t n_features = table.features.size();
  for (task_t task = 0; task < kTasks; ++task) {
    for (row_t row = 0; row < kRows; ++row) {
      if (task_of(row) != task || !is_own(row)) continue;
      const auto first = table.values.begin() + static_cast<std::ptrdiff_t>(row * n_features);
      part.table.values.insert(part.table.values.end(), first, first + static_cast<std::ptrdiff_t>(n_features));
      part.gradients.push_back(gradients[row]);
      ++part.table.n_rows;
    }
    part.first_rows.push_back(part.table.n_rows);
  }
  return part;
}

TreeGrower::Grown grow_part(const Part& part, const Setting& setting, std::shared_ptr<const Communicator> workers,
                            int n_threads = 1) {
  std::optional<TaskRows> tasks;
  if (setting.score != nullptr) tasks.emplace(part.first_rows);
  TreeGrower grower(make_matrix(part.table, {}, 1, setting.is_sparse), setting.score, tasks, {}, setting.task_column,
                    setting.is_symmetric, setting.random_strength, std::move(workers), setting.has_whole_tasks);
  return grow<XgboostRules>(grower, setting.params, part.gradients, {}, n_threads);
}

std::vector<Tree> grow_on(int n_workers, const std::vector<Part>& parts, const Setting& setting) {
  Meeting meeting(n_workers);
  std::vector<Tree> trees(parts.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_workers; ++rank)
    threads.emplace_back([&, rank] {
      const auto at = static_cast<std::size_t>(rank);
      trees[at] = grow_part(parts[at], setting, std::make_shared<ThreadCommunicator>(rank, meeting)).tree;
    });
  for (std::thread& thread : threads) thread.join();
  return trees;
}

void check_same_trees(const Setting& setting, const std::vector<Feature>& features) {
  const Table table = make_table(features);
  const auto gradients = whole_gradients(kRows, 3);
  const Part all = part_of(table, gradients, [](row_t) { return true; });
  const Tree alone = grow_part(all, setting, nullptr).tree;
  check(alone.n_nodes() > 5);
  for (const int n_workers : {1, 2, 3}) {
    std::vector<Part> parts;
    for (int rank = 0; rank < n_workers; ++rank)  // the last of three has no rows
      parts.push_back(part_of(table, gradients, [&](row_t row) {
        return worker_of(row, n_workers == 3 ? 2 : n_workers, setting.has_whole_tasks) == rank;
      }));
    for (Tree& tree : grow_on(n_workers, parts, setting)) {
      check(std::ranges::equal(tree.score, alone.score, [](double a, double b) {
        return std::abs(a - b) <= 1e-6 * std::abs(b);  // sums over tasks, in another order
      }));
      tree.score = alone.score;
      check(are_equal(tree, alone));
    }
  }
}

XgboostParams depth_wise() {
  XgboostParams params;
  params.max_depth = 5;
  return params;
}

XgboostParams loss_guided() {
  XgboostParams params;
  params.loss_guided = true;
  params.max_depth = 0;
  params.max_leaves = 12;
  params.colsample_bynode = 0.7;
  return params;
}

XgboostParams constrained() {
  XgboostParams params = depth_wise();
  params.min_child_weight = 20.0f;
  params.monotone_constraints = {1, 0, 0, 0, -1};
  params.interaction_constraints = {{0, 1, 2}, {2, 3, 4}};
  return params;
}

}  // namespace

TEST(several_machines_grow_the_tree_of_one) {
  auto scores = every_kind_of_score();
  scores.push_back(std::make_shared<VarianceScore>(0.01));
  for (const auto& score : scores)
    for (const XgboostParams& params : {depth_wise(), loss_guided(), constrained()})
      for (const auto& features : {dense_features(), mixed_features()}) check_same_trees({score, params}, features);
}

TEST(several_machines_grow_the_tree_of_one_in_the_sparse_layout) {
  for (const auto& score : every_kind_of_score()) {
    Setting setting{score, depth_wise()};
    setting.is_sparse = true;
    check_same_trees(setting, {{20, 0.8}, {7, 0.9}, {40, 0.7}});
  }
}

TEST(machines_with_whole_tasks_grow_the_tree_of_one) {
  auto scores = every_kind_of_score();
  scores.push_back(std::make_shared<VarianceScore>(0.01));
  for (const auto& score : scores)
    for (const XgboostParams& params : {depth_wise(), loss_guided()}) {
      Setting setting{score, params};
      setting.has_whole_tasks = true;
      check_same_trees(setting, mixed_features());
    }
}

TEST(several_machines_grow_the_symmetric_tree_of_one) {
  for (const double strength : {0.0, 1.0}) {
    Setting setting{nullptr, depth_wise()};
    setting.is_symmetric = true;
    setting.random_strength = strength;
    check_same_trees(setting, mixed_features());
  }
}

TEST(several_machines_grow_the_task_splits_of_one) {
  Setting setting{nullptr, depth_wise()};
  setting.task_column = TaskColumn{5, 0.1};
  check_same_trees(setting, mixed_features());
}

TEST(rows_are_drawn_differently_on_each_machine) {
  const Table table = make_table(dense_features());
  const auto gradients = whole_gradients(kRows, 3);
  const Part all = part_of(table, gradients, [](row_t) { return true; });
  Setting setting{nullptr, depth_wise()};
  setting.params.subsample = 0.5;
  setting.params.max_depth = 1;
  const Tree both = grow_on(2, {all, all}, setting).front();
  const row_t n_alone = grow_part(all, setting, nullptr).tree.n_rows.front();
  check(both.n_rows.front() != 2 * n_alone);
  check(std::abs(static_cast<double>(both.n_rows.front()) - kRows) < 0.1 * kRows);
}

TEST(trees_of_lightgbm_are_refused_on_several_machines) {
  Meeting meeting(1);
  const LightgbmTable table = random_table(50, {{5, 5, 0, LightgbmBins::Missing::none, false}}, 0.0, 1);
  TreeGrower grower(make_matrix(table), nullptr, {}, {}, {}, false, 0.0,
                    std::make_shared<ThreadCommunicator>(0, meeting));
  LightgbmParams params;
  params.max_leaves = 3;
  params.loss_guided = true;
  check_throws<std::invalid_argument>("grow on one machine",
                                      [&] { grow<LightgbmRules>(grower, params, whole_gradients(50, 1), {}, 1); });
}

}  // namespace mtboost::test::test_several_machines
