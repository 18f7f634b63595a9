// SPDX-License-Identifier: Apache-2.0
#include "boosting/projected_boosting.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/random.hpp"
#include "base/ranges.hpp"
#include "base/require.hpp"
#include "boosting/feature_draw.hpp"
#include "boosting/line_search.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerRun = 512;
constexpr std::size_t kMostRuns = 256;       // but for those that leaves begin
constexpr std::size_t kOutputsPerTile = 16;  // one cache line of labels, one of margins

// The longest step of Newton's method, in log-odds, that cannot raise the loss. Along a line of length a in the
// log-odds of each row |third derivative| <= |second| holds for the logistic loss, and with a the largest difference of
// two classes for softmax (Bach, Electronic Journal of Statistics 4, 2010), so that a step t <= G / H changes the loss
// by at most -G t + H t² (exp(a) - 1 - a) / a², which is not positive up to exp(a) - 1 - a = a².
constexpr double kLongestStep = 1.79;

// An output whose rows a tree separates would get an infinite weight: no row moves further than this.
constexpr double kMostLogOdds = 10.0;

double newton_step(double residuals, double hessians) noexcept {
  if (residuals == 0.0) return 0.0;
  return std::clamp(residuals / hessians, -kLongestStep, kLongestStep);  // infinite where rounding left no hessian
}

// Steps of all classes, shortened together. scale: log-odds per unit of the steps.
void shorten(std::span<double> steps, double scale) noexcept {
  const auto [least, most] = std::ranges::minmax(steps);
  const double length = scale * (most - least);
  if (length > kLongestStep)
    for (double& step : steps) step *= kLongestStep / length;
}

}  // namespace

void BoostingParams::check(feature_t n_features, std::size_t n_outputs) const {
  require_positive("learning_rate", learning_rate);
  tree.check(n_features);
  check_components(n_components(n_outputs));
  if (const auto* random = std::get_if<ForestProjection>(&projection)) {
    require(!random->given || random->given->n_outputs() == n_outputs,
            "the projection is of another number of outputs");
    require(random->given || random->n_components <= most_components(random->kind, n_outputs),
            "there are more components than this projection can have");
  }
  require(relabels || n_components(n_outputs) == 1, "without relabelling there is one component");
}

std::size_t BoostingParams::n_components(std::size_t n_outputs) const noexcept {
  if (const auto* random = std::get_if<ForestProjection>(&projection)) return random->n_components;
  if (const auto* residual = std::get_if<ResidualProjection>(&projection)) return residual->n_components;
  return n_outputs;
}

ProjectedBoosting::ProjectedBoosting(const BinnedMatrix& matrix, OutputLoss loss, const LabelledRows& labels,
                                     BoostingParams params, BoostedModel model, std::span<const float> start,
                                     ThreadPool& pool)
    : matrix_(matrix),
      loss_(loss),
      labels_(labels),
      params_(std::move(params)),
      model_(std::move(model)),
      grower_(matrix) {
  require(labels.n_rows > 0 && labels.n_rows == matrix.n_rows(),
          "labels and table must have the same rows, at least one");
  require(matrix.n_features() > 0, "the table has no features");
  loss_.check(labels);
  params_.check(matrix.n_features(), n_outputs());
  if (model_.initial.empty()) {
    require(start.empty(), "a new model starts from its constants");
    model_.n_features = matrix.n_features();
    model_.relabels = params_.relabels;
    model_.initial = loss_.initial(labels_, pool);
    margins_.reserve(n_rows() * n_outputs());
    for (std::size_t row = 0; row < n_rows(); ++row)
      margins_.insert(margins_.end(), model_.initial.begin(), model_.initial.end());
  } else {
    model_.check();
    require(model_.n_outputs() == n_outputs() && model_.n_features == matrix.n_features() &&
                model_.relabels == params_.relabels,
            "the model has other outputs, features or leaves");
    require(start.size() == n_rows() * n_outputs(), "a model that goes on needs the margins of its rows");
    margins_.assign(start.begin(), start.end());
  }
  residuals_.resize(margins_.size());
  std::vector<double> losses(n_rows());
  pool.parallel_for(n_rows(), [&](std::size_t row) { losses[row] = update_residuals(static_cast<row_t>(row)); });
  loss_sum_ = std::accumulate(losses.begin(), losses.end(), 0.0);
  weigh_rows();
}

