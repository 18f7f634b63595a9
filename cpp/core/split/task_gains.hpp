// SPDX-License-Identifier: Apache-2.0
// The gains s^t of single tasks for chosen splits of one feature in one node (zhang2019, algorithm 1, lines 18 to 21).
//
// A task's rows fall into the segments between the chosen candidates, and s^t changes only where a segment has rows of the
// task. So a task costs its rows plus its non-empty segments; sums over tasks are kept as differences between
// neighbouring splits and summed up once at the end. Nothing is proportional to splits times tasks, except for scores that
// ask for every s^t. A task with two rows has the same s^t wherever a split separates them: it is computed once for all
// features. Naive twin: tests/oracle/naive.py.
//
//   split         one of the chosen candidates, numbered in ascending order of position
//   segment       bins between two neighbouring positions; segment j lies below position j
//   with missing  the same split with missing values on side A (default direction) is another s^t for tasks that have any
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "binning/binned_matrix.hpp"
#include "histogram/histogram.hpp"
#include "split/free_gain.hpp"
#include "split/split.hpp"
#include "split/split_score.hpp"
#include "split/task_rows.hpp"

namespace mtboost {

struct NodeTasks {
  std::span<const PresentTask> tasks;  // all that are present, or some
  const Histogram* histogram;
  // Where rows of a task lie on several machines: the sums of all machines, row-major (task, segment). Sums and gains of
  // the tasks are those of all machines then. Empty: the tasks' rows are added up.
  std::span<const GradientSums> table{};
  std::span<const PairTask> pairs{};  // further tasks, of a dense matrix; every_gain() does not know them
};

// One per thread: keeps its buffers from call to call.
class TaskGains {
 public:
  TaskGains(const BinnedMatrix& matrix, const FreeGain& free_gain) : matrix_(matrix), free_gain_(free_gain) {}

  // First step of a node: gathers the gradients of its tasks, adds them up, and returns the sums over tasks for one
  // split, which needs no visit more. gradients: of all stored rows.
  TaskGainSums first_sums(std::span<PresentTask> tasks /* OUT: gradients, sums, gain */,
                          std::span<const PairTask> pairs, std::span<const GradientPair> gradients,
                          const Candidate& candidate, std::span<const bin_t> category_order, const SplitScore& score);
  // gain and log_term of each.
  void find_gains(std::span<PairTask> pairs /* IN-OUT */, std::span<const GradientPair> gradients) const noexcept;

  // Sums over tasks for each of `splits`, in their order; those the score does not need stay 0. category_order: see
  // FeatureScan, for partition candidates.
  std::span<const TaskGainSums> sums(const NodeTasks& node, std::span<const Candidate> candidates,
                                     std::span<const bin_t> category_order, const SplitScore& score);

  // What goes into NodeTasks::table. Adds the tasks' rows on this machine; they need their gradients and sums. places: the
  // row of each task in the table. The splits are those of the last count_segments().
  std::size_t count_segments(std::span<const Candidate> candidates, std::span<const bin_t> category_order);
  void add_segments(const NodeTasks& node, std::span<const std::uint32_t> places,
                    std::span<GradientSums> table /* IN-OUT */);
  float gain(const GradientSums& sums) const noexcept { return free_gain_(sums); }

  // Every s^t, row-major (split, present task).
  std::span<const float> every_gain(const NodeTasks& node, std::span<const Candidate> candidates,
                                    std::span<const bin_t> category_order);

 private:
  // Sums of side A that hold for the splits [first, last) of one task.
  struct Piece {
    std::uint32_t first, last;
    std::uint32_t task;       // index into NodeTasks::tasks
    std::uint32_t direction;  // 0: both default directions, 1: missing not in A, 2: missing in A
  };
  // Differences of the sums between neighbouring candidates.
  struct Moments {
    double sum, sum_of_squares;
    void add(const Moments& other, double sign) noexcept {
      sum += sign * other.sum;
      sum_of_squares += sign * other.sum_of_squares;
    }
  };
  struct Positives {
    double sum, log_sum, number;
    void add(const Positives& other, double sign) noexcept {
      sum += sign * other.sum;
      log_sum += sign * other.log_sum;
      number += sign * other.number;
    }
  };

