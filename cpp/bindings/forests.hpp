// SPDX-License-Identifier: Apache-2.0
// What the bindings of forests share.
#pragma once

#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "arrays.hpp"
#include "forest/forest.hpp"

namespace mtboost {

template <typename T>
using Optional = std::optional<Contiguous<T>>;

// A CSR matrix whose arrays it keeps alive.
struct SparseRows {
  Contiguous<std::int64_t> indptr;
  Contiguous<feature_t> indices;
  Contiguous<float> values;
  feature_t n_features;
  SparseTable view;
};

using Table = std::variant<py::array_t<float>, const SparseRows*>;

// Without its tasks. The table must outlive it.
RowsView as_rows_view(const Table& table);

// Trees that grew on tables alike, and what they were grown with.
struct Forest {
  ForestParams params;
  feature_t n_features = 0;
  task_t n_tasks = 0;  // 0: no task splits
  std::vector<DecisionTree> trees;
};

// Of shape (n_components, n_outputs).
Contiguous<float> matrix_of(const Projection& projection);

// Empty if the forest knows no tasks.
std::span<const task_t> tasks_of(const Forest& forest, const Optional<task_t>& tasks, std::size_t n_rows,
                                 bool may_be_unknown);

}  // namespace mtboost