// Computes the residuals of a row at its margins; returns its loss.
double ProjectedBoosting::update_residuals(row_t row) noexcept {
  loss_.residuals(margins_of(row), labels_.labels_of(row), residuals_of(row));
  return loss_.loss_of_row(margins_of(row), labels_, row);
}

void ProjectedBoosting::set_feature_weights(std::vector<double> weights) {
  check_feature_weights(weights, matrix_.n_features());
  params_.tree.feature_weights = std::move(weights);
}

float ProjectedBoosting::label_weight(row_t row, std::size_t output) const noexcept {
  return labels_.weight(row, labels_.n_labels == 1 ? 0 : output);
}

void ProjectedBoosting::weigh_rows() {
  bool are_all_1 = true;
  row_weights_.resize(n_rows());
  for (std::size_t row = 0; row < n_rows(); ++row) {
    const std::span<const float> labels(labels_.labels_of(row), labels_.n_labels);
    are_all_known_ &= std::ranges::none_of(labels, [](float label) { return std::isnan(label); });
    const double sum = labels_.known_weight(row);
    known_weight_ += sum;
    row_weights_[row] = static_cast<float>(sum / static_cast<double>(labels_.n_labels));
    are_all_1 &= row_weights_[row] == 1.0f;
  }
  if (are_all_1) row_weights_.clear();
}

void ProjectedBoosting::draw_rows(std::uint64_t tree) {
  rows_.clear();
  others_.clear();
  RandomStream random(RandomStream::Purpose::rows, params_.tree.seed, tree);
  for (row_t row = 0; row < n_rows(); ++row) {
    const bool is_drawn = params_.tree.subsample >= 1.0 || random.uniform() < params_.tree.subsample;
    const bool is_known = row_weights_.empty() || row_weights_[row] > 0.0f;
    (is_drawn && is_known ? rows_ : others_).push_back(row);
  }
}

void ProjectedBoosting::weighted_residuals(row_t row, float* out) const noexcept {
  const float* const own = residuals_of(row);
  for (std::size_t j = 0; j < n_outputs(); ++j)
    out[j] = labels_.weights.empty() ? own[j] : label_weight(row, j) * own[j];
}

Directions ProjectedBoosting::make_directions(std::uint64_t tree, ThreadPool& pool) const {
  if (const auto* random = std::get_if<ForestProjection>(&params_.projection))
    return Directions(projection_of_tree(*random, n_outputs(), params_.tree.seed, tree));
  const auto* const residual = std::get_if<ResidualProjection>(&params_.projection);
  if (residual == nullptr) return Directions::of_outputs(n_outputs());
  std::vector<float> weighted;
  if (!labels_.weights.empty()) {
    weighted.resize(residuals_.size());
    pool.parallel_for(rows_.size(),
                      [&](std::size_t i) { weighted_residuals(rows_[i], &weighted[rows_[i] * n_outputs()]); });
  }
  const RandomStream stream(RandomStream::Purpose::projection_of_tree, params_.tree.seed, tree);
  return Directions(make_residual_projection(residual->kind, residual->n_components,
                                             {weighted.empty() ? residuals_ : weighted, rows_, n_outputs()}, stream,
                                             pool));
}

