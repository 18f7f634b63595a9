// SPDX-License-Identifier: Apache-2.0
// Borrowed matrices: memory of NumPy or SciPy, read where it lies. One-dimensional views are std::span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mtboost {

// Strides count elements, not bytes; either may be negative or zero, as NumPy allows.
template <typename T>
struct MatrixView {
  const T* data;
  std::size_t n_rows;
  std::size_t n_columns;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;

  const T& operator()(std::size_t row, std::size_t column) const noexcept {
    return data[static_cast<std::ptrdiff_t>(row) * row_stride + static_cast<std::ptrdiff_t>(column) * column_stride];
  }
};

// Compressed sparse rows: row r holds values[i] in column indices[i] for i in [indptr[r], indptr[r + 1]).
// An entry that is not stored is missing, as in XGBoost; a stored NaN is missing as well.
template <typename Offset, typename Index>
struct CsrView {
  std::span<const Offset> indptr;
  std::span<const Index> indices;
  std::span<const float> values;
  std::size_t n_rows() const noexcept { return indptr.size() - 1; }
};

}  // namespace mtboost
