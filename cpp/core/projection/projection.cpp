// SPDX-License-Identifier: Apache-2.0
#include "projection/projection.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

#include "base/require.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kMostComponents = std::numeric_limits<std::uint32_t>::max();

// Standard normal, by the method of Box and Muller (Ann. Math. Stat. 29, 1958).
float normal(RandomStream& random) {
  const double radius = std::sqrt(-2.0 * std::log1p(-random.uniform()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * random.uniform()));
}

// Entries ±a with probability 1 / (2s) each, else 0. A row of zeros is drawn again, since no tree can grow on it. Entries
// then differ from 0 with probability 1 / (s share), where share = 1 - (1 - 1/s)^d, and a² = s share makes their mean
// square 1.
void draw_sparse_row(double s, RandomStream& random, std::span<float> row /* OUT */) {
  const double share = -std::expm1(static_cast<double>(row.size()) * std::log1p(-1.0 / s));
  const auto a = static_cast<float>(std::sqrt(s * share));
  do
    for (float& value : row) {
      const double u = random.uniform() * s;
      value = u >= 1.0 ? 0.0f : u < 0.5 ? a : -a;
    }
  while (std::ranges::all_of(row, [](float value) { return value == 0.0f; }));
}

// The first n of 0, ..., n_all - 1 in random order.
std::vector<std::size_t> draw_without_replacement(std::size_t n, std::size_t n_all, RandomStream& random) {
  std::vector<std::size_t> numbers(n_all);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  for (std::size_t i = 0; i < n; ++i) std::swap(numbers[i], numbers[i + random.below(n_all - i)]);
  numbers.resize(n);
  return numbers;
}

std::vector<float> draw(ProjectionKind kind, std::size_t q, std::size_t d, RandomStream random) {
  require(d > 0 && d <= kMostComponents, "a projection needs an output, and has at most 2^32 - 1");
  check_components(q);
  require(q <= most_components(kind, d), "there are more components than this projection can have");
  std::vector<float> matrix(q * d, 0.0f);
  const auto draw_entries = [&](const auto& entry) {
    for (float& value : matrix) value = entry();
  };
  const auto draw_sparse_rows = [&](double s) {
    for (std::size_t component = 0; component < q; ++component)
      draw_sparse_row(s, random, std::span(matrix).subspan(component * d, d));
  };
  switch (kind) {
    case ProjectionKind::subsample: {
      const auto outputs = draw_without_replacement(q, d, random);
      for (std::size_t component = 0; component < q; ++component)
        matrix[component * d + outputs[component]] = static_cast<float>(std::sqrt(static_cast<double>(d)));
      break;
    }
    case ProjectionKind::gaussian: draw_entries([&] { return normal(random); }); break;
    case ProjectionKind::rademacher: draw_entries([&] { return random.uniform() < 0.5 ? 1.0f : -1.0f; }); break;
    case ProjectionKind::achlioptas: draw_sparse_rows(3.0); break;
    case ProjectionKind::sparse: draw_sparse_rows(std::sqrt(static_cast<double>(d))); break;
    case ProjectionKind::hadamard: {
      const std::size_t order = std::bit_ceil(d);
      const auto rows = draw_without_replacement(q, order, random);
      for (std::size_t output = 0; output < d; ++output) {
        const float sign = random.uniform() < 0.5 ? 1.0f : -1.0f;
        for (std::size_t component = 0; component < q; ++component)  // Sylvester's matrix: the parity of common bits
          matrix[component * d + output] = std::popcount(rows[component] & output) % 2 == 0 ? sign : -sign;
      }
      break;
    }
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(q)));
  for (float& value : matrix) value *= scale;
  return matrix;
}

}  // namespace

