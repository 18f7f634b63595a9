// SPDX-License-Identifier: Apache-2.0
#include "histogram/histogram.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace mtboost {
namespace {

// How far ahead of use a sparse row is fetched: a node's rows lie scattered, the hardware cannot guess them.
constexpr std::size_t kPrefetchDistance = 16;
// Slots that are filled in one pass over the rows: half a megabyte, so that they stay in the second-level cache.
constexpr std::size_t kSlotsPerPass = 32768;
constexpr std::size_t kFeaturesPerPass = 512;

// kLocality 3: into the first-level cache; 2: into the second.
template <int kLocality>
inline void prefetch(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address, 0, kLocality);
#else
  (void)address;
#endif
}

// Neighbouring groups of one width.
struct Pass {
  std::size_t offset, n_bytes;  // of a row
  feature_t first_feature, n_features;
};

// Rows that are added to one group of features before the next: the group's slots stay in the first-level cache from
// row to row, and the rows' bins in the second-level cache from group to group.
constexpr std::size_t kRowsPerBlock = 256;

struct Block {
  const std::uint8_t* data[kRowsPerBlock];  // first bin of the pass in each row
  GradientSums pairs[kRowsPerBlock];
  std::size_t n_rows;
};

// What is fetched of the rows of the next block while a group is added: one address per row, so that the fetches of a
// block are spread over it. More at once than the processor can have under way would hold up the additions.
struct Ahead {
  std::span<const row_t> rows;
  const void* array = nullptr;
  std::size_t stride = 0;  // in bytes
  // Not into the first-level cache: a block of rows would push the slots out of it.
  void fetch(std::size_t i) const noexcept { prefetch<2>(static_cast<const std::uint8_t*>(array) + rows[i] * stride); }
};

// Gradients first, then every cache line of the bins, and that of their last byte where it may be one more.
class AheadOfPass {
 public:
  AheadOfPass(const BinnedMatrix& matrix, const Pass& pass, std::span<const GradientPair> gradients,
              std::span<const row_t> rows) noexcept
      : next_{rows, gradients.data(), sizeof(GradientPair)},
        bins_(matrix.row_data(0) + pass.offset),
        last_(bins_ + pass.n_bytes - 1),
        stride_(matrix.row_bytes()) {
    const std::size_t step = std::gcd(stride_, kLine);  // rows begin at multiples of it
    const std::size_t tail = (pass.n_bytes - 1) % kLine;
    if (pass.offset % step + tail < step) last_ -= tail;
  }

  // No rows after the last one.
  Ahead take() noexcept {
    const Ahead taken = next_;
    next_ = bins_ <= last_ ? Ahead{taken.rows, bins_, stride_} : Ahead{};
    bins_ = bins_ < last_ ? bins_ + std::min(kLine, static_cast<std::size_t>(last_ - bins_)) : last_ + 1;
    return taken;
  }

 private:
  static constexpr std::size_t kLine = 64;
  Ahead next_;
  const std::uint8_t *bins_, *last_;
  std::size_t stride_;
};

// Adds a block to neighbouring features, few enough for their addresses to stay in registers. offset: of their bins.
template <typename Bin, feature_t kFeatures>
void add_block(const BinnedMatrix& matrix, const Block& block, std::size_t offset, feature_t first_feature,
               const Ahead& ahead, GradientSums* histogram) noexcept {
  GradientSums* slots[kFeatures];
  for (feature_t i = 0; i < kFeatures; ++i) slots[i] = histogram + matrix.slot_offset(first_feature + i);
  const auto add = [&](std::size_t row) {
    const GradientSums pair = block.pairs[row];
    Bin bins[kFeatures];
    std::memcpy(bins, block.data[row] + offset, sizeof bins);
    for (feature_t i = 0; i < kFeatures; ++i) slots[i][bins[i]] += pair;
  };
  std::size_t row = 0;
  for (; row < ahead.rows.size(); ++row) {
    ahead.fetch(row);
    add(row);
  }
  for (; row < block.n_rows; ++row) add(row);
}

template <typename Bin>
void add_rows(const BinnedMatrix& matrix, const Pass& pass, std::span<const row_t> rows,
              std::span<const GradientPair> gradients, GradientSums* histogram) noexcept {
  const std::uint8_t* data = matrix.row_data(0) + pass.offset;
  Block block;
  for (std::size_t begin = 0; begin < rows.size(); begin += block.n_rows) {
    block.n_rows = std::min(kRowsPerBlock, rows.size() - begin);
    for (std::size_t i = 0; i < block.n_rows; ++i) {
      const row_t row = rows[begin + i];
      block.data[i] = data + row * matrix.row_bytes();
      block.pairs[i] = {gradients[row].gradient, gradients[row].hessian};
    }
    const auto later = rows.subspan(begin + block.n_rows);
    AheadOfPass ahead(matrix, pass, gradients, later.first(std::min(later.size(), block.n_rows)));
    feature_t feature = 0;
    const auto add = [&]<feature_t kFeatures>() {
      add_block<Bin, kFeatures>(matrix, block, feature * sizeof(Bin), pass.first_feature + feature, ahead.take(),
                                histogram);
      feature += kFeatures;
    };
    while (feature + kGroupSize <= pass.n_features) add.template operator()<kGroupSize>();
    const feature_t n_left = pass.n_features - feature;
    if ((n_left & 4) != 0) add.template operator()<4>();
    if ((n_left & 2) != 0) add.template operator()<2>();
    if ((n_left & 1) != 0) add.template operator()<1>();
    for (Ahead rest = ahead.take(); !rest.rows.empty(); rest = ahead.take())
      for (std::size_t i = 0; i < rest.rows.size(); ++i) rest.fetch(i);
  }
}

void add_sparse_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
                     SlotRange range, std::span<GradientSums> slots) noexcept {
  const bool is_whole = range.begin == 0 && range.end == matrix.n_slots();
  for (std::size_t position = 0; position < rows.size(); ++position) {
    if (position + kPrefetchDistance < rows.size()) {
      const row_t ahead = rows[position + kPrefetchDistance];
      prefetch<3>(&gradients[ahead]);
      prefetch<3>(matrix.row_slots(ahead).data());
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
