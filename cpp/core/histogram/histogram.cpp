// SPDX-License-Identifier: Apache-2.0
#include "histogram/histogram.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace mtboost {
namespace {

// Rows whose gradients are widened to double at once and whose bins stay in cache from group to group.
constexpr std::size_t kChunk = 512;
// How far ahead of use a row is fetched: a node's rows lie scattered, the hardware cannot guess them.
constexpr std::size_t kPrefetchDistance = 16;

inline void prefetch(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

template <typename Bin, feature_t kFeatures>
void add_chunk(const BinnedMatrix& matrix, const BinnedMatrix::Group& group, std::span<const row_t> rows,
               const GradientSums* pairs, GradientSums* histogram) noexcept {
  GradientSums* slots[kFeatures];
  for (feature_t i = 0; i < kFeatures; ++i) slots[i] = histogram + matrix.slot_offset(group.first_feature + i);
  const std::uint8_t* data = matrix.row_data(0) + group.offset;
  const std::size_t row_bytes = matrix.row_bytes();
  for (std::size_t position = 0; position < rows.size(); ++position) {
    Bin bins[kGroupSize];
    std::memcpy(bins, data + rows[position] * row_bytes, sizeof bins);
    const GradientSums pair = pairs[position];
    for (feature_t i = 0; i < kFeatures; ++i) {
      GradientSums& slot = slots[i][bins[i]];
      slot.gradient += pair.gradient;
      slot.hessian += pair.hessian;
    }
  }
}

template <typename Bin>
void add_chunk(const BinnedMatrix& matrix, const BinnedMatrix::Group& group, std::span<const row_t> rows,
               const GradientSums* pairs, GradientSums* histogram) noexcept {
  switch (group.n_features) {  // the loop over features must unroll
    case 8: return add_chunk<Bin, 8>(matrix, group, rows, pairs, histogram);
    case 7: return add_chunk<Bin, 7>(matrix, group, rows, pairs, histogram);
    case 6: return add_chunk<Bin, 6>(matrix, group, rows, pairs, histogram);
    case 5: return add_chunk<Bin, 5>(matrix, group, rows, pairs, histogram);
    case 4: return add_chunk<Bin, 4>(matrix, group, rows, pairs, histogram);
    case 3: return add_chunk<Bin, 3>(matrix, group, rows, pairs, histogram);
    case 2: return add_chunk<Bin, 2>(matrix, group, rows, pairs, histogram);
    default: return add_chunk<Bin, 1>(matrix, group, rows, pairs, histogram);
  }
}

}  // namespace

void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              std::size_t first_group, std::size_t last_group, std::span<GradientSums> slots) noexcept {
  const auto groups = matrix.groups().subspan(first_group, last_group - first_group);
  const std::size_t first_byte = groups.front().offset;
  const std::size_t n_bytes = groups.back().offset + kGroupSize * groups.back().bytes_per_bin - first_byte;
  GradientSums pairs[kChunk];
  for (std::size_t begin = 0; begin < rows.size(); begin += kChunk) {
    const auto chunk = rows.subspan(begin, std::min(kChunk, rows.size() - begin));
    for (std::size_t position = 0; position < chunk.size(); ++position) {
      if (begin + position + kPrefetchDistance < rows.size()) {
        const row_t ahead = rows[begin + position + kPrefetchDistance];
        prefetch(&gradients[ahead]);
        const std::uint8_t* bytes = matrix.row_data(ahead) + first_byte;
        for (std::size_t byte = 0; byte < n_bytes; byte += 64) prefetch(bytes + byte);
        prefetch(bytes + n_bytes - 1);
      }
      const GradientPair& pair = gradients[chunk[position]];
      pairs[position] = {pair.gradient, pair.hessian};
    }
    for (const BinnedMatrix::Group& group : groups) {
      if (group.bytes_per_bin == 1)
        add_chunk<std::uint8_t>(matrix, group, chunk, pairs, slots.data());
      else
        add_chunk<std::uint16_t>(matrix, group, chunk, pairs, slots.data());
    }
  }
}

SlotRange slots_of_groups(const BinnedMatrix& matrix, std::size_t first_group, std::size_t last_group) noexcept {
  const auto groups = matrix.groups();
  const BinnedMatrix::Group& last = groups[last_group - 1];
  return {matrix.slot_offset(groups[first_group].first_feature), matrix.slot_offset(last.first_feature + last.n_features)};
}

void add(std::span<const GradientSums> addend, std::span<GradientSums> target) noexcept {
  for (std::size_t slot = 0; slot < target.size(); ++slot) target[slot] += addend[slot];
}

void subtract(std::span<const GradientSums> subtrahend, std::span<GradientSums> target) noexcept {
  for (std::size_t slot = 0; slot < target.size(); ++slot) target[slot] -= subtrahend[slot];
}

}  // namespace mtboost