ProjectionKind projection_kind_named(const std::string& name) {
  constexpr std::pair<const char*, ProjectionKind> kKinds[] = {
      {"subsample", ProjectionKind::subsample},   {"gaussian", ProjectionKind::gaussian},
      {"rademacher", ProjectionKind::rademacher}, {"achlioptas", ProjectionKind::achlioptas},
      {"sparse", ProjectionKind::sparse},         {"hadamard", ProjectionKind::hadamard}};
  for (const auto& [known, kind] : kKinds)
    if (name == known) return kind;
  throw std::invalid_argument("there is no projection named '" + name + "'");
}

void check_components(std::size_t n_components) {
  require(n_components > 0, "a projection needs a component");
  require(n_components <= kMostComponents, "a projection has more than 2^32 - 1 components");
}

std::size_t most_components(ProjectionKind kind, std::size_t n_outputs) noexcept {
  if (kind == ProjectionKind::subsample) return n_outputs;
  if (kind == ProjectionKind::hadamard) return std::bit_ceil(n_outputs);
  return kMostComponents;
}

Projection::Projection(ProjectionKind kind, std::size_t n_components, std::size_t n_outputs, RandomStream random)
    : Projection(draw(kind, n_components, n_outputs, random), n_components) {}

Projection::Projection(std::span<const float> matrix, std::size_t n_components)
    : n_components_(n_components), starts_{0} {
  require(n_components > 0 && matrix.size() % n_components == 0, "a projection needs a component and whole rows");
  const std::size_t n_outputs = matrix.size() / n_components;
  for (std::size_t output = 0; output < n_outputs; ++output) {
    for (std::size_t component = 0; component < n_components; ++component) {
      const float value = matrix[component * n_outputs + output];
      if (value != 0.0f) entries_.push_back({static_cast<std::uint32_t>(component), value});
    }
    starts_.push_back(entries_.size());
  }
}

Projection Projection::shares() const {
  Projection result = *this;
  std::vector<float> sums(n_components_, 0.0f);
  for (const Entry& entry : entries_) sums[entry.component] += entry.value * entry.value;
  for (Entry& entry : result.entries_) entry.value *= entry.value / sums[entry.component];
  return result;
}

void project_gradients(const Projection& projection, std::span<const GradientPair> pairs,
                       std::span<const float> weights, ThreadPool& pool, std::span<GradientPair> components) {
  constexpr std::size_t kRowsPerBlock = 1024;
  constexpr float kUnseen = 1e-30f;
  const std::size_t d = projection.n_outputs(), q = projection.n_components(), n_rows = pairs.size() / d;
  require(pairs.size() == n_rows * d && components.size() == n_rows * q,
          "gradients must have shape (n_rows, n_outputs)");
  const bool are_of_outputs = weights.size() != n_rows;
  require(weights.empty() || !are_of_outputs || weights.size() == n_rows * d,
          "weights must have shape (n_rows,) or (n_rows, n_outputs)");
  const Projection shares = projection.shares();

  pool.parallel_for((n_rows + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    std::vector<float> gradients(q), counts(q);
    const std::size_t end = std::min((block + 1) * kRowsPerBlock, n_rows);
    for (std::size_t row = block * kRowsPerBlock; row < end; ++row) {
      std::ranges::fill(gradients, 0.0f);
      for (std::size_t output = 0; output < d; ++output)
        projection.add(output, pairs[row * d + output].gradient, gradients.data());
      if (weights.empty()) {
        std::ranges::fill(counts, 1.0f);
      } else if (!are_of_outputs) {
        std::ranges::fill(counts, weights[row]);
      } else {
        const auto own = weights.subspan(row * d, d);
        // From the largest weight down: a row whose weights are all the same counts exactly that.
        const float most = *std::ranges::max_element(own);
        std::ranges::fill(counts, most);
        for (std::size_t output = 0; output < d; ++output)
          if (own[output] < most) shares.add(output, own[output] - most, counts.data());
        for (float& count : counts) count = std::max(count, most > 0.0f ? kUnseen : 0.0f);
      }
      for (std::size_t component = 0; component < q; ++component)
        components[row * q + component] = {gradients[component], counts[component]};
    }
  });
}

}  // namespace mtboost
