// SPDX-License-Identifier: Apache-2.0
#include "split/task_gains.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "base/vector_clones.hpp"
#include "binning/sparse_column.hpp"

namespace mtboost {
namespace {

// The bin of each row in one column of the matrix.
template <typename Bin>
struct BinsOfRows {
  explicit BinsOfRows(const BinnedMatrix::Column& column) : bytes(column.bytes) {}
  Bin operator[](row_t row) const noexcept {
    Bin bin;
    std::memcpy(&bin, bytes + std::size_t{row} * sizeof bin, sizeof bin);
    return bin;
  }
  const std::uint8_t* bytes;
};

}  // namespace

void TaskGains::number_splits(std::span<const Candidate> candidates, std::span<const bin_t> category_order) {
  feature_ = candidates.front().rule.feature;
  kind_ = candidates.front().rule.kind;
  any_missing_in_a_ = any_missing_in_b_ = false;
  const bin_t n_bins = matrix_.edges().n_bins(feature_);
  // By position: the number of splits at it or below.
  n_splits_at_.assign(n_bins + 1, 0);
  for (const Candidate& candidate : candidates) {
    n_splits_at_[candidate.rule.position] = 1;
    (candidate.rule.missing_in_a() ? any_missing_in_a_ : any_missing_in_b_) = true;
  }
  std::inclusive_scan(n_splits_at_.begin(), n_splits_at_.end(), n_splits_at_.begin());
  n_splits_ = n_splits_at_.back();
  split_of_candidate_.clear();
  for (const Candidate& candidate : candidates)
    split_of_candidate_.push_back(n_splits_at_[candidate.rule.position] - 1);

  // Segment n_splits_ is "in no side A", segment n_splits_ + 1 is "missing".
  if (kind_ == SplitKind::ordered) {
    segment_of_bin_.assign(n_splits_at_.begin(), n_splits_at_.end());
  } else if (kind_ == SplitKind::one_hot) {
    segment_of_bin_.assign(n_bins + 1, n_splits_);
    for (const Candidate& candidate : candidates)
      segment_of_bin_[candidate.rule.position] = n_splits_at_[candidate.rule.position] - 1;
  } else {
    // Categories that are not in the order go where missing values go.
    segment_of_bin_.assign(n_bins + 1, n_splits_ + 1);
    for (bin_t place = 0; place < category_order.size(); ++place)
      segment_of_bin_[category_order[place]] = n_splits_at_[place];
  }
  segment_of_bin_[n_bins] = n_splits_ + 1;
  bins_.resize(n_bins + 1);
  segments_.assign(n_splits_ + 2, {});
  is_filled_.assign((n_splits_ + 2 + 7) / 8 * 8, 0);
  filled_.reserve(is_filled_.size());  // list_filled() must not allocate
}

// Few splits are left where many have been dropped, and they tend to lie at one end of the feature. The rows between need
// not be added up then: their sum is what the others leave of the task's.
void TaskGains::find_heavy_segment(const NodeTasks& node) {
  heavy_segment_ = n_splits_ + 2;
  const auto is_small = [](const PresentTask& task) { return task.rows.size() <= kFewRows; };
  if (matrix_.is_sparse() || std::ranges::all_of(node.tasks, is_small)) return;
  constexpr double kMost = 0.9;  // measured: below it, telling the rows apart costs what their additions would
  std::vector<double> hessians(n_splits_ + 2, 0.0);
  double total = 0.0;
  const std::size_t offset = matrix_.slot_offset(feature_);
  for (bin_t bin = 0; bin < matrix_.edges().n_bins(feature_); ++bin) {
    const double hessian = node.histogram->pooled[offset + bin].hessian;
    hessians[segment_of_bin_[bin]] += hessian;
    total += hessian;
  }
  const auto heaviest = std::max_element(hessians.begin(), hessians.end() - 1);
  if (*heaviest <= kMost * total) return;
  heavy_segment_ = static_cast<std::uint32_t>(heaviest - hessians.begin());
  heavy_begin_ = heavy_end_ = 0;
  if (kind_ != SplitKind::ordered) return;
  const auto range = std::equal_range(segment_of_bin_.begin(), segment_of_bin_.end(), heavy_segment_);
  heavy_begin_ = static_cast<bin_t>(range.first - segment_of_bin_.begin());
  heavy_end_ = static_cast<bin_t>(range.second - segment_of_bin_.begin());
}

TaskGainSums TaskGains::first_sums(std::span<PresentTask> tasks, std::span<const PairTask> pairs,
                                   std::span<const GradientPair> gradients, const Candidate& candidate,
                                   std::span<const bin_t> category_order, const SplitScore& score) {
  TaskGainSums total = sums({{}, nullptr, {}, pairs}, std::span(&candidate, 1), category_order, score).front();
  const bool with_positives = score.needs_positive_sums();
  const bool missing_in_a = candidate.rule.missing_in_a();
  is_in_a_.clear();
  for (const std::uint32_t segment : segment_of_bin_)
    is_in_a_.push_back(segment == 0 || (segment == n_splits_ + 1 && missing_in_a) ? 1.0 : 0.0);
  const auto add = [&](const Piece&, float gain) {
    const double s = gain;
    total += with_positives && gain > 0.0f ? TaskGainSums{s, s * s, s, s * std::log(s), 1}
                                           : TaskGainSums{s, s * s, 0.0, 0.0, 0};
  };
  for (std::uint32_t task_index = 0; task_index < tasks.size(); ++task_index) {
    PresentTask& task = tasks[task_index];
    if (!task.layer.empty()) {
      for (const GradientSums& slot : task.layer.first(matrix_.slot_offset(1)))  // each row is in one of them
        task.sums += slot;
      sum_layer(task.layer, task.sums);
    } else if (matrix_.is_sparse()) {
      for (std::size_t i = 0; i < task.rows.size(); ++i) {
        task.gradients[i] = gradients[task.rows[i]];
        task.sums += {task.gradients[i].gradient, task.gradients[i].hessian};
      }
      sum_sparse_rows(task);
    } else if (matrix_.column(feature_).bytes_per_bin == 1) {
      sum_sides<std::uint8_t>(task, gradients);
    } else {
      sum_sides<std::uint16_t>(task, gradients);
    }
    task.gain = free_gain_(task.sums);
    emit(task, task_index, add);
  }
  flush(add);
  return total;
}

// In four lanes, without a jump: no addition waits for the one before, or for a bin.
template <typename Bin>
void TaskGains::sum_sides(PresentTask& task, std::span<const GradientPair> gradients) {
  constexpr std::size_t kLanes = 4;
  const BinsOfRows<Bin> bins(matrix_.column(feature_));
  GradientSums all[kLanes]{}, a[kLanes]{};
  double n_a = 0.0;
  const auto add = [&](std::size_t i, std::size_t lane) {
    const GradientPair& pair = task.gradients[i] = gradients[task.rows[i]];
    const double is_in_a = is_in_a_[bins[task.rows[i]]];
    all[lane] += {pair.gradient, pair.hessian};
    a[lane] += {is_in_a * pair.gradient, is_in_a * pair.hessian};
    n_a += is_in_a;
  };
  std::size_t i = 0;
  for (; i + kLanes <= task.rows.size(); i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  for (; i < task.rows.size(); ++i) add(i, 0);
  task.sums = (all[0] + all[1]) + (all[2] + all[3]);
  const GradientSums side_a = (a[0] + a[1]) + (a[2] + a[3]);
  filled_.clear();
  if (n_a > 0.0) {
    segments_[0] = side_a;
    filled_.push_back(0);
  }
  if (n_a < static_cast<double>(task.rows.size())) {
    segments_[1] = task.sums - side_a;
    filled_.push_back(1);
  }
}

template <typename Sink>
void TaskGains::for_each_piece(const NodeTasks& node, Sink&& sink) {
  const bool has_table = !node.table.empty();
  if (!has_table && !node.tasks.empty()) find_heavy_segment(node);
  const auto n_tasks = static_cast<std::uint32_t>(node.tasks.size());
  for (std::uint32_t begin = 0, end = 0; begin < n_tasks; begin = end) {
    const PresentTask& task = node.tasks[begin];
    end = begin + 1;
    if (has_table) {
      take_segments(node.table.subspan(begin * segments_.size(), segments_.size()));
      emit(task, begin, sink);
    } else if (has_few_rows(task)) {
      while (end < n_tasks && end < begin + kFewTasks && has_few_rows(node.tasks[end])) ++end;
      emit_few_rows(node, begin, end, sink);
    } else {
      sum_task(task);
      emit(task, begin, sink);
    }
  }
  flush(sink);
}

std::size_t TaskGains::count_segments(std::span<const Candidate> candidates, std::span<const bin_t> category_order) {
  number_splits(candidates, category_order);
  return segments_.size();
}

void TaskGains::add_segments(const NodeTasks& node, std::span<const std::uint32_t> places,
                             std::span<GradientSums> table) {
  find_heavy_segment(node);
  for (std::size_t i = 0; i < node.tasks.size(); ++i) {
    sum_task(node.tasks[i]);
    const auto sums = table.subspan(places[i] * segments_.size(), segments_.size());
    for (const std::uint32_t segment : filled_) sums[segment] += std::exchange(segments_[segment], {});
  }
}

// Fills the segments of one task.
void TaskGains::sum_task(const PresentTask& task) {
  if (!task.layer.empty())
    sum_layer(task.layer, task.sums);
  else if (matrix_.is_sparse())
    sum_sparse_rows(task);
  else if (matrix_.column(feature_).bytes_per_bin == 1)
    sum_dense_rows<std::uint8_t>(task);
  else
    sum_dense_rows<std::uint16_t>(task);
}

void TaskGains::take_segments(std::span<const GradientSums> sums) {
  for (std::uint32_t segment = 0; segment < sums.size(); ++segment)
    if (!(sums[segment] == GradientSums{})) fill(segment, sums[segment]);
  list_filled();
}

template <typename Bin>
void TaskGains::sum_dense_rows(const PresentTask& task) {
  if (heavy_segment_ <= n_splits_)
    sum_light_rows<Bin>(task);
  else
    sum_rows<Bin>(task);
  list_filled();
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
  const std::size_t n_slots = matrix_.edges().n_bins(feature_) + (matrix_.may_be_missing(feature_) ? 1u : 0u);
  for (std::size_t bin = 0; bin < n_slots; ++bin) {
    const GradientSums& sums = slots[offset + bin];
    if (std::abs(sums.gradient) > no_gradient || std::abs(sums.hessian) > no_hessian) fill(segment_of_bin_[bin], sums);
  }
  list_filled();
}

template <typename Bin>
void TaskGains::sum_rows(const PresentTask& task) {
  const BinsOfRows<Bin> bins(matrix_.column(feature_));
  const auto sums_of = [&](std::size_t i) {
    return GradientSums{task.gradients[i].gradient, task.gradients[i].hessian};
  };
  const std::size_t n_rows = task.rows.size(), n_slots = segment_of_bin_.size();
  if (n_rows < n_slots) {
    for (std::size_t i = 0; i < n_rows; ++i) fill(segment_of_bin_[bins[task.rows[i]]], sums_of(i));
    return;
  }
  // A large task by bins first: neighbouring rows seldom share one, so that no addition waits for the one before.
  GradientSums* slots = bins_.data();
  for (std::size_t i = 0; i < n_rows; ++i) slots[bins[task.rows[i]]] += sums_of(i);
  for (std::size_t bin = 0; bin < n_slots; ++bin) {
    if (slots[bin] == GradientSums{}) continue;
    fill(segment_of_bin_[bin], slots[bin]);
    slots[bin] = {};
  }
}

// As sum_rows, but the heavy segment gets what the rows outside of it leave.
template <typename Bin>
void TaskGains::sum_light_rows(const PresentTask& task) {
  constexpr std::size_t kBlock = 16;  // rows read together where they are neighbours
  const std::span<const row_t> rows = task.rows;
  const BinsOfRows<Bin> bins(matrix_.column(feature_));
  const auto n_heavy_bins = static_cast<Bin>(heavy_end_ - heavy_begin_);
  const auto is_heavy_block = [&](const row_t* block) {
    if (block[kBlock - 1] - block[0] != kBlock - 1) return false;
    bool any_light = false;
    for (std::size_t i = 0; i < kBlock; ++i)
      any_light |= static_cast<Bin>(bins[block[0] + static_cast<row_t>(i)] - heavy_begin_) >= n_heavy_bins;
    return !any_light;
  };
  GradientSums heavy = task.sums;
  std::size_t n_light = 0;
  for (std::size_t begin = 0; begin < rows.size(); begin += kBlock) {
    const std::size_t end = std::min(begin + kBlock, rows.size());
    if (end == begin + kBlock && is_heavy_block(&rows[begin])) continue;
    // Listed first, without a jump that would be guessed wrong.
    std::size_t light[kBlock];
    std::uint32_t light_segments[kBlock];
    std::size_t n_listed = 0;
    for (std::size_t i = begin; i < end; ++i) {
      light[n_listed] = i;
      light_segments[n_listed] = segment_of_bin_[bins[rows[i]]];
      n_listed += light_segments[n_listed] != heavy_segment_;
    }
    for (std::size_t i = 0; i < n_listed; ++i) {
      const GradientPair& pair = task.gradients[light[i]];
      fill(light_segments[i], {pair.gradient, pair.hessian});
      heavy -= {pair.gradient, pair.hessian};
    }
    n_light += n_listed;
  }
  if (n_light < rows.size()) fill(heavy_segment_, heavy);
}

void TaskGains::sum_sparse_rows(const PresentTask& task) {
  std::size_t n_values = 0;
  GradientSums unstored = task.sums;
  for_each_value(matrix_.sparse_column(feature_), task.rows, [&](std::size_t position, bin_t bin) {
    const GradientPair& pair = task.gradients[position];
    fill(segment_of_bin_[bin], {pair.gradient, pair.hessian});
    unstored -= {pair.gradient, pair.hessian};
    ++n_values;
  });
  if (n_values < task.rows.size()) fill(segment_of_bin_[matrix_.edges().unstored_bin(feature_)], unstored);
  list_filled();
}

void TaskGains::find_gains(std::span<PairTask> pairs, std::span<const GradientPair> gradients) const noexcept {
  for (PairTask& pair : pairs) {
    const auto sums_of = [&](row_t row) { return GradientSums{gradients[row].gradient, gradients[row].hessian}; };
    const GradientSums a = sums_of(pair.rows[0]), b = sums_of(pair.rows[1]);
    pair.gain = (free_gain_(a) + free_gain_(b)) - free_gain_(a + b);
    if (!std::isfinite(pair.gain)) pair.gain = 0.0f;
    const double r = std::max(pair.gain, 0.0f);
    pair.log_term = r > 0.0 ? r * std::log(r) : 0.0;
  }
}

void TaskGains::add_pairs(std::span<const PairTask> pairs, const SplitScore& score) {
  if (pairs.empty()) return;
  if (matrix_.column(feature_).bytes_per_bin == 1)
    add_pairs<std::uint8_t>(pairs, score);
  else
    add_pairs<std::uint16_t>(pairs, score);
}

template <typename Bin>
void TaskGains::add_pairs(std::span<const PairTask> pairs, const SplitScore& score) {
  const BinsOfRows<Bin> bins(matrix_.column(feature_));
  const bool with_moments = score.needs_moments(), with_positives = score.needs_positive_sums();
  for (const PairTask& pair : pairs) {
    const auto [low, high] = std::minmax({segment_of_bin_[bins[pair.rows[0]]], segment_of_bin_[bins[pair.rows[1]]]});
    if (low == high) continue;
    const double s = pair.gain;
    for_each_range(low, high, [&](std::uint32_t first, std::uint32_t last, std::size_t direction) {
      if (with_moments) {
        moments_[direction][first].add({s, s * s}, 1.0);
        moments_[direction][last].add({s, s * s}, -1.0);
      }
      if (with_positives && pair.gain > 0.0f) {
        positives_[direction][first].add({s, pair.log_term, 1.0}, 1.0);
        positives_[direction][last].add({s, pair.log_term, 1.0}, -1.0);
      }
    });
  }
}

// The splits with rows in segments low < high on different sides, as ranges [first, last); direction as in Piece.
template <typename Add>
void TaskGains::for_each_range(std::uint32_t low, std::uint32_t high, Add&& add) const {
  const auto add_range = [&](std::uint32_t first, std::uint32_t last, std::size_t direction) {
    if (first < last) add(first, last, direction);
  };
  const bool is_one_hot = kind_ == SplitKind::one_hot;
  const std::uint32_t after_low = is_one_hot ? std::min(low + 1, n_splits_) : n_splits_;
  if (high <= n_splits_) {
    add_range(low, is_one_hot ? low + 1 : high, 0);
    if (is_one_hot) add_range(high, std::min(high + 1, n_splits_), 0);
    return;
  }
  if (any_missing_in_b_) add_range(low, after_low, 1);
  if (!any_missing_in_a_) return;
  add_range(0, std::min(low, n_splits_), 2);
  if (is_one_hot) add_range(low + 1, n_splits_, 2);
}

bool TaskGains::has_few_rows(const PresentTask& task) const noexcept {
  return task.rows.size() <= kFewRows && task.layer.empty() && !matrix_.is_sparse() && kind_ != SplitKind::one_hot;
}

// Tasks of few rows, many at a time: first the segments of all their rows, so that no load waits for a jump that was
// guessed wrong.
template <typename Sink>
void TaskGains::emit_few_rows(const NodeTasks& node, std::uint32_t begin, std::uint32_t end, Sink&& sink) {
  if (matrix_.column(feature_).bytes_per_bin == 1)
    find_segments<std::uint8_t>(node.tasks.subspan(begin, end - begin));
  else
    find_segments<std::uint16_t>(node.tasks.subspan(begin, end - begin));
  std::span<const std::uint32_t> segments(few_segments_);
  for (std::uint32_t task_index = begin; task_index < end; ++task_index) {
    const PresentTask& task = node.tasks[task_index];
    emit_sorted_rows(task, task_index, segments.first(task.rows.size()), sink);
    segments = segments.subspan(task.rows.size());
  }
}

template <typename Bin>
void TaskGains::find_segments(std::span<const PresentTask> tasks) {
  const BinsOfRows<Bin> bins(matrix_.column(feature_));
  std::uint32_t* next = few_segments_;
  for (const PresentTask& task : tasks)
    for (const row_t row : task.rows) *next++ = segment_of_bin_[bins[row]];
}

// The pieces of one task, row by row in ascending order of segment. No jump depends on the rows' order: pieces without a
// split are overwritten by the next.
template <typename Sink>
void TaskGains::emit_sorted_rows(const PresentTask& task, std::uint32_t task_index,
                                 std::span<const std::uint32_t> segments, Sink&& sink) {
  if (n_waiting_ + 2 * (kFewRows + 1) > kBatch) flush(sink);
  // Segment and row as one number; its rank is the number of smaller ones.
  std::int32_t keys[kFewRows], ranks[kFewRows]{}, sorted[kFewRows];
  for (std::size_t i = 0; i < kFewRows; ++i)
    keys[i] = i < segments.size() ? static_cast<std::int32_t>(segments[i] * kFewRows + i)
                                  : std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < kFewRows; ++i)
    for (std::size_t j = 0; j < kFewRows; ++j) ranks[j] += keys[i] < keys[j];
  for (std::size_t i = 0; i < segments.size(); ++i) sorted[ranks[i]] = keys[i];
  const auto segment_of = [&](std::size_t i) {
    return static_cast<std::uint32_t>(sorted[i]) / std::uint32_t{kFewRows};
  };
  const auto sums_of = [&](std::size_t i) {
    const GradientPair& pair = task.gradients[static_cast<std::size_t>(sorted[i]) % kFewRows];
    return GradientSums{pair.gradient, pair.hessian};
  };
  std::size_t n_known = segments.size();  // rows without a missing value
  GradientSums missing{};
  while (n_known > 0 && segment_of(n_known - 1) == n_splits_ + 1) missing += sums_of(--n_known);
  const auto emit_direction = [&](std::uint32_t direction) {
    GradientSums a = direction == 2 ? missing : GradientSums{};
    bool a_has_rows = direction == 2;
    std::uint32_t first = 0;
    for (std::size_t i = 0; i < n_known; ++i) {
      const std::uint32_t last = std::min(segment_of(i), n_splits_);
      write_piece(task, {first, last, task_index, direction}, a);
      n_waiting_ += static_cast<std::size_t>(a_has_rows & (first < last));
      a += sums_of(i);
      a_has_rows = true;
      first = last;
    }
    write_piece(task, {first, n_splits_, task_index, direction}, a);
    n_waiting_ += static_cast<std::size_t>((direction == 1) & a_has_rows & (first < n_splits_));
  };
  if (n_known == segments.size()) return emit_direction(0);
  if (any_missing_in_b_) emit_direction(1);
  if (any_missing_in_a_) emit_direction(2);
}

// The pieces of one task from its filled segments, which are empty again afterwards.
template <typename Sink>
void TaskGains::emit(const PresentTask& task, std::uint32_t task_index, Sink&& sink) {
  GradientSums& missing = segments_[n_splits_ + 1];
  if (!filled_.empty() && filled_.back() == n_splits_ + 1) {
    filled_.pop_back();
    if (any_missing_in_b_) emit_direction(task, task_index, filled_, 1, missing, sink);
    if (any_missing_in_a_) emit_direction(task, task_index, filled_, 2, missing, sink);
    missing = {};
  } else {
    emit_direction(task, task_index, filled_, 0, {}, sink);
  }
  for (const std::uint32_t segment : filled_) segments_[segment] = {};
}

template <typename Sink>
void TaskGains::emit_direction(const PresentTask& task, std::uint32_t task_index, std::span<const std::uint32_t> filled,
                               std::uint32_t direction, const GradientSums& missing, Sink&& sink) {
  const bool a_has_missing = direction == 2;
  const bool b_has_missing = direction == 1;
  const GradientSums empty_a = a_has_missing ? missing : GradientSums{};
  // A side without rows leaves the task unsplit: s^t is 0 exactly, and no piece is needed.
  if (kind_ == SplitKind::one_hot) {
    const bool b_always_has_rows = b_has_missing || filled.size() > 1;
    std::uint32_t next = 0;
    for (const std::uint32_t segment : filled) {
      if (a_has_missing && segment > next && !filled.empty())
        push(task, {next, std::min(segment, n_splits_), task_index, direction}, empty_a, sink);
      if (segment == n_splits_) return;
      if (b_always_has_rows)
        push(task, {segment, segment + 1, task_index, direction}, empty_a + segments_[segment], sink);
      next = segment + 1;
    }
    if (a_has_missing && next < n_splits_ && !filled.empty())
      push(task, {next, n_splits_, task_index, direction}, empty_a, sink);
    return;
  }
  GradientSums a = empty_a;
  std::uint32_t begin = 0;
  bool a_has_rows = a_has_missing;
  for (const std::uint32_t segment : filled) {
    const std::uint32_t end = std::min(segment, n_splits_);
    if (a_has_rows && begin < end) push(task, {begin, end, task_index, direction}, a, sink);
    if (segment == n_splits_) return;
    a += segments_[segment];
    a_has_rows = true;
    begin = segment;
  }
  if (b_has_missing && a_has_rows && begin < n_splits_) push(task, {begin, n_splits_, task_index, direction}, a, sink);
}

void TaskGains::write_piece(const PresentTask& task, const Piece& piece, const GradientSums& a) noexcept {
  const GradientSums b = task.sums - a;
  piece_[n_waiting_] = piece;
  a_gradient_[n_waiting_] = a.gradient;
  a_hessian_[n_waiting_] = a.hessian;
  b_gradient_[n_waiting_] = b.gradient;
  b_hessian_[n_waiting_] = b.hessian;
  node_gain_[n_waiting_] = task.gain;
}

template <typename Sink>
void TaskGains::push(const PresentTask& task, const Piece& piece, const GradientSums& a, Sink&& sink) {
  write_piece(task, piece, a);
  if (++n_waiting_ == kBatch) flush(sink);
}

MTBOOST_VECTOR_CLONES
void TaskGains::find_waiting_gains() noexcept {
  const auto waiting = [this](auto& of_pieces) { return std::span(of_pieces).first(n_waiting_); };
  free_gain_.of_many(waiting(a_gradient_), waiting(a_hessian_), waiting(a_gain_));
  free_gain_.of_many(waiting(b_gradient_), waiting(b_hessian_), waiting(b_gain_));
  for (std::size_t i = 0; i < n_waiting_; ++i) gain_[i] = (a_gain_[i] + b_gain_[i]) - node_gain_[i];
}

template <typename Sink>
void TaskGains::flush(Sink&& sink) {
  find_waiting_gains();
  for (std::size_t i = 0; i < n_waiting_; ++i)
    // λ = 0 and a side whose hessians are all 0: no number, no gain.
    if (gain_[i] != 0.0f && std::isfinite(gain_[i])) sink(piece_[i], gain_[i]);
  n_waiting_ = 0;
}

std::span<const TaskGainSums> TaskGains::sums(const NodeTasks& node, std::span<const Candidate> candidates,
                                              std::span<const bin_t> category_order, const SplitScore& score) {
  number_splits(candidates, category_order);
  const bool with_moments = score.needs_moments(), with_positives = score.needs_positive_sums();
  const std::array<bool, 3> has_direction{true, any_missing_in_b_, any_missing_in_a_};
  for (std::size_t direction = 0; direction < 3; ++direction) {
    if (has_direction[direction] && with_moments) moments_[direction].assign(n_splits_ + 1, {});
    if (has_direction[direction] && with_positives) positives_[direction].assign(n_splits_ + 1, {});
  }
  add_pairs(node.pairs, score);
  // Most pieces begin where the one before ends: there the change from one to the other is added, in one step.
  Piece open{0, 0, 0, 0};
  Moments open_moments{};
  Positives open_positives{};
  const auto change_to = [&](const Piece& piece, const Moments& moments, const Positives& positives) {
    const bool goes_on = piece.task == open.task && piece.direction == open.direction && piece.first == open.last;
    if (with_moments) {
      if (!goes_on) moments_[open.direction][open.last].add(open_moments, -1.0);
      Moments change = moments;
      if (goes_on) change.add(open_moments, -1.0);
      moments_[piece.direction][piece.first].add(change, 1.0);
    }
    if (with_positives) {
      if (!goes_on) positives_[open.direction][open.last].add(open_positives, -1.0);
      Positives change = positives;
      if (goes_on) change.add(open_positives, -1.0);
      positives_[piece.direction][piece.first].add(change, 1.0);
    }
    open = piece;
    open_moments = moments;
    open_positives = positives;
  };
  for_each_piece(node, [&](const Piece& piece, float gain) {
    const double s = gain;
    change_to(piece, {s, s * s}, with_positives && gain > 0.0f ? Positives{s, s * std::log(s), 1.0} : Positives{});
  });
  change_to({n_splits_, n_splits_, 0, 0}, {}, {});
  const auto sum_up = [](auto& differences) {
    for (std::size_t split = 1; split < differences.size(); ++split)
      differences[split].add(differences[split - 1], 1.0);
  };
  for (std::size_t direction = 0; direction < 3; ++direction) {
    if (has_direction[direction] && with_moments) sum_up(moments_[direction]);
    if (has_direction[direction] && with_positives) sum_up(positives_[direction]);
  }
  sums_.assign(candidates.size(), {});
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::uint32_t split = split_of_candidate_[i];
    for (const int direction : {0, candidates[i].rule.missing_in_a() ? 2 : 1}) {
      const Moments moments = with_moments ? moments_[direction][split] : Moments{};
      const Positives positives = with_positives ? positives_[direction][split] : Positives{};
      sums_[i] += {moments.sum, moments.sum_of_squares, positives.sum, positives.log_sum,
                   static_cast<std::int32_t>(positives.number)};
    }
  }
  return sums_;
}

std::span<const float> TaskGains::every_gain(const NodeTasks& node, std::span<const Candidate> candidates,
                                             std::span<const bin_t> category_order) {
  number_splits(candidates, category_order);
  const std::size_t n_tasks = node.tasks.size();
  std::vector<float> by_split[3];
  for (auto& gains : by_split) gains.assign(n_splits_ * n_tasks, 0.0f);
  for_each_piece(node, [&](const Piece& piece, float gain) {
    for (std::uint32_t split = piece.first; split < piece.last; ++split)
      by_split[piece.direction][split * n_tasks + piece.task] = gain;
  });
  every_gain_.resize(candidates.size() * n_tasks);
  for (std::size_t i = 0; i < candidates.size(); ++i)
    for (std::size_t task = 0; task < n_tasks; ++task) {
      const std::size_t at = split_of_candidate_[i] * n_tasks + task;
      every_gain_[i * n_tasks + task] = by_split[0][at] + by_split[candidates[i].rule.missing_in_a() ? 2 : 1][at];
    }
  return every_gain_;
}

}  // namespace mtboost
