// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "forest/mt_tree_builder.hpp"
#include "forests.hpp"
#include "trees.hpp"

namespace mtboost {
namespace {

constexpr std::size_t kRowsPerBlock = 1024;

TaskCriterion criterion_of(const std::string& name) {
  if (name == "joint") return TaskCriterion::joint;
  if (name == "sum") return TaskCriterion::sum;
  if (name == "max") return TaskCriterion::max;
  require(name == "concat", "criterion must be 'joint', 'sum', 'max' or 'concat'");
  return TaskCriterion::concat;
}

MTTreeParams make_params(const std::string& criterion, double purity, std::uint32_t max_depth, row_t min_samples_split,
                         row_t min_samples_leaf, feature_t max_features, std::uint64_t seed) {
  return {criterion_of(criterion), purity, max_depth, min_samples_split, min_samples_leaf, max_features, seed};
}

SortedColumns make_columns(const Table& table, int n_threads) {
  const RowsView rows = as_rows_view(table);
  require(rows.table.n_rows > 0 && rows.table.n_columns > 0, "X has no rows or no columns");
  require(rows.table.n_rows < (std::size_t{1} << 31), "X has more than 2^31 - 1 rows");
  require(rows.table.n_columns < kTaskFeature, "X has more than 2^31 - 2 columns");
  py::gil_scoped_release release;
  ThreadPool pool(n_threads);
  if (rows.sparse != nullptr) return {*rows.sparse, static_cast<feature_t>(rows.table.n_columns), pool};
  return {rows.table, pool};
}

MTDecisionTree grow(const SortedColumns& columns, const MTTreeParams& params,
                    const Contiguous<std::uint32_t>& class_starts, const Contiguous<std::uint32_t>& labels,
                    const std::optional<Contiguous<double>>& weights, std::uint64_t tree, int n_threads) {
  TaskLabels own{as_span(class_starts, "class_starts"), as_span(labels, "labels"), {}};
  require(own.class_starts.size() > 1 && own.class_starts.front() == 0 &&
              std::ranges::adjacent_find(own.class_starts, std::ranges::greater_equal{}) == own.class_starts.end(),
          "class_starts must ascend from 0, one more than tasks");
  require(own.labels.size() == columns.n_rows(), "labels must have shape (n_rows,)");
  for (const std::uint32_t label : own.labels) require(label < own.class_starts.back(), "a label is of no task");
  if (weights) {
    own.weights = as_span(*weights, "weights");
    require(own.weights.size() == columns.n_rows(), "weights must have shape (n_rows,)");
  }
  py::gil_scoped_release release;
  ThreadPool pool(n_threads);
  return grow_mt_tree(columns, own, params, tree, pool, check_interrupt);
}

// Calls visit(row, value_of) for some rows, those of a sparse table spread out one after the other.
template <typename Visit>
void for_each_row(const RowsView& rows, std::size_t begin, std::size_t end, Visit&& visit) {
  if (rows.sparse == nullptr) {
    for (std::size_t row = begin; row < end; ++row)
      visit(row, [&](std::size_t feature) { return rows.table(row, feature); });
    return;
  }
  std::vector<float> values(rows.table.n_columns, 0.0f);
  for (std::size_t row = begin; row < end; ++row) {
    const auto first = static_cast<std::size_t>(rows.sparse->indptr[row]);
    const auto last = static_cast<std::size_t>(rows.sparse->indptr[row + 1]);
    for (std::size_t i = first; i < last; ++i) values[rows.sparse->indices[i]] = rows.sparse->values[i];
    visit(row, [&](std::size_t feature) { return values[feature]; });
    for (std::size_t i = first; i < last; ++i) values[rows.sparse->indices[i]] = 0.0f;
  }
}

// result(decision): of the decision that each row ends in.
template <typename Result>
py::array_t<std::uint32_t> of_rows(const MTDecisionTree& tree, const Table& table, const Contiguous<task_t>& tasks,
                                   int n_threads, Result&& result) {
  const RowsView rows = as_rows_view(table);
  const std::size_t n_rows = rows.table.n_rows;
  const auto task_of_row = as_span(tasks, "tasks");
  require(rows.table.n_columns == tree.n_features, "X has other features than the tree");
  require(task_of_row.size() == n_rows, "tasks must have shape (n_rows,)");
  for (const task_t task : task_of_row) require(task < tree.n_tasks(), "a task is unknown to the tree");
  std::vector<std::uint32_t> found(n_rows);
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    pool.parallel_for((n_rows + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
      const std::size_t begin = block * kRowsPerBlock, end = std::min(begin + kRowsPerBlock, n_rows);
      for_each_row(rows, begin, end, [&](std::size_t row, const auto& value_of) {
        found[row] = result(tree.decision(task_of_row[row], value_of));
      });
    });
  }
  return to_array(std::move(found));
}

py::array_t<std::uint32_t> decisions(const MTDecisionTree& tree, const Table& table, const Contiguous<task_t>& tasks,
                                     int n_threads) {
  return of_rows(tree, table, tasks, n_threads,
                 [](std::size_t decision) { return static_cast<std::uint32_t>(decision); });
}

py::array_t<std::uint32_t> classes(const MTDecisionTree& tree, const Table& table, const Contiguous<task_t>& tasks,
                                   int n_threads) {
  return of_rows(tree, table, tasks, n_threads, [&](std::size_t decision) { return tree.decided_classes[decision]; });
}

py::dict arrays(const MTDecisionTree& tree) {
  py::dict found = arrays_of(tree.tree);
  found["gains"] = to_array(tree.gains);
  found["class_starts"] = to_array(tree.class_starts);
  found["decision_starts"] = to_array(tree.decision_starts);
  found["decided_tasks"] = to_array(tree.decided_tasks);
  found["decided_classes"] = to_array(tree.decided_classes);
  found["decided_weights"] = to_array(tree.decided_weights);
  return found;
}

MTDecisionTree from_arrays(const py::dict& values, feature_t n_features) {
  MTDecisionTree tree;
  tree.n_features = n_features;
  tree.class_starts = take<std::uint32_t>(values, "class_starts");
  require(!tree.class_starts.empty(), "a tree without classes");
  tree.tree = tree_from(values, tree.class_starts.back());
  tree.gains = take<float>(values, "gains");
  tree.decision_starts = take<std::uint32_t>(values, "decision_starts");
  tree.decided_tasks = take<task_t>(values, "decided_tasks");
  tree.decided_classes = take<std::uint32_t>(values, "decided_classes");
  tree.decided_weights = take<float>(values, "decided_weights");
  tree.check();
  return tree;
}

MTDecisionTree from_state(const py::tuple& state) {
  require(state.size() == 2, "this is no pickle of a multi-task decision tree");
  return from_arrays(state[1].cast<py::dict>(), state[0].cast<feature_t>());
}

py::dict arrays_of_trees(const py::list& trees) {
  std::vector<py::dict> found;
  for (const py::handle tree : trees) found.push_back(arrays(tree.cast<const MTDecisionTree&>()));
  return joined(found);
}

std::vector<MTDecisionTree> trees_from_arrays(const py::dict& arrays, feature_t n_features) {
  std::vector<MTDecisionTree> trees;
  for (const py::dict& tree : parted(arrays)) trees.push_back(from_arrays(tree, n_features));
  return trees;
}

}  // namespace

