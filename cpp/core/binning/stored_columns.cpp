// SPDX-License-Identifier: Apache-2.0
#include "binning/stored_columns.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace mtboost {
namespace {

template <typename Entry>
std::uint32_t load(std::span<const std::uint8_t> bytes, std::size_t entry) noexcept {
  Entry loaded;
  std::memcpy(&loaded, bytes.data() + entry * sizeof loaded, sizeof loaded);
  return loaded;
}

void check(const StoredColumn& column, row_t n_rows) {
  require(column.bits == 4 || column.bits == 8 || column.bits == 16 || column.bits == 32,
          "entries have 4, 8, 16 or 32 bits");
  const std::size_t n_entries = column.steps ? column.steps->size() : n_rows;
  require(column.bytes.size() * 8 >= n_entries * static_cast<std::size_t>(column.bits), "a column has too few bytes");
  if (!column.steps) return;
  require(std::accumulate(column.steps->begin(), column.steps->end(), std::size_t{0}) < n_rows || n_entries == 0,
          "the steps of a column lead beyond its rows");
}

}  // namespace

std::uint32_t StoredColumn::operator[](std::size_t entry) const noexcept {
  switch (bits) {
    case 4: return (bytes[entry / 2] >> (entry % 2 * 4)) & 15u;
    case 8: return bytes[entry];
    case 16: return load<std::uint16_t>(bytes, entry);
    default: return load<std::uint32_t>(bytes, entry);
  }
}

StoredColumns::StoredColumns(const BinEdges& edges, row_t n_rows, std::vector<StoredColumn> columns,
                             std::vector<StoredFeature> features)
    : n_rows_(n_rows), columns_(std::move(columns)), features_(std::move(features)) {
  require(features_.size() == edges.n_features(), "the columns need one entry per feature");
  for (const StoredColumn& column : columns_) check(column, n_rows);
  meanings_.assign(columns_.size(), {{kFrequent, 0}});
  for (feature_t feature = 0; feature < n_features(); ++feature) {
    const auto& [column, first_entry] = features_[feature];
    require(column < columns_.size() && first_entry > 0, "a feature's column or its first entry is not there");
    const LightgbmBins& bins = edges.lightgbm(feature);
    frequent_bins_.push_back(bins.slot(bins.frequent));
    auto& meanings = meanings_[column];
    const bin_t first_bin = bins.frequent == 0 ? 1 : 0;
    const std::size_t end = std::size_t{first_entry} + (bins.n_bins - first_bin);
    if (meanings.size() < end) meanings.resize(end, {kFrequent, 0});
    for (bin_t bin = first_bin; bin < bins.n_bins; ++bin) {
      Meaning& meaning = meanings[first_entry + (bin - first_bin)];
      require(meaning.feature == kFrequent, "an entry belongs to two features");
      if (bin != bins.frequent) meaning = {feature, bins.slot(bin)};
    }
  }
}

}  // namespace mtboost
