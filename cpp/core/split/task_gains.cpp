// SPDX-License-Identifier: Apache-2.0
#include "split/task_gains.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "binning/sparse_column.hpp"

namespace mtboost {

void TaskGains::number_cuts(std::span<const Candidate> cuts, std::span<const bin_t> category_order) {
  feature_ = cuts.front().cut.feature;
  kind_ = cuts.front().cut.kind;
  any_missing_in_a_ = any_missing_in_b_ = false;
  std::vector<bin_t> positions;
  positions.reserve(cuts.size());
  for (const Candidate& candidate : cuts) {
    positions.push_back(candidate.cut.position);
    (candidate.cut.missing_in_a() ? any_missing_in_a_ : any_missing_in_b_) = true;
  }
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  n_cuts_ = static_cast<std::uint32_t>(positions.size());
  cut_of_candidate_.clear();
  for (const Candidate& candidate : cuts)
    cut_of_candidate_.push_back(static_cast<std::uint32_t>(
        std::lower_bound(positions.begin(), positions.end(), candidate.cut.position) - positions.begin()));

  // Segment n_cuts_ is "in no side A", segment n_cuts_ + 1 is "missing".
  const bin_t n_bins = matrix_.cuts().n_bins(feature_);
  segment_of_bin_.assign(n_bins + 1, n_cuts_);
  segment_of_bin_[n_bins] = n_cuts_ + 1;
  if (kind_ == CutKind::one_hot) {
    for (std::uint32_t cut = 0; cut < n_cuts_; ++cut)
      segment_of_bin_[positions[cut]] = cut;
  } else {
    std::uint32_t segment = 0;
    for (bin_t place = 0; place < n_bins; ++place) {
      while (segment < n_cuts_ && positions[segment] <= place) ++segment;
      const bin_t bin = kind_ == CutKind::partition ? category_order[place] : place;
      segment_of_bin_[bin] = segment;
    }
  }
  bins_.resize(n_bins + 1);
  segments_.assign(n_cuts_ + 2, {});
  is_filled_.assign((n_cuts_ + 2 + 7) / 8 * 8, 0);
}

template <typename Sink>
void TaskGains::for_each_piece(const NodeTasks& node, Sink&& sink) {
  const std::uint32_t missing_segment = n_cuts_ + 1;
  for (std::uint32_t task_index = 0; task_index < node.tasks.size(); ++task_index) {
    const PresentTask& task = node.tasks[task_index];
    if (node.histogram->has_layers())
      sum_layer(node.histogram->layer(task.task), task.sums);
    else if (matrix_.is_sparse())
      sum_sparse_rows(task, node.gradients);
    else if (matrix_.column(feature_).bytes_per_bin == 1)
      sum_rows<std::uint8_t>(task.rows, node.gradients);
    else
      sum_rows<std::uint16_t>(task.rows, node.gradients);
    list_filled();
    const bool has_missing = !filled_.empty() && filled_.back() == missing_segment;
    if (has_missing) filled_.pop_back();
    emit(task, task_index, filled_, has_missing, sink);
    for (const std::uint32_t segment : filled_) segments_[segment] = {};
    segments_[missing_segment] = {};
  }
  flush(sink);
}

// Moves the flags of filled segments into a list, ascending.
void TaskGains::list_filled() noexcept {
  static_assert(std::endian::native == std::endian::little, "the first flag must be the lowest byte of a word");
  std::size_t n_filled = 0;
  filled_.resize(is_filled_.size());
  for (std::size_t begin = 0; begin < is_filled_.size(); begin += 8) {
    std::uint64_t word;
    std::memcpy(&word, is_filled_.data() + begin, sizeof word);
    if (word == 0) continue;
    std::memset(is_filled_.data() + begin, 0, 8);
    for (; word != 0; word &= word - 1)  // one bit a flag
      filled_[n_filled++] = static_cast<std::uint32_t>(begin + static_cast<std::size_t>(std::countr_zero(word)) / 8);
  }
  filled_.resize(n_filled);
}

void TaskGains::sum_layer(std::span<const GradientSums> slots, const GradientSums& task_sums) {
  // A layer won by subtraction holds rounding errors, not zeros, where the task has no rows; and a bin that small next
  // to the task's sums changes no gain.
  constexpr double kNothing = 1e-12;
  const double no_gradient = kNothing * std::max(std::abs(task_sums.gradient), task_sums.hessian);
  const double no_hessian = kNothing * task_sums.hessian;
  const std::size_t offset = matrix_.slot_offset(feature_);
  const std::size_t n_slots = matrix_.cuts().n_bins(feature_) + (matrix_.may_be_missing(feature_) ? 1u : 0u);
  for (std::size_t bin = 0; bin < n_slots; ++bin) {
    const GradientSums& sums = slots[offset + bin];
    if (std::abs(sums.gradient) > no_gradient || std::abs(sums.hessian) > no_hessian) fill(segment_of_bin_[bin], sums);
  }
}

template <typename Bin>
void TaskGains::sum_rows(std::span<const row_t> rows, std::span<const GradientPair> gradients) {
  const std::uint8_t* column = matrix_.column(feature_).bytes;
  const auto bin_of = [&](row_t row) {
    Bin bin;
    std::memcpy(&bin, column + row * sizeof bin, sizeof bin);
    return bin;
  };
  const auto sums_of = [&](row_t row) { return GradientSums{gradients[row].gradient, gradients[row].hessian}; };
  const std::size_t n_slots = segment_of_bin_.size();
  if (rows.size() < n_slots) {
    for (const row_t row : rows) fill(segment_of_bin_[bin_of(row)], sums_of(row));
    return;
  }
  // A large task by bins first: neighbouring rows seldom share one, so that no addition waits for the one before.
  GradientSums* bins = bins_.data();
  for (const row_t row : rows) bins[bin_of(row)] += sums_of(row);
  for (std::size_t bin = 0; bin < n_slots; ++bin) {
    if (bins[bin] == GradientSums{}) continue;
    fill(segment_of_bin_[bin], bins[bin]);
    bins[bin] = {};
  }
}

void TaskGains::sum_sparse_rows(const PresentTask& task, std::span<const GradientPair> gradients) {
  std::size_t n_values = 0;
  GradientSums missing = task.sums;
  for_each_value(matrix_.sparse_column(feature_), task.rows, [&](std::size_t position, bin_t bin) {
    const GradientPair& pair = gradients[task.rows[position]];
    fill(segment_of_bin_[bin], {pair.gradient, pair.hessian});
    missing -= {pair.gradient, pair.hessian};
    ++n_values;
  });
  if (n_values < task.rows.size()) fill(n_cuts_ + 1, missing);
}

template <typename Sink>
void TaskGains::emit(const PresentTask& task, std::uint32_t task_index, std::span<const std::uint32_t> filled,
                     bool has_missing, Sink&& sink) {
  if (!has_missing) return emit_direction(task, task_index, filled, 0, {}, sink);
  const GradientSums& missing = segments_[n_cuts_ + 1];
  if (any_missing_in_b_) emit_direction(task, task_index, filled, 1, missing, sink);
  if (any_missing_in_a_) emit_direction(task, task_index, filled, 2, missing, sink);
}

template <typename Sink>
void TaskGains::emit_direction(const PresentTask& task, std::uint32_t task_index,
                               std::span<const std::uint32_t> filled, std::uint32_t direction,
                               const GradientSums& missing, Sink&& sink) {
  const bool a_has_missing = direction == 2;
  const bool b_has_missing = direction == 1;
  const GradientSums empty_a = a_has_missing ? missing : GradientSums{};
  // A side without rows leaves the task uncut: s^t is 0 exactly, and no piece is needed.
  if (kind_ == CutKind::one_hot) {
    const bool b_always_has_rows = b_has_missing || filled.size() > 1;
    std::uint32_t next = 0;
    for (const std::uint32_t segment : filled) {
      if (a_has_missing && segment > next && !filled.empty()) push(task, {next, std::min(segment, n_cuts_), task_index, direction}, empty_a, sink);
      if (segment == n_cuts_) return;
      if (b_always_has_rows) push(task, {segment, segment + 1, task_index, direction}, empty_a + segments_[segment], sink);
      next = segment + 1;
    }
    if (a_has_missing && next < n_cuts_ && !filled.empty()) push(task, {next, n_cuts_, task_index, direction}, empty_a, sink);
    return;
  }
  GradientSums a = empty_a;
  std::uint32_t begin = 0;
  bool a_has_rows = a_has_missing;
  for (const std::uint32_t segment : filled) {
    const std::uint32_t end = std::min(segment, n_cuts_);
    if (a_has_rows && begin < end) push(task, {begin, end, task_index, direction}, a, sink);
    if (segment == n_cuts_) return;
    a += segments_[segment];
    a_has_rows = true;
    begin = segment;
  }
  if (b_has_missing && a_has_rows && begin < n_cuts_) push(task, {begin, n_cuts_, task_index, direction}, a, sink);
}

template <typename Sink>
void TaskGains::push(const PresentTask& task, Piece piece, const GradientSums& a, Sink&& sink) {
  const GradientSums b = task.sums - a;
  piece_[n_waiting_] = piece;
  a_gradient_[n_waiting_] = a.gradient;
  a_hessian_[n_waiting_] = a.hessian;
  b_gradient_[n_waiting_] = b.gradient;
  b_hessian_[n_waiting_] = b.hessian;
  node_gain_[n_waiting_] = task.gain;
  if (++n_waiting_ == kBatch) flush(sink);
}

template <typename Sink>
void TaskGains::flush(Sink&& sink) {
  for (std::size_t i = 0; i < n_waiting_; ++i)
    gain_[i] = (arithmetic_.free_gain({a_gradient_[i], a_hessian_[i]}) +
                arithmetic_.free_gain({b_gradient_[i], b_hessian_[i]})) -
               node_gain_[i];
  for (std::size_t i = 0; i < n_waiting_; ++i) {
    // λ = 0 and a side whose hessians are all 0: no number, no gain.
    if (gain_[i] != 0.0f && std::isfinite(gain_[i])) sink(piece_[i], gain_[i]);
  }
  n_waiting_ = 0;
}

std::span<const TaskGainSums> TaskGains::sums(const NodeTasks& node, std::span<const Candidate> cuts,
                                              std::span<const bin_t> category_order, const SplitScore& score) {
  number_cuts(cuts, category_order);
  const bool with_moments = score.needs_moments(), with_positives = score.needs_positive_sums();
  for (auto& moments : moments_) moments.assign(n_cuts_ + 1, {});
  for (auto& positives : positives_) positives.assign(n_cuts_ + 1, {});
  for_each_piece(node, [&](const Piece& piece, float gain) {
    const double s = gain;
    if (with_moments) {
      const Moments change{s, s * s};
      Moments* moments = moments_[piece.direction].data();
      moments[piece.first].add(change, 1.0);
      moments[piece.last].add(change, -1.0);
    }
    if (with_positives && gain > 0.0f) {
      const Positives change{s, s * std::log(gain), 1.0};
      Positives* positives = positives_[piece.direction].data();
      positives[piece.first].add(change, 1.0);
      positives[piece.last].add(change, -1.0);
    }
  });
  for (int direction = 0; direction < 3; ++direction) {
    for (std::uint32_t cut = 1; cut < n_cuts_; ++cut) {
      moments_[direction][cut].add(moments_[direction][cut - 1], 1.0);
      positives_[direction][cut].add(positives_[direction][cut - 1], 1.0);
    }
  }
  sums_.assign(cuts.size(), {});
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::uint32_t cut = cut_of_candidate_[i];
    for (const int direction : {0, cuts[i].cut.missing_in_a() ? 2 : 1}) {
      const Moments& moments = moments_[direction][cut];
      const Positives& positives = positives_[direction][cut];
      sums_[i] += {moments.sum, moments.sum_of_squares, positives.sum, positives.log_sum,
                   static_cast<std::int32_t>(positives.number)};
    }
  }
  return sums_;
}

std::span<const float> TaskGains::every_gain(const NodeTasks& node, std::span<const Candidate> cuts,
                                             std::span<const bin_t> category_order) {
  number_cuts(cuts, category_order);
  const std::size_t n_tasks = node.tasks.size();
  std::vector<float> by_cut[3];
  for (auto& gains : by_cut) gains.assign(n_cuts_ * n_tasks, 0.0f);
  for_each_piece(node, [&](const Piece& piece, float gain) {
    for (std::uint32_t cut = piece.first; cut < piece.last; ++cut)
      by_cut[piece.direction][cut * n_tasks + piece.task] = gain;
  });
  every_gain_.resize(cuts.size() * n_tasks);
  for (std::size_t i = 0; i < cuts.size(); ++i)
    for (std::size_t task = 0; task < n_tasks; ++task) {
      const std::size_t at = cut_of_candidate_[i] * n_tasks + task;
      every_gain_[i * n_tasks + task] = by_cut[0][at] + by_cut[cuts[i].cut.missing_in_a() ? 2 : 1][at];
    }
  return every_gain_;
}

}  // namespace mtboost
