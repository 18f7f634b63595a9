// SPDX-License-Identifier: Apache-2.0
#include "boosting/output_loss.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/require.hpp"
#include "boosting/line_search.hpp"
#include "boosting/logistic.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 1024;

// ln(1 + exp(x))
double softplus(double x) noexcept { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// Σ ln(1 + exp(margin)) - label margin over known labels. The sum of logarithms is the logarithm of a product, whose
// factors lie between 1 and 2: some hundred of them are one logarithm.
double sum_of_logistic_losses(const float* margins, const float* labels, std::size_t n) noexcept {
  constexpr std::size_t kFactors = 512;
  double sum = 0.0;
  for (std::size_t begin = 0; begin < n; begin += kFactors) {
    double product = 1.0;
    for (std::size_t j = begin; j < std::min(begin + kFactors, n); ++j) {
      const bool is_known = labels[j] == labels[j];
      const float margin = margins[j];
      product *= 1.0 + double{is_known ? exp_of_negative(-std::abs(margin)) : 0.0f};
      sum += double{is_known ? std::max(margin, 0.0f) - labels[j] * margin : 0.0f};
    }
    sum += std::log(product);
  }
  return sum;
}

// Σ ½ (label - margin)² over known labels, in eight sums side by side.
double sum_of_squared_losses(const float* margins, const float* labels, std::size_t n) noexcept {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  const auto add = [&](std::size_t lane, std::size_t j) {
    const double difference = double{labels[j]} - double{margins[j]},
                 known = difference == difference ? difference : 0.0;
    sums[lane] += known * known;
  };
  std::size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
#pragma omp simd
    for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, j + lane);
  }
  for (; j < n; ++j) add(0, j);
  return 0.5 * std::accumulate(sums, sums + kLanes, 0.0);
}

double from_0_and_1(double p, double n) noexcept { return std::clamp(p, 0.5 / n, 1.0 - 0.5 / n); }

std::size_t n_blocks_of(std::size_t n_rows) noexcept { return (n_rows + kRowsPerBlock - 1) / kRowsPerBlock; }
std::size_t end_of_block(std::size_t block, std::size_t n_rows) noexcept {
  return std::min((block + 1) * kRowsPerBlock, n_rows);
}

std::string numbers_of(std::size_t n) { return std::to_string(n) + (n == 1 ? " number" : " numbers"); }

}  // namespace

OutputLossKind output_loss_named(const std::string& name) {
  constexpr std::pair<const char*, OutputLossKind> kKinds[] = {{"squared", OutputLossKind::squared},
                                                               {"absolute", OutputLossKind::absolute},
                                                               {"huber", OutputLossKind::huber},
                                                               {"logistic", OutputLossKind::logistic},
                                                               {"softmax", OutputLossKind::softmax}};
  for (const auto& [known, kind] : kKinds)
    if (name == known) return kind;
  throw std::invalid_argument("there is no loss of many outputs named '" + name + "'");
}

OutputLoss::OutputLoss(OutputLossKind kind, std::size_t n_outputs, float huber_delta)
    : kind_(kind), n_outputs_(n_outputs), huber_delta_(huber_delta) {
  require(n_outputs >= (kind == OutputLossKind::softmax ? 2u : 1u),
          kind == OutputLossKind::softmax ? "softmax needs two classes" : "a loss needs an output");
  require(std::isfinite(huber_delta) && huber_delta > 0.0f, "huber_delta must be finite and above 0");
}

void OutputLoss::check_classes(const LabelledRows& rows) const {
  if (kind_ != OutputLossKind::softmax) return;
  for (const float label : rows.labels)
    require(std::isnan(label) || (label >= 0.0f && label < static_cast<float>(n_outputs_)),
            "labels must be classes, 0 to n_outputs - 1, or NaN where they are unknown");
}

void OutputLoss::check(const LabelledRows& rows) const {
  require(rows.n_labels == n_labels() && rows.labels.size() == rows.n_rows * rows.n_labels,
          [&] { return "labels must hold " + numbers_of(n_labels()) + " a row"; });
  require(rows.weights.empty() || rows.weights.size() == rows.n_rows || rows.weights.size() == rows.labels.size(),
          "weights must hold one number a row, or one a label");
  const auto is_allowed = [&](float label) {
    if (std::isnan(label) || kind_ < OutputLossKind::logistic) return !std::isinf(label);
    if (kind_ == OutputLossKind::logistic) return label >= 0.0f && label <= 1.0f;
    return label >= 0.0f && label < static_cast<float>(n_outputs_) && std::floor(label) == label;
  };
  const auto found = std::ranges::find_if_not(rows.labels, is_allowed);
  require(found == rows.labels.end(), [&] {
    const auto at = static_cast<std::size_t>(found - rows.labels.begin());
    const char* domain = kind_ == OutputLossKind::logistic  ? "from 0 to 1"
                         : kind_ == OutputLossKind::softmax ? "classes, 0 to n_outputs - 1"
                                                            : "finite";
    return "labels must be " + std::string(domain) + ", or NaN where they are unknown; row " +
           std::to_string(at / rows.n_labels) + ", label " + std::to_string(at % rows.n_labels) + " is " +
           std::to_string(*found);
  });
  require(std::ranges::all_of(rows.weights, [](float weight) { return weight >= 0.0f && std::isfinite(weight); }),
          "weights must be finite and not negative");
}