void bind_mt_decision_tree(py::module_& module) {
  const MTTreeParams defaults;
  py::class_<SortedColumns>(module, "SortedColumns", "A table as multi-task trees read it.")
      .def(py::init(&make_columns), py::arg("X").noconvert(), py::kw_only(), py::arg("n_threads") = 1);

  py::class_<MTTreeParams>(module, "MTTreeParams", "How a multi-task tree grows.")
      .def(py::init(&make_params), py::kw_only(), py::arg("criterion") = "joint", py::arg("purity") = defaults.purity,
           py::arg("max_depth") = defaults.max_depth, py::arg("min_samples_split") = defaults.min_samples_split,
           py::arg("min_samples_leaf") = defaults.min_samples_leaf, py::arg("max_features") = defaults.max_features,
           py::arg("seed") = defaults.seed);

  py::class_<MTDecisionTree>(module, "MTDecisionTree", "A tree that several tasks share.")
      .def(py::init(&grow), py::arg("columns"), py::arg("params"), py::kw_only(), py::arg("class_starts").noconvert(),
           py::arg("labels").noconvert(), py::arg("weights").noconvert().none(true) = py::none(), py::arg("tree") = 0,
           py::arg("n_threads") = 1)
      .def("decisions", &decisions, py::arg("X").noconvert(), py::arg("tasks").noconvert(), py::kw_only(),
           py::arg("n_threads") = 1)
      .def("classes", &classes, py::arg("X").noconvert(), py::arg("tasks").noconvert(), py::kw_only(),
           py::arg("n_threads") = 1)
      .def("arrays", &arrays)
      .def(py::pickle([](const MTDecisionTree& tree) { return py::make_tuple(tree.n_features, arrays(tree)); },
                      &from_state));

  module.def("mt_tree_arrays", &arrays_of_trees, py::arg("trees"));
  module.def("mt_trees_from_arrays", &trees_from_arrays, py::arg("arrays"), py::kw_only(), py::arg("n_features"));
}

}  // namespace mtboost
