// SPDX-License-Identifier: Apache-2.0
#include "histogram/histogram.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mtboost {
namespace {

// How far ahead of use a row is fetched: a node's rows lie scattered, the hardware cannot guess them.
constexpr std::size_t kPrefetchDistance = 16;
// Slots that are filled in one pass over the rows: half a megabyte, so that they stay in the second-level cache.
constexpr std::size_t kSlotsPerPass = 32768;
constexpr std::size_t kFeaturesPerPass = 512;

inline void prefetch(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

inline void prefetch_range(const std::uint8_t* bytes, std::size_t n_bytes) noexcept {
  for (std::size_t byte = 0; byte < n_bytes; byte += 64) prefetch(bytes + byte);
  prefetch(bytes + n_bytes - 1);
}

// Neighbouring groups of one width.
struct Pass {
  std::size_t offset, n_bytes;  // of a row
  feature_t first_feature, n_features;
};

template <typename Bin>
void add_rows(const BinnedMatrix& matrix, const Pass& pass, std::span<const row_t> rows,
              std::span<const GradientPair> gradients, GradientSums* histogram) noexcept {
  GradientSums* slots[kFeaturesPerPass];
  for (feature_t i = 0; i < pass.n_features; ++i) slots[i] = histogram + matrix.slot_offset(pass.first_feature + i);
  const std::uint8_t* data = matrix.row_data(0) + pass.offset;
  const feature_t n_in_whole_groups = pass.n_features / kGroupSize * kGroupSize;
  for (std::size_t position = 0; position < rows.size(); ++position) {
    if (position + kPrefetchDistance < rows.size()) {
      const row_t ahead = rows[position + kPrefetchDistance];
      prefetch(&gradients[ahead]);
      prefetch_range(data + ahead * matrix.row_bytes(), pass.n_bytes);
    }
    const GradientSums pair{gradients[rows[position]].gradient, gradients[rows[position]].hessian};
    const std::uint8_t* row = data + rows[position] * matrix.row_bytes();
    feature_t feature = 0;
    for (; feature < n_in_whole_groups; feature += kGroupSize, row += kGroupSize * sizeof(Bin)) {
      Bin bins[kGroupSize];
      std::memcpy(bins, row, sizeof bins);
      for (feature_t i = 0; i < kGroupSize; ++i) slots[feature + i][bins[i]] += pair;
    }
    for (; feature < pass.n_features; ++feature, row += sizeof(Bin)) {
      Bin bin;
      std::memcpy(&bin, row, sizeof bin);
      slots[feature][bin] += pair;
    }
  }
}

void add_sparse_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
                     SlotRange range, std::span<GradientSums> slots) noexcept {
  const bool is_whole = range.begin == 0 && range.end == matrix.n_slots();
  for (std::size_t position = 0; position < rows.size(); ++position) {
    if (position + kPrefetchDistance < rows.size()) {
      const row_t ahead = rows[position + kPrefetchDistance];
      prefetch(&gradients[ahead]);
      prefetch(matrix.row_slots(ahead).data());
    }
    const GradientSums pair{gradients[rows[position]].gradient, gradients[rows[position]].hessian};
    const auto own = matrix.row_slots(rows[position]);
    const auto first = is_whole ? own.begin() : std::lower_bound(own.begin(), own.end(), range.begin);
    for (auto slot = first; slot != own.end() && (is_whole || *slot < range.end); ++slot) slots[*slot] += pair;
  }
}

}  // namespace

void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              std::size_t first_group, std::size_t last_group, std::span<GradientSums> slots) noexcept {
  if (matrix.is_sparse())
    return add_sparse_rows(matrix, rows, gradients, slots_of_groups(matrix, first_group, last_group), slots);
  const auto groups = matrix.groups().first(last_group);
  for (std::size_t begin = first_group, end = begin; begin < last_group; begin = end) {
    const BinnedMatrix::Group& first = groups[begin];
    const auto n_features = [&](std::size_t last) {
      return groups[last].first_feature + groups[last].n_features - first.first_feature;
    };
    const auto fits = [&](std::size_t last) {
      return groups[last].bytes_per_bin == first.bytes_per_bin && n_features(last) <= kFeaturesPerPass &&
             matrix.slot_offset(first.first_feature + n_features(last)) - matrix.slot_offset(first.first_feature) <=
                 kSlotsPerPass;
    };
    for (end = begin + 1; end < last_group && fits(end);) ++end;
    const Pass pass{first.offset, n_features(end - 1) * first.bytes_per_bin, first.first_feature, n_features(end - 1)};
    if (first.bytes_per_bin == 1)
      add_rows<std::uint8_t>(matrix, pass, rows, gradients, slots.data());
    else
      add_rows<std::uint16_t>(matrix, pass, rows, gradients, slots.data());
  }
}

SlotRange slots_of_groups(const BinnedMatrix& matrix, std::size_t first_group, std::size_t last_group) noexcept {
  const auto groups = matrix.groups();
  const BinnedMatrix::Group& last = groups[last_group - 1];
  return {matrix.slot_offset(groups[first_group].first_feature),
          matrix.slot_offset(last.first_feature + last.n_features)};
}

void add(std::span<const GradientSums> addend, std::span<GradientSums> target) noexcept {
  for (std::size_t slot = 0; slot < target.size(); ++slot) target[slot] += addend[slot];
}

void subtract(std::span<const GradientSums> subtrahend, std::span<GradientSums> target) noexcept {
  for (std::size_t slot = 0; slot < target.size(); ++slot) target[slot] -= subtrahend[slot];
}

}  // namespace mtboost
