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
  std::uint32_t bytes_per_bin;
};

// Rows that are added to one group of features before the next: the group's slots stay in the first-level cache from
// row to row, and the rows' bins in the second-level cache from group to group.
constexpr std::size_t kRowsPerBlock = 256;

// Sums: of gradients, or packed.
template <typename Sums>
struct Block {
  const std::uint8_t* data[kRowsPerBlock];  // first bin of the pass in each row
  Sums pairs[kRowsPerBlock];
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
// histogram: begins with first_slot.
template <typename Bin, feature_t kFeatures, typename Sums>
void add_block(const BinnedMatrix& matrix, const Block<Sums>& block, std::size_t offset, feature_t first_feature,
               const Ahead& ahead, std::size_t first_slot, Sums* histogram) noexcept {
  Sums* slots[kFeatures];
  for (feature_t i = 0; i < kFeatures; ++i) slots[i] = histogram + (matrix.slot_offset(first_feature + i) - first_slot);
  const auto add = [&](std::size_t row) {
    const Sums pair = block.pairs[row];
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

// summand: of a row's pair.
template <typename Bin, typename Sums, typename Summand>
void add_rows(const BinnedMatrix& matrix, const Pass& pass, std::span<const row_t> rows,
              std::span<const GradientPair> gradients, const Summand& summand, std::size_t first_slot,
              Sums* histogram) noexcept {
  const std::uint8_t* data = matrix.row_data(0) + pass.offset;
  Block<Sums> block;
  for (std::size_t begin = 0; begin < rows.size(); begin += block.n_rows) {
    block.n_rows = std::min(kRowsPerBlock, rows.size() - begin);
    for (std::size_t i = 0; i < block.n_rows; ++i) {
      const row_t row = rows[begin + i];
      block.data[i] = data + row * matrix.row_bytes();
      block.pairs[i] = summand(gradients[row]);
    }
    const auto later = rows.subspan(begin + block.n_rows);
    AheadOfPass ahead(matrix, pass, gradients, later.first(std::min(later.size(), block.n_rows)));
    feature_t feature = 0;
    const auto add = [&]<feature_t kFeatures>() {
      add_block<Bin, kFeatures>(matrix, block, feature * sizeof(Bin), pass.first_feature + feature, ahead.take(),
                                first_slot, histogram);
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

template <typename Sums, typename Summand>
void add_rows(const BinnedMatrix& matrix, const Pass& pass, std::span<const row_t> rows,
              std::span<const GradientPair> gradients, const Summand& summand, std::size_t first_slot,
              Sums* histogram) noexcept {
  if (pass.bytes_per_bin == 1)
    add_rows<std::uint8_t>(matrix, pass, rows, gradients, summand, first_slot, histogram);
  else
    add_rows<std::uint16_t>(matrix, pass, rows, gradients, summand, first_slot, histogram);
}

void add_rows(const BinnedMatrix& matrix, const Pass& pass, std::span<const row_t> rows,
              std::span<const GradientPair> gradients, std::span<GradientSums> slots) noexcept {
  const auto summand = [](const GradientPair& pair) { return GradientSums{pair.gradient, pair.hessian}; };
  add_rows(matrix, pass, rows, gradients, summand, 0, slots.data());
}

template <typename Body>
void for_each_pass(const BinnedMatrix& matrix, std::size_t first_group, std::size_t last_group, const Body& body) {
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
    const feature_t n_of_pass = n_features(end - 1);
    body(Pass{first.offset, n_of_pass * first.bytes_per_bin, first.first_feature, n_of_pass, first.bytes_per_bin});
  }
}

}  // namespace

void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              std::size_t first_group, std::size_t last_group, std::span<GradientSums> slots) noexcept {
  if (matrix.is_sparse())
    return add_sparse_rows(matrix, rows, gradients, slots_of_groups(matrix, first_group, last_group), slots);
  for_each_pass(matrix, first_group, last_group,
                [&](const Pass& pass) { add_rows(matrix, pass, rows, gradients, slots); });
}

void add_rows(const BinnedMatrix& matrix, std::span<const row_t> rows, std::span<const GradientPair> gradients,
              const GradientGrid& grid, std::size_t first_group, std::size_t last_group, std::span<PackedSums> room,
              std::span<GradientSums> slots) noexcept {
  // Fewer additions a slot gain less than it takes to unpack the sums.
  constexpr std::size_t kFewestAdditions = 4;
  if (matrix.is_sparse()) return add_rows(matrix, rows, gradients, first_group, last_group, slots);
  for_each_pass(matrix, first_group, last_group, [&](const Pass& pass) {
    const std::size_t first_slot = matrix.slot_offset(pass.first_feature);
    const std::size_t n_slots = matrix.slot_offset(pass.first_feature + pass.n_features) - first_slot;
    const auto packed = room.first(n_slots);
    const auto of_pass = slots.subspan(first_slot, n_slots);
    for (auto rest = rows; !rest.empty();) {
      const auto part = rest.first(std::min(rest.size(), GradientGrid::kMostRows));
      rest = rest.subspan(part.size());
      if (part.size() * pass.n_features < kFewestAdditions * n_slots) {
        add_rows(matrix, pass, part, gradients, slots);
        continue;
      }
      std::ranges::fill(packed, PackedSums{0});
      add_rows(
          matrix, pass, part, gradients, [&](const GradientPair& pair) { return grid.pack(pair); }, first_slot,
          packed.data());
      for (std::size_t slot = 0; slot < n_slots; ++slot) of_pass[slot] += grid.unpack(packed[slot]);
    }
  });
}

std::size_t room_for_packed_sums(const BinnedMatrix& matrix) noexcept {
  if (matrix.is_sparse()) return 0;
  std::size_t largest = 0;  // passes have one group, or no more than kSlotsPerPass slots
  for (std::size_t group = 0; group < matrix.groups().size(); ++group) {
    const SlotRange range = slots_of_groups(matrix, group, group + 1);
    largest = std::max(largest, range.end - range.begin);
  }
  return std::min(std::max(largest, kSlotsPerPass), matrix.n_slots());
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