Components ProjectedBoosting::project(const Directions& directions, ThreadPool& pool) const {
  Components components(directions.n_components(), static_cast<row_t>(n_rows()), !row_weights_.empty());
  pool.parallel_for((rows_.size() + kRowsPerRun - 1) / kRowsPerRun, [&](std::size_t block) {
    std::vector<float> weighted(labels_.weights.empty() ? 0 : Directions::kRows * n_outputs());
    const std::size_t end = std::min((block + 1) * kRowsPerRun, rows_.size());
    for (std::size_t begin = block * kRowsPerRun; begin < end; begin += Directions::kRows) {
      const std::size_t n = std::min(Directions::kRows, end - begin);
      const float* residuals[Directions::kRows];
      float* own[Directions::kRows];
      for (std::size_t i = 0; i < n; ++i) {
        const row_t row = rows_[begin + i];
        residuals[i] = residuals_of(row);
        own[i] = components.row(row);
        if (!row_weights_.empty()) own[i][components.weight_at()] = row_weights_[row];
        if (weighted.empty()) continue;
        weighted_residuals(row, &weighted[i * n_outputs()]);
        residuals[i] = &weighted[i * n_outputs()];
      }
      directions.project(std::span(residuals).first(n), std::span(own).first(n));
    }
  });
  components.round(rows_, pool);
  return components;
}

void ProjectedBoosting::update(ThreadPool& pool, const std::function<void()>& check_interrupt) {
  const std::uint64_t number = model_.trees.size();
  draw_rows(number);
  DecisionTree tree;
  if (!rows_.empty()) {
    const Components components = project(make_directions(number, pool), pool);
    tree = grower_.grow(components, rows_, others_, params_.tree, number, pool, check_interrupt);
  } else {
    tree.nodes.emplace_back();
    tree.impurity.push_back(0.0);
    tree.weight.push_back(0.0f);
  }
  const std::size_t d = n_outputs(), n_leaves = tree.nodes.size() / 2 + 1;
  tree.leaves.n_outputs = params_.relabels ? static_cast<std::uint32_t>(d) : 1;
  tree.leaves.values.assign(n_leaves * tree.leaves.n_outputs, 0.0);
  std::vector<float> weights(params_.relabels ? 0 : d, 0.0f), steps;
  if (n_leaves > 1) {
    steps.resize(n_leaves * d);
    if (params_.relabels) {
      const auto values = leaf_values(pool);
      std::ranges::transform(values, steps.begin(),
                             [&](double value) { return static_cast<float>(params_.learning_rate * value); });
      std::ranges::copy(steps, tree.leaves.values.begin());
    } else {
      std::vector<float> numbers(n_leaves);
      for (std::size_t leaf = 0; leaf < n_leaves; ++leaf)
        numbers[leaf] = static_cast<float>(grower_.mean_of_first(leaf));
      const auto along = output_weights(numbers, pool);
      std::ranges::transform(along, weights.begin(),
                             [&](double value) { return static_cast<float>(params_.learning_rate * value); });
      std::ranges::copy(numbers, tree.leaves.values.begin());
      for (std::size_t leaf = 0; leaf < n_leaves; ++leaf)
        for (std::size_t j = 0; j < d; ++j) steps[leaf * d + j] = numbers[leaf] * weights[j];
    }
  }
  const std::size_t n_weights = model_.output_weights.size();
  try {
    model_.output_weights.insert(model_.output_weights.end(), weights.begin(), weights.end());
    model_.trees.push_back(std::move(tree));
    if (!steps.empty()) add(steps, pool);
  } catch (...) {  // there was no memory; add() allocates before it changes a margin
    model_.trees.resize(number);
    model_.output_weights.resize(n_weights);
    throw;
  }
}

std::vector<ProjectedBoosting::Run> ProjectedBoosting::runs_of_leaves(bool with_others) const {
  const std::size_t most = std::max(kRowsPerRun, n_rows() / kMostRuns);
  std::vector<Run> runs;
  const auto add_runs = [&](std::size_t leaf, std::span<const row_t> rows) {
    for (std::size_t begin = 0; begin < rows.size(); begin += most)
      runs.push_back({leaf, rows.subspan(begin, std::min(most, rows.size() - begin))});
  };
  for (std::size_t leaf = 0; leaf < grower_.n_leaves(); ++leaf) {
    add_runs(leaf, grower_.rows(leaf));
    if (with_others) add_runs(leaf, grower_.others(leaf));
  }
  return runs;
}