  void number_splits(std::span<const Candidate> candidates, std::span<const bin_t> category_order);
  template <typename Sink>
  void for_each_piece(const NodeTasks& node, Sink&& sink);
  bool has_few_rows(const PresentTask& task) const noexcept;
  template <typename Bin>
  void find_segments(std::span<const PresentTask> tasks);
  template <typename Sink>
  void emit_few_rows(const NodeTasks& node, std::uint32_t begin, std::uint32_t end, Sink&& sink);
  template <typename Sink>
  void emit_sorted_rows(const PresentTask& task, std::uint32_t task_index, std::span<const std::uint32_t> segments,
                        Sink&& sink);
  void add_pairs(std::span<const PairTask> pairs, const SplitScore& score);
  template <typename Bin>
  void add_pairs(std::span<const PairTask> pairs, const SplitScore& score);
  template <typename Add>
  void for_each_range(std::uint32_t low, std::uint32_t high, Add&& add) const;
  template <typename Bin>
  void sum_sides(PresentTask& task /* OUT: gradients, sums */, std::span<const GradientPair> gradients);
  void sum_task(const PresentTask& task);
  void take_segments(std::span<const GradientSums> sums);
  void sum_layer(std::span<const GradientSums> slots, const GradientSums& task_sums);
  void find_heavy_segment(const NodeTasks& node);
  template <typename Bin>
  void sum_dense_rows(const PresentTask& task);
  template <typename Bin>
  void sum_rows(const PresentTask& task);
  template <typename Bin>
  void sum_light_rows(const PresentTask& task);
  void sum_sparse_rows(const PresentTask& task);
  void fill(std::uint32_t segment, const GradientSums& sums) noexcept {
    segments_[segment] += sums;
    is_filled_[segment] = 1;
  }
  void list_filled() noexcept;
  template <typename Sink>
  void emit(const PresentTask& task, std::uint32_t task_index, Sink&& sink);
  template <typename Sink>
  void emit_direction(const PresentTask& task, std::uint32_t task_index, std::span<const std::uint32_t> filled,
                      std::uint32_t direction, const GradientSums& missing, Sink&& sink);
  template <typename Sink>
  void push(const PresentTask& task, const Piece& piece, const GradientSums& a, Sink&& sink);
  void write_piece(const PresentTask& task, const Piece& piece, const GradientSums& a) noexcept;
  void find_waiting_gains() noexcept;
  template <typename Sink>
  void flush(Sink&& sink);

  const BinnedMatrix& matrix_;
  const FreeGain& free_gain_;

  feature_t feature_ = 0;
  SplitKind kind_ = SplitKind::ordered;
  bool any_missing_in_a_ = false, any_missing_in_b_ = false;
  std::uint32_t n_splits_ = 0;              // distinct positions
  std::vector<std::uint32_t> n_splits_at_;  // by position: at it or below
  std::vector<std::uint32_t> split_of_candidate_;
  std::vector<std::uint32_t> segment_of_bin_;
  std::vector<double> is_in_a_;            // by bin: 1 on side A of the only split, else 0
  std::uint32_t heavy_segment_ = 0;        // most rows of the node fall into it; n_splits_ + 2: no such segment
  bin_t heavy_begin_ = 0, heavy_end_ = 0;  // its bins, if they are neighbours; else empty
  std::vector<GradientSums> bins_;         // of the current task, if it is large; all zero between tasks
  std::vector<GradientSums> segments_;     // of the current task; all zero between tasks
  std::vector<std::uint8_t> is_filled_;    // bytes, whole words of eight: a bit would wait for the one before
  std::vector<std::uint32_t> filled_;
  std::vector<Moments> moments_[3];  // by Piece::direction
  std::vector<Positives> positives_[3];
  std::vector<TaskGainSums> sums_;
  std::vector<float> every_gain_;

  static constexpr std::size_t kFewRows = 8, kFewTasks = 32;
  std::uint32_t few_segments_[kFewTasks * kFewRows];

  // Pieces wait here until there are enough for vector instructions.
  static constexpr std::size_t kBatch = 256;
  std::size_t n_waiting_ = 0;
  Piece piece_[kBatch];
  double a_gradient_[kBatch], a_hessian_[kBatch], b_gradient_[kBatch], b_hessian_[kBatch];
  float node_gain_[kBatch], a_gain_[kBatch], b_gain_[kBatch], gain_[kBatch];
};

}  // namespace mtboost