std::vector<float> OutputLoss::initial(const LabelledRows& rows, ThreadPool& pool) const {
  switch (kind_) {
    case OutputLossKind::softmax: return log_priors(rows);
    case OutputLossKind::absolute:
    case OutputLossKind::huber: {
      std::vector<float> constants(n_outputs_);
      pool.parallel_for(n_outputs_, [&](std::size_t output) { constants[output] = centre(rows, output); });
      return constants;
    }
    default: return means(rows, pool);
  }
}

float OutputLoss::centre(const LabelledRows& rows, std::size_t output) const {
  std::vector<LinePoint> known;
  for (std::size_t row = 0; row < rows.n_rows; ++row) {
    const float label = rows.labels_of(row)[output], weight = rows.weight(row, output);
    if (!std::isnan(label) && weight > 0.0f) known.push_back({label, 1.0f, weight});
  }
  if (known.empty()) return 0.0f;
  return static_cast<float>(kind_ == OutputLossKind::absolute ? absolute_step(known) : huber_step(known, huber_delta_));
}

std::vector<float> OutputLoss::means(const LabelledRows& rows, ThreadPool& pool) const {
  struct Sums {
    double label = 0.0, weight = 0.0, known = 0.0;
  };
  const std::size_t n_blocks = n_blocks_of(rows.n_rows);
  std::vector<std::vector<Sums>> blocks(n_blocks);
  pool.parallel_for(n_blocks, [&](std::size_t block) {
    std::vector<Sums> sums(n_outputs_);
    for (std::size_t row = block * kRowsPerBlock; row < end_of_block(block, rows.n_rows); ++row) {
      const float* labels = rows.labels_of(row);
      for (std::size_t output = 0; output < n_outputs_; ++output) {
        const float weight = rows.weight(row, output);
        if (std::isnan(labels[output]) || weight <= 0.0f) continue;
        sums[output].label += double{weight} * labels[output];
        sums[output].weight += weight;
        sums[output].known += 1.0;
      }
    }
    blocks[block] = std::move(sums);
  });
  std::vector<float> constants(n_outputs_, 0.0f);
  for (std::size_t output = 0; output < n_outputs_; ++output) {
    Sums all;
    for (const auto& sums : blocks) {
      all.label += sums[output].label;
      all.weight += sums[output].weight;
      all.known += sums[output].known;
    }
    if (all.known == 0.0) continue;
    const double mean = all.label / all.weight, p = from_0_and_1(mean, all.known);
    constants[output] = static_cast<float>(kind_ == OutputLossKind::logistic ? std::log(p / (1.0 - p)) : mean);
  }
  return constants;
}

std::vector<float> OutputLoss::log_priors(const LabelledRows& rows) const {
  std::vector<double> sums(n_outputs_, 0.0);
  double total = 0.0, n_known = 0.0;
  for (std::size_t row = 0; row < rows.n_rows; ++row) {
    const float label = rows.labels[row], weight = rows.weight(row, 0);
    if (std::isnan(label) || weight <= 0.0f) continue;
    sums[static_cast<std::size_t>(label)] += weight;
    total += weight;
    n_known += 1.0;
  }
  std::vector<float> constants(n_outputs_, 0.0f);
  if (n_known > 0.0)
    for (std::size_t k = 0; k < n_outputs_; ++k)
      constants[k] = static_cast<float>(std::log(from_0_and_1(sums[k] / total, n_known)));
  return constants;
}