ProjectedBoosting::LeafSums ProjectedBoosting::leaf_sums(ThreadPool& pool) const {
  const std::size_t d = n_outputs();
  // Then the sum of hessians is the weight of the leaf, for all outputs.
  const bool are_hessians_1 =
      loss_.kind() == OutputLossKind::squared && are_all_known_ && !labels_.has_weight_per_label();
  const auto runs = runs_of_leaves(false);
  std::vector<LeafSums> of_runs(runs.size());
  pool.parallel_for(runs.size(), [&](std::size_t run) {
    LeafSums sums{std::vector<double>(d, 0.0), std::vector<double>(d, 0.0)};
    std::vector<float> hessians(d);
    double total = 0.0;
    for (const row_t row : runs[run].rows) {
      const float* const residuals = residuals_of(row);
      const float weight = labels_.weight(row, 0);
      total += weight;
      if (!are_hessians_1) loss_.hessians(residuals, labels_.labels_of(row), hessians.data());
      if (labels_.has_weight_per_label()) {
        for (std::size_t j = 0; j < d; ++j) {
          const float own = label_weight(row, j);
          sums.residuals[j] += double{own * residuals[j]};
          sums.hessians[j] += double{own * hessians[j]};
        }
        continue;
      }
      double* const of_outputs = sums.residuals.data();
#pragma omp simd
      for (std::size_t j = 0; j < d; ++j) of_outputs[j] += double{weight * residuals[j]};
      if (!are_hessians_1)
        for (std::size_t j = 0; j < d; ++j) sums.hessians[j] += double{weight * hessians[j]};
    }
    if (are_hessians_1) std::ranges::fill(sums.hessians, total);
    of_runs[run] = std::move(sums);
  });
  LeafSums all{std::vector<double>(grower_.n_leaves() * d, 0.0), std::vector<double>(grower_.n_leaves() * d, 0.0)};
  for (std::size_t run = 0; run < runs.size(); ++run)
    for (std::size_t j = 0; j < d; ++j) {
      all.residuals[runs[run].leaf * d + j] += of_runs[run].residuals[j];
      all.hessians[runs[run].leaf * d + j] += of_runs[run].hessians[j];
    }
  return all;
}

std::vector<double> ProjectedBoosting::leaf_values(ThreadPool& pool) const {
  const OutputLossKind kind = loss_.kind();
  if (kind == OutputLossKind::absolute || kind == OutputLossKind::huber) return leaf_minima(pool);
  LeafSums sums = leaf_sums(pool);
  std::vector<double> values(sums.residuals.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double residuals = sums.residuals[i], hessians = sums.hessians[i];
    values[i] = kind != OutputLossKind::squared ? newton_step(residuals, hessians)
                : hessians > 0.0                ? residuals / hessians
                                                : 0.0;
  }
  if (kind == OutputLossKind::softmax)
    for (std::size_t leaf = 0; leaf < grower_.n_leaves(); ++leaf)
      shorten(std::span(values).subspan(leaf * n_outputs(), n_outputs()), 1.0);
  return values;
}

std::vector<double> ProjectedBoosting::leaf_minima(ThreadPool& pool) const {
  const std::size_t d = n_outputs(), n_tiles = (d + kOutputsPerTile - 1) / kOutputsPerTile;
  std::vector<double> values(grower_.n_leaves() * d, 0.0);
  pool.parallel_for(grower_.n_leaves() * n_tiles, [&](std::size_t task) {
    const std::size_t leaf = task / n_tiles, begin = task % n_tiles * kOutputsPerTile;
    const std::size_t end = std::min(begin + kOutputsPerTile, d);
    std::vector<std::vector<LinePoint>> points(end - begin);
    for (auto& of_output : points) of_output.reserve(grower_.rows(leaf).size());
    for (const row_t row : grower_.rows(leaf))
      for (std::size_t j = begin; j < end; ++j) {
        const float label = labels_.labels_of(row)[j], weight = label_weight(row, j);
        if (!std::isnan(label) && weight > 0.0f)
          points[j - begin].push_back({label - margins_[row * d + j], 1.0f, weight});
      }
    for (std::size_t j = begin; j < end; ++j)
      values[leaf * d + j] = loss_.kind() == OutputLossKind::absolute
                                 ? absolute_step(points[j - begin])
                                 : huber_step(points[j - begin], loss_.huber_delta());
  });
  return values;
}

