// SPDX-License-Identifier: Apache-2.0
// Task splits: nodes that split the tasks of a node into two groups (simm2014, by best splits instead of random ones). The
// table has a column of task codes for them, a category. The library's own search of categories sorts the tasks by leaf
// weight and tries every prefix; what is added here is the price.
//
// Among this many candidate splits the best one gains even if all tasks are alike: then each G_t has the variance σ² H_t,
// and with T tasks the expected gain is about σ² (1 + (T − 2) 2/π). T = 2 has one contrast, a χ² of one degree of
// freedom; of many tasks half go each way, and each adds the squared mean 2/π of a half normal. So a task split has
//   S = s − c σ² (1 + (T − 2) 2/π)
// and is admitted only if S > 0. Naive twins: tests/oracle/naive_task_splits.py.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "split/feature_scan.hpp"

namespace mtboost {

struct TaskColumn {
  feature_t feature = 0;
  double penalty = 1.0;  // c; 0: the library's own category
};

// The library's scan, except that the task column has a price.
class TaskColumnScan final : public FeatureScan {
 public:
  // price: c σ². of_tasks: tries all prefixes of categories. Where lists_left is false, models hold for each node where a
  // task goes that is not there.
  TaskColumnScan(feature_t column, double price, bool lists_left, std::unique_ptr<FeatureScan> of_tasks,
                 std::unique_ptr<FeatureScan> of_others);

  Split best_split(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node) override;
  void list_candidates(feature_t, std::span<const GradientSums>, const NodeSums&, std::vector<Candidate>&) override;
  void add_gains(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, Gains& gains) override;
  Split split_at(feature_t feature, std::span<const GradientSums> bins, const NodeSums& node, bin_t position,
                 bool default_left) override;
  bool has_seen_gain() const noexcept override { return last_->has_seen_gain(); }
  std::vector<bin_t> listed_bins(const SplitRule& rule, std::span<const bin_t> category_order) const override;
  const FreeGain& free_gain() const noexcept override { return of_others_->free_gain(); }

 private:
  // Of each task whether it has rows, if the scan has sorted it: LightGBM leaves small ones where missing values go.
  std::vector<std::uint8_t> sorted_with_rows(std::span<const GradientSums> bins) const;

  feature_t column_;
  double price_;
  bool lists_left_;
  std::unique_ptr<FeatureScan> of_tasks_, of_others_;
  const FeatureScan* last_;  // that scanned
};

}  // namespace mtboost
