// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <functional>

#include "bindings.hpp"
#include "forest/compression.hpp"
#include "forests.hpp"

namespace mtboost {
namespace {

// An array or SparseRows, kept alive.
py::object checked_table(py::object table) {
  if (!py::isinstance<py::array_t<float>>(table) && !py::isinstance<SparseRows>(table))
    throw py::type_error("X must be an array of float32 or SparseRows");
  return table;
}

RowsView rows_of(const Forest& forest, const py::object& table, const Optional<task_t>& tasks) {
  RowsView rows = as_rows_view(table.cast<Table>());
  require(rows.table.n_columns == forest.n_features, "X has other features than the forest");
  rows.tasks = tasks_of(forest, tasks, rows.table.n_rows, true);
  return rows;
}

// A forest and the rows of one path. The arrays and the forest live as long as it does.
struct StagewiseInput {
  py::object forest;
  py::object table;
  py::array_t<double> labels;
  Optional<task_t> tasks;
  std::optional<py::object> valid_table;
  std::optional<py::array_t<double>> valid_labels;
  Optional<task_t> valid_tasks;

  StagewiseData data() const {
    const auto& own = forest.cast<const Forest&>();
    require(!own.trees.empty(), "the forest has no trees");
    StagewiseData result{own.trees, rows_of(own, table, tasks), as_matrix(labels, "y"), {}, {}};
    require(
        result.rows.table.n_rows > 0 && result.labels.n_rows == result.rows.table.n_rows && result.labels.n_columns > 0,
        "y must have shape (n_rows, n_outputs), and a row at least");
    if (!valid_table) return result;
    require(valid_labels.has_value(), "y_valid must be given");
    result.valid_rows = rows_of(own, *valid_table, valid_tasks);
    result.valid_labels = as_matrix(*valid_labels, "y_valid");
    require(result.valid_labels.n_rows == result.valid_rows.table.n_rows &&
                result.valid_labels.n_columns == result.labels.n_columns,
            "y_valid must have shape (n_rows, n_outputs)");
    return result;
  }
};

py::dict to_dict(StagewisePath path) {
  py::dict arrays;
  arrays["nodes"] = to_array(std::move(path.nodes));
  arrays["changes"] = to_array(std::move(path.changes));
  arrays["intercepts"] = to_array(std::move(path.intercepts));
  arrays["losses"] = to_array(std::move(path.losses));
  arrays["valid_losses"] = to_array(std::move(path.valid_losses));
  return arrays;
}

std::vector<py::dict> stagewise_paths(const std::vector<StagewiseInput>& inputs, double epsilon, std::size_t max_steps,
                                      int n_threads) {
  std::vector<StagewiseData> data;
  for (const StagewiseInput& input : inputs) data.push_back(input.data());
  std::vector<StagewisePath> paths;
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    paths = walk_stagewise(data, {epsilon, max_steps}, pool, check_interrupt);
  }
  std::vector<py::dict> found;
  for (StagewisePath& path : paths) found.push_back(to_dict(std::move(path)));
  return found;
}

Forest pruned_forest(const Forest& forest, const Contiguous<std::uint32_t>& nodes,
                     const py::array_t<double>& coefficients, const Contiguous<double>& intercept) {
  require(!forest.trees.empty(), "the forest has no trees");
  const auto numbers = as_span(nodes, "nodes");
  const auto values = as_matrix(coefficients, "coefficients");
  const auto constant = as_span(intercept, "intercept");
  std::size_t n_nodes = 0;
  for (const DecisionTree& tree : forest.trees) n_nodes += tree.nodes.size();
  require(std::ranges::is_sorted(numbers, std::less_equal<>{}) && (numbers.empty() || numbers.back() < n_nodes),
          "nodes must ascend, and be below the number of nodes");
  require(values.n_rows == numbers.size() && values.n_columns == constant.size() && !constant.empty(),
          "coefficients must have shape (n_nodes, n_outputs), the intercept (n_outputs,)");
  return {forest.params, forest.n_features, forest.n_tasks, cut_off(forest.trees, numbers, values, constant)};
}

}  // namespace

void bind_compression(py::module_& module) {
  py::class_<StagewiseInput>(module, "StagewiseInput", "A forest and the rows of one path.")
      .def(py::init([](const py::object& forest, const py::object& table, const py::array_t<double>& labels,
                       const Optional<task_t>& tasks, const std::optional<py::object>& valid_table,
                       const std::optional<py::array_t<double>>& valid_labels, const Optional<task_t>& valid_tasks) {
             StagewiseInput input{forest, checked_table(table), labels, tasks, {}, valid_labels, valid_tasks};
             if (valid_table) input.valid_table = checked_table(*valid_table);
             input.data();
             return input;
           }),
           py::arg("forest"), py::arg("X").noconvert(), py::arg("y").noconvert(), py::kw_only(),
           py::arg("tasks").noconvert().none(true) = py::none(), py::arg("X_valid").noconvert().none(true) = py::none(),
           py::arg("y_valid").noconvert().none(true) = py::none(),
           py::arg("tasks_valid").noconvert().none(true) = py::none());
  module.def("stagewise_paths", &stagewise_paths, py::arg("inputs"), py::kw_only(), py::arg("epsilon"),
             py::arg("max_steps"), py::arg("n_threads") = 1);
  module.def("pruned_forest", &pruned_forest, py::arg("forest"), py::arg("nodes").noconvert(), py::kw_only(),
             py::arg("coefficients").noconvert(), py::arg("intercept").noconvert());
}

}  // namespace mtboost