std::vector<double> ProjectedBoosting::output_weights(std::span<const float> leaf_numbers, ThreadPool& pool) const {
  const OutputLossKind kind = loss_.kind();
  if (kind != OutputLossKind::squared && kind != OutputLossKind::softmax) return line_minima(leaf_numbers, pool);
  const std::size_t d = n_outputs();
  const LeafSums sums = leaf_sums(pool);
  std::vector<double> along(d, 0.0), curvature(d, 0.0);
  double largest = 0.0;
  for (std::size_t leaf = 0; leaf < leaf_numbers.size(); ++leaf) {
    const double number = leaf_numbers[leaf];
    largest = std::max(largest, std::abs(number));
    for (std::size_t j = 0; j < d; ++j) {
      along[j] += number * sums.residuals[leaf * d + j];
      curvature[j] += number * number * sums.hessians[leaf * d + j];
    }
  }
  for (std::size_t j = 0; j < d; ++j) {
    if (kind == OutputLossKind::squared)
      along[j] = curvature[j] > 0.0 ? along[j] / curvature[j] : 0.0;
    else
      along[j] = newton_step(along[j] * largest, curvature[j]) / largest;
  }
  if (kind == OutputLossKind::softmax) shorten(along, largest);
  return along;
}

std::vector<double> ProjectedBoosting::line_minima(std::span<const float> leaf_numbers, ThreadPool& pool) const {
  const std::size_t d = n_outputs();
  const bool is_logistic = loss_.kind() == OutputLossKind::logistic;
  std::vector<float> direction(n_rows());
  double largest = 0.0;
  for (std::size_t leaf = 0; leaf < leaf_numbers.size(); ++leaf) {
    largest = std::max(largest, std::abs(double{leaf_numbers[leaf]}));
    for (const row_t row : grower_.rows(leaf)) direction[row] = leaf_numbers[leaf];
  }
  std::vector<double> weights(d, 0.0);
  pool.parallel_for((d + kOutputsPerTile - 1) / kOutputsPerTile, [&](std::size_t tile) {
    const std::size_t begin = tile * kOutputsPerTile, end = std::min(begin + kOutputsPerTile, d);
    std::vector<std::vector<LinePoint>> points(end - begin);
    for (auto& of_output : points) of_output.reserve(rows_.size());
    for (const row_t row : rows_)
      for (std::size_t j = begin; j < end; ++j) {
        const float label = labels_.labels_of(row)[j], weight = label_weight(row, j), margin = margins_[row * d + j];
        if (!std::isnan(label) && weight > 0.0f)
          points[j - begin].push_back({is_logistic ? margin : label - margin, direction[row], weight, label});
      }
    for (std::size_t j = begin; j < end; ++j) {
      const auto& own = points[j - begin];
      weights[j] = is_logistic                                ? logistic_step(own, kMostLogOdds / largest)
                   : loss_.kind() == OutputLossKind::absolute ? absolute_step(own)
                                                              : huber_step(own, loss_.huber_delta());
    }
  });
  return weights;
}

void ProjectedBoosting::add(std::span<const float> steps, ThreadPool& pool) {
  const std::size_t d = n_outputs();
  const auto runs = runs_of_leaves(true);
  std::vector<double> losses(runs.size(), 0.0);
  pool.parallel_for(runs.size(), [&](std::size_t run) {
    const float* const own = steps.data() + runs[run].leaf * d;
    for (const row_t row : runs[run].rows) {
      float* const margins = margins_of(row);
#pragma omp simd
      for (std::size_t j = 0; j < d; ++j) margins[j] += own[j];
      losses[run] += update_residuals(row);
    }
  });
  loss_sum_ = std::accumulate(losses.begin(), losses.end(), 0.0);
}

}  // namespace mtboost
