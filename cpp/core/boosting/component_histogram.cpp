// SPDX-License-Identifier: Apache-2.0
#include "boosting/component_histogram.hpp"

#include <algorithm>
#include <cstring>

#include "base/vector_clones.hpp"
#include "binning/sparse_column.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kPrefetchDistance = 8;
constexpr feature_t kFeaturesPerChunk = 16;  // so that their sums stay in the second-level cache

inline void prefetch(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

// What is called with a bin of the width in use, and the numbers of a row as a constant; 0: known at run time only.
template <typename Call>
void with_widths(std::uint32_t bytes_per_bin, std::size_t width, const Call& call) {
  const auto with_bin = [&]<typename Bin>(Bin bin) {
    switch (width) {
      case 2: return call.template operator()<2>(bin);
      case 4: return call.template operator()<4>(bin);
      case 8: return call.template operator()<8>(bin);
      case 16: return call.template operator()<16>(bin);
      default: return call.template operator()<0>(bin);
    }
  };
  if (bytes_per_bin == 1)
    with_bin(std::uint8_t{});
  else
    with_bin(std::uint16_t{});
}

template <typename Bin, std::size_t Width>
void add_rows(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::span<const row_t> rows,
              const Components& components, double* histogram) noexcept {
  const std::size_t width = Width > 0 ? Width : components.width(), n_features = chunk.features.size();
  const std::uint8_t* bytes[kFeaturesPerChunk];
  double* slots[kFeaturesPerChunk];
  for (std::size_t i = 0; i < n_features; ++i) {
    const BinnedMatrix::Group& group = matrix.groups()[chunk.features[i] / kGroupSize];
    bytes[i] = matrix.row_data(0) + group.offset + (chunk.features[i] - group.first_feature) * sizeof(Bin);
    slots[i] = histogram + matrix.slot_offset(chunk.features[i]) * width;
  }
  const std::size_t row_bytes = matrix.row_bytes();
  for (std::size_t position = 0; position < rows.size(); ++position) {
    if (position + kPrefetchDistance < rows.size()) {
      const row_t ahead = rows[position + kPrefetchDistance];
      prefetch(components.row(ahead));
      prefetch(bytes[0] + ahead * row_bytes);
      prefetch(bytes[n_features - 1] + ahead * row_bytes);
    }
    const row_t row = rows[position];
    const float* const values = components.row(row);
    double wide[Width > 0 ? Width : 1];
    if constexpr (Width > 0) std::copy_n(values, Width, wide);
    for (std::size_t i = 0; i < n_features; ++i) {
      Bin bin;
      std::memcpy(&bin, bytes[i] + row * row_bytes, sizeof bin);
      double* const sums = slots[i] + bin * width;
      if constexpr (Width > 0) {
#pragma omp simd
        for (std::size_t k = 0; k < Width; ++k) sums[k] += wide[k];
      } else {
#pragma omp simd
        for (std::size_t k = 0; k < width; ++k) sums[k] += double{values[k]};
      }
    }
  }
}

void add_sparse_rows(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::span<const row_t> rows,
                     const Components& components, double* histogram) noexcept {
  const std::size_t width = components.width();
  const auto begin = static_cast<slot_t>(matrix.slot_offset(chunk.features.front()));
  const auto end = static_cast<slot_t>(matrix.slot_offset(chunk.features.back() + 1));
  for (const row_t row : rows) {
    const float* const values = components.row(row);
    const auto own = matrix.row_slots(row);
    for (auto slot = std::ranges::lower_bound(own, begin); slot != own.end() && *slot < end; ++slot) {
      double* const sums = histogram + *slot * width;
      for (std::size_t k = 0; k < width; ++k) sums[k] += double{values[k]};
    }
  }
}

template <typename Bin, std::size_t Width>
void add_column(const std::uint8_t* bytes, std::span<const row_t> rows, const Components& components,
                double* slots) noexcept {
  const std::size_t width = Width > 0 ? Width : components.width();
  for (const row_t row : rows) {
    Bin bin;
    std::memcpy(&bin, bytes + row * sizeof bin, sizeof bin);
    const float* const values = components.row(row);
    double* const sums = slots + bin * width;
#pragma omp simd
    for (std::size_t k = 0; k < width; ++k) sums[k] += double{values[k]};
  }
}

// Calls visit(begin, end) for the numbers of a chunk, run by run.
template <typename Visit>
void for_each_run(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::size_t width, const Visit& visit) {
  const auto begin_of = [&](feature_t feature) { return matrix.slot_offset(feature) * width; };
  // Rows of the sparse layout also add to what lies between.
  if (matrix.is_sparse()) return visit(begin_of(chunk.features.front()), begin_of(chunk.features.back() + 1));
  for (const feature_t feature : chunk.features) visit(begin_of(feature), begin_of(feature + 1));
}

}  // namespace

std::vector<FeatureChunk> chunks_of(const BinnedMatrix& matrix, std::span<const feature_t> features, int n_threads) {
  const auto n_wanted = 2 * static_cast<std::size_t>(n_threads);
  const std::size_t most = std::clamp<std::size_t>((features.size() + n_wanted - 1) / n_wanted, 4, kFeaturesPerChunk);
  std::vector<FeatureChunk> chunks;
  const auto bytes_of = [&](std::size_t i) { return matrix.groups()[features[i] / kGroupSize].bytes_per_bin; };
  for (std::size_t begin = 0, end = 0; begin < features.size(); begin = end) {
    while (end < features.size() && end < begin + most && bytes_of(end) == bytes_of(begin)) ++end;
    chunks.push_back({features.subspan(begin, end - begin), bytes_of(begin)});
  }
  return chunks;
}

MTBOOST_VECTOR_CLONES
void fill_chunk(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::span<const row_t> rows,
                const Components& components, std::span<double> histogram) noexcept {
  for_each_run(matrix, chunk, components.width(), [&](std::size_t begin, std::size_t end) {
    std::ranges::fill(histogram.subspan(begin, end - begin), 0.0);
  });
  if (matrix.is_sparse()) return add_sparse_rows(matrix, chunk, rows, components, histogram.data());
  with_widths(chunk.bytes_per_bin, components.width(), [&]<std::size_t Width, typename Bin>(Bin) {
    add_rows<Bin, Width>(matrix, chunk, rows, components, histogram.data());
  });
}

MTBOOST_VECTOR_CLONES
void subtract_chunk(const BinnedMatrix& matrix, const FeatureChunk& chunk, std::size_t width,
                    std::span<const double> small, std::span<double> large) noexcept {
  for_each_run(matrix, chunk, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) large[i] -= small[i];
  });
}

MTBOOST_VECTOR_CLONES
void fill_feature(const BinnedMatrix& matrix, feature_t feature, std::span<const row_t> rows,
                  const Components& components, std::vector<double>& slots) {
  const std::size_t width = components.width();
  slots.assign((matrix.slot_offset(feature + 1) - matrix.slot_offset(feature)) * width, 0.0);
  if (matrix.is_sparse()) {
    for_each_value(matrix.sparse_column(feature), rows, [&](std::size_t position, bin_t bin) {
      const float* const values = components.row(rows[position]);
      for (std::size_t k = 0; k < width; ++k) slots[bin * width + k] += double{values[k]};
    });
    return;
  }
  const BinnedMatrix::Column column = matrix.column(feature);
  with_widths(column.bytes_per_bin, width, [&]<std::size_t Width, typename Bin>(Bin) {
    add_column<Bin, Width>(column.bytes, rows, components, slots.data());
  });
}

}  // namespace mtboost