void OutputLoss::residuals(const float* margins, const float* labels, float* residuals) const noexcept {
  // Each loop is free of branches: what comes of an unknown label is NaN, and replaced by 0 at the end.
  const auto known_or_0 = [](float residual) { return residual == residual ? residual : 0.0f; };
  switch (kind_) {
    case OutputLossKind::squared:
      for (std::size_t j = 0; j < n_outputs_; ++j) residuals[j] = known_or_0(labels[j] - margins[j]);
      return;
    case OutputLossKind::absolute:
      for (std::size_t j = 0; j < n_outputs_; ++j)
        residuals[j] = static_cast<float>(labels[j] > margins[j]) - static_cast<float>(labels[j] < margins[j]);
      return;
    case OutputLossKind::huber:
      for (std::size_t j = 0; j < n_outputs_; ++j)
        residuals[j] = std::clamp(known_or_0(labels[j] - margins[j]), -huber_delta_, huber_delta_);
      return;
    case OutputLossKind::logistic:
      for (std::size_t j = 0; j < n_outputs_; ++j) residuals[j] = known_or_0(logistic_residual(labels[j], margins[j]));
      return;
    case OutputLossKind::softmax: {
      if (std::isnan(labels[0])) {
        std::fill_n(residuals, n_outputs_, 0.0f);
        return;
      }
      const float largest = *std::max_element(margins, margins + n_outputs_);
      double sum = 0.0;
      for (std::size_t k = 0; k < n_outputs_; ++k) residuals[k] = exp_of_negative(margins[k] - largest);
      for (std::size_t k = 0; k < n_outputs_; ++k) sum += double{residuals[k]};
      const auto scale = static_cast<float>(-1.0 / sum);
      for (std::size_t k = 0; k < n_outputs_; ++k) residuals[k] *= scale;
      residuals[static_cast<std::size_t>(labels[0])] += 1.0f;
    }
  }
}

void OutputLoss::hessians(const float* residuals, const float* labels, float* hessians) const noexcept {
  switch (kind_) {
    case OutputLossKind::logistic:
      for (std::size_t j = 0; j < n_outputs_; ++j) {
        const float hessian = (labels[j] - residuals[j]) * ((1.0f - labels[j]) + residuals[j]);  // p (1 - p)
        hessians[j] = hessian == hessian ? hessian : 0.0f;
      }
      return;
    case OutputLossKind::softmax: {
      const bool is_known = !std::isnan(labels[0]);
      const float factor = is_known ? 2.0f : 0.0f;
      for (std::size_t k = 0; k < n_outputs_; ++k) {  // |r| is p, or 1 - p of the row's class
        const float r = std::abs(residuals[k]);
        hessians[k] = factor * r * (1.0f - r);
      }
      return;
    }
    default:
      for (std::size_t j = 0; j < n_outputs_; ++j) hessians[j] = labels[j] == labels[j] ? 1.0f : 0.0f;
  }
}

double OutputLoss::loss_of_row(const float* margins, const LabelledRows& rows, std::size_t row) const noexcept {
  const float* labels = rows.labels_of(row);
  if (kind_ == OutputLossKind::softmax) {
    if (std::isnan(labels[0])) return 0.0;
    const float largest = *std::max_element(margins, margins + n_outputs_);
    double sum = 0.0;
    for (std::size_t k = 0; k < n_outputs_; ++k) sum += std::exp(double{margins[k]} - largest);
    return rows.weight(row, 0) * (std::log(sum) + largest - margins[static_cast<std::size_t>(labels[0])]);
  }
  if (kind_ == OutputLossKind::logistic && !rows.has_weight_per_label())
    return rows.weight(row, 0) * sum_of_logistic_losses(margins, labels, n_outputs_);
  if (kind_ == OutputLossKind::squared && !rows.has_weight_per_label())
    return rows.weight(row, 0) * sum_of_squared_losses(margins, labels, n_outputs_);
  double total = 0.0;
  for (std::size_t j = 0; j < n_outputs_; ++j) {
    const double label = labels[j], margin = margins[j], size = std::abs(label - margin), delta = huber_delta_;
    if (std::isnan(label)) continue;
    const double loss = kind_ == OutputLossKind::logistic                   ? softplus(margin) - label * margin
                        : kind_ == OutputLossKind::absolute                 ? size
                        : kind_ == OutputLossKind::squared || size <= delta ? 0.5 * size * size
                                                                            : delta * (size - 0.5 * delta);
    total += rows.weight(row, j) * loss;
  }
  return total;
}

double OutputLoss::mean_loss(std::span<const float> margins, const LabelledRows& rows, ThreadPool& pool) const {
  struct Sums {
    double loss = 0.0, weight = 0.0;
  };
  std::vector<Sums> blocks(n_blocks_of(rows.n_rows));
  pool.parallel_for(blocks.size(), [&](std::size_t block) {
    Sums sums;
    for (std::size_t row = block * kRowsPerBlock; row < end_of_block(block, rows.n_rows); ++row) {
      sums.loss += loss_of_row(margins.data() + row * n_outputs_, rows, row);
      sums.weight += rows.known_weight(row);
    }
    blocks[block] = sums;
  });
  Sums all;
  for (const Sums& sums : blocks) {
    all.loss += sums.loss;
    all.weight += sums.weight;
  }
  return all.weight > 0.0 ? all.loss / all.weight : 0.0;
}

}  // namespace mtboost
