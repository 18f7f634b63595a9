// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <optional>

#include "bindings.hpp"
#include "forests.hpp"
#include "trees.hpp"

namespace mtboost {

std::span<const task_t> tasks_of(const Forest& forest, const Optional<task_t>& tasks, std::size_t n_rows,
                                 bool may_be_unknown) {
  if (forest.n_tasks == 0) return {};
  require(tasks.has_value(), "tasks must be given");
  const auto view = as_span(*tasks, "tasks");
  require(view.size() == n_rows, "tasks must have shape (n_rows,)");
  for (const task_t task : view)
    require(task < forest.n_tasks || (may_be_unknown && task == kUnknownTask), "a task is not below n_tasks");
  return view;
}

RowsView as_rows_view(const Table& table) {
  if (const auto* dense = std::get_if<py::array_t<float>>(&table)) return {as_matrix(*dense, "X"), {}};
  const auto* sparse = std::get<const SparseRows*>(table);
  require(sparse != nullptr, "X is None");
  return {{nullptr, sparse->view.n_rows(), sparse->n_features, 0, 0}, {}, &sparse->view};
}

Contiguous<float> matrix_of(const Projection& projection) {
  const std::size_t q = projection.n_components();
  std::vector<float> components(q);
  Contiguous<float> matrix({q, projection.n_outputs()});
  for (std::size_t output = 0; output < projection.n_outputs(); ++output) {
    std::ranges::fill(components, 0.0f);
    projection.add(output, 1.0f, components.data());
    for (std::size_t component = 0; component < q; ++component)
      matrix.mutable_at(component, output) = components[component];
  }
  return matrix;
}

namespace {

ForestParams forest_params(const std::string& splitter, feature_t max_features, std::uint32_t max_depth,
                           row_t min_samples_split, row_t min_samples_leaf, row_t n_bootstrap, double task_split_prob,
                           double alpha, std::uint64_t seed) {
  require(splitter == "random" || splitter == "best", "splitter must be 'random' or 'best'");
  ForestParams params;
  params.splitter = splitter == "random" ? Splitter::random : Splitter::best;
  params.max_features = max_features;
  params.max_depth = max_depth;
  params.min_samples_split = min_samples_split;
  params.min_samples_leaf = min_samples_leaf;
  params.n_bootstrap = n_bootstrap;
  params.task_split_prob = task_split_prob;
  params.alpha = alpha;
  params.seed = seed;
  params.check();
  return params;
}

SparseRows make_sparse_rows(Contiguous<std::int64_t> indptr, Contiguous<feature_t> indices, Contiguous<float> values,
                            feature_t n_features, float absent) {
  const SparseTable view{{as_span(indptr, "indptr"), as_span(indices, "indices"), as_span(values, "values")}, absent};
  require(absent == 0.0f || std::isnan(absent), "absent must be 0 or NaN");
  require(!view.indptr.empty() && view.indptr.front() == 0 && std::ranges::is_sorted(view.indptr) &&
              view.indptr.back() == std::ssize(view.indices) && view.indices.size() == view.values.size(),
          "indptr must ascend from 0 to the number of values");
  for (std::size_t row = 0; row < view.n_rows(); ++row) {
    const auto own = view.indices.subspan(static_cast<std::size_t>(view.indptr[row]),
                                          static_cast<std::size_t>(view.indptr[row + 1] - view.indptr[row]));
    require(std::ranges::adjacent_find(own, std::greater_equal<>{}) == own.end(), "indices must ascend in each row");
    require(own.empty() || own.back() < n_features, "an index is not below n_features");
  }
  return {std::move(indptr), std::move(indices), std::move(values), n_features, view};
}

FeatureColumns make_columns(const Table& table, int n_threads) {
  const RowsView rows = as_rows_view(table);
  require(rows.table.n_rows > 0 && rows.table.n_columns > 0, "X has no rows or no columns");
  require(rows.table.n_rows < (std::size_t{1} << 31), "X has more than 2^31 - 1 rows");
  require(rows.table.n_columns < kTaskFeature, "X has more than 2^31 - 2 columns");
  py::gil_scoped_release release;
  require(rows.sparse == nullptr || rows.sparse->absent == 0.0f,
          "trees of a forest grow where what is not stored is 0");
  if (rows.sparse != nullptr) return {*rows.sparse, static_cast<feature_t>(rows.table.n_columns)};
  ThreadPool pool(n_threads);
  return {rows.table, pool};
}

// What two or more trees are grown on; the arrays must outlive it.
ForestLabels labels_of(const Optional<double>& y, const Optional<std::uint32_t>& labels,
                       const Optional<std::uint64_t>& label_starts, const Optional<double>& label_values,
                       std::uint32_t n_labels, std::size_t n_rows) {
  require(y.has_value() != labels.has_value(), "either y or labels must be given");
  if (y) {
    const auto view = as_matrix(static_cast<const py::array_t<double>&>(*y), "y");
    require(view.n_rows == n_rows && view.n_columns > 0, "y must have shape (n_rows, n_outputs)");
    return view;
  }
  LabelsView view{{}, as_span(*labels, "labels"), n_labels};
  require(n_labels > 0, "n_labels must be at least 1");
  for (const std::uint32_t label : view.labels) require(label < n_labels, "a label is not below n_labels");
  if (label_starts) {
    view.starts = as_span(*label_starts, "label_starts");
    require(view.starts.size() == n_rows + 1 && view.starts.front() == 0 && view.starts.back() == view.labels.size() &&
                std::ranges::is_sorted(view.starts),
            "label_starts must ascend from 0 to the number of labels, one more than rows");
    for (std::size_t row = 0; row < n_rows; ++row)
      require(std::ranges::adjacent_find(view.of_row(row), std::ranges::greater_equal{}) == view.of_row(row).end(),
              "the labels of a row must ascend, each once");
  } else {
    require(view.labels.size() == n_rows, "labels must have shape (n_rows,)");
    require(!label_values, "label_values need label_starts");
  }
  if (label_values) {
    view.values = as_span(*label_values, "label_values");
    require(view.values.size() == view.labels.size(), "label_values must have one value a label");
  }
  return view;
}

void grow(Forest& forest, const FeatureColumns& columns, std::uint32_t n_trees, const Optional<double>& y,
          const Optional<std::uint32_t>& labels, const Optional<std::uint64_t>& label_starts,
          const Optional<double>& label_values, std::uint32_t n_labels, const Optional<task_t>& tasks,
          const Optional<double>& weights, const ForestProjection* projection, int n_threads) {
  const std::size_t n_rows = columns.n_rows();
  forest.params.check();
  require(columns.n_features() == forest.n_features, "the table has other features than the forest");
  const ForestLabels known = labels_of(y, labels, label_starts, label_values, n_labels, n_rows);
  require(forest.trees.empty() || forest.trees.front().leaves.n_outputs == n_outputs(known),
          "the trees of a forest have different outputs");
  ForestData data{columns, known, tasks_of(forest, tasks, n_rows, false), forest.n_tasks, {}};
  if (weights) {
    data.weights = as_span(*weights, "weights");
    require(data.weights.size() == n_rows, "weights must have shape (n_rows,)");
  }
  if (projection != nullptr) {
    data.projection = *projection;
    const std::size_t n_known = projection->given ? projection->given->n_outputs() : n_outputs(data.labels);
    require(n_known == n_outputs(data.labels), "the projection is of another number of outputs");
    require(projection->n_components <= most_components(projection->kind, n_known),
            "there are more components than this projection can have");
  }
  ForestParams params = forest.params;
  params.n_trees = n_trees;
  py::gil_scoped_release release;
  ThreadPool pool(n_threads);
  auto grown = grow_trees(data, params, forest.trees.size(), pool, check_interrupt);
  forest.trees.insert(forest.trees.end(), std::make_move_iterator(grown.begin()), std::make_move_iterator(grown.end()));
}

ForestProjection random_projection(const std::string& kind, std::size_t n_components, bool is_shared) {
  check_components(n_components);
  return {projection_kind_named(kind), n_components, is_shared};
}

ForestProjection given_projection(const Contiguous<float>& matrix) {
  require(matrix.ndim() == 2 && matrix.shape(0) > 0, "a projection must have shape (n_components, n_outputs)");
  const auto n_components = static_cast<std::size_t>(matrix.shape(0));
  const std::span values(matrix.data(), static_cast<std::size_t>(matrix.size()));
  return {ProjectionKind::gaussian, n_components, true, std::make_shared<const Projection>(values, n_components)};
}

Contiguous<float> projection_matrix(const ForestProjection& projection, std::size_t n_outputs, std::uint64_t seed,
                                    std::uint64_t tree) {
  return matrix_of(projection_of_tree(projection, n_outputs, seed, tree));
}

Contiguous<float> project(const ForestProjection& projection, const Contiguous<float>& gradients,
                          const Optional<float>& weights, std::uint64_t seed, std::uint64_t tree, int n_threads) {
  require(gradients.ndim() == 3 && gradients.shape(1) > 0 && gradients.shape(2) == 2,
          "gradients must have shape (n_rows, n_outputs, 2)");
  const auto n_outputs = static_cast<std::size_t>(gradients.shape(1));
  const Projection drawn = projection_of_tree(projection, n_outputs, seed, tree);
  require(drawn.n_outputs() == n_outputs, "the projection is of another number of outputs");
  static_assert(sizeof(GradientPair) == 2 * sizeof(float));
  const std::span from(reinterpret_cast<const GradientPair*>(gradients.data()),
                       static_cast<std::size_t>(gradients.size()) / 2);
  Contiguous<float> components({static_cast<std::size_t>(gradients.shape(0)), drawn.n_components(), std::size_t{2}});
  const std::span to(reinterpret_cast<GradientPair*>(components.mutable_data()),
                     static_cast<std::size_t>(components.size()) / 2);
  std::span<const float> row_weights;
  if (weights) row_weights = {weights->data(), static_cast<std::size_t>(weights->size())};
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    project_gradients(drawn, from, row_weights, pool, to);
  }
  return components;
}

struct Rows {
  RowsView view;
  py::array_t<double> outputs;
  std::span<double> span;
};

Rows rows_of(const Forest& forest, const Table& table, const Optional<task_t>& tasks) {
  require(!forest.trees.empty(), "the forest has no trees");
  RowsView view = as_rows_view(table);
  const std::size_t n_rows = view.table.n_rows, n_outputs = forest.trees.front().leaves.n_outputs;
  require(view.table.n_columns == forest.n_features, "X has other features than the forest");
  view.tasks = tasks_of(forest, tasks, n_rows, true);
  py::array_t<double> outputs({n_rows, n_outputs});
  const std::span span(outputs.mutable_data(), n_rows * n_outputs);
  return {view, std::move(outputs), span};
}

py::array_t<double> predict_rows(const Forest& forest, const Table& table, const Optional<task_t>& tasks,
                                 int n_threads) {
  const Rows rows = rows_of(forest, table, tasks);
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    predict(forest.trees, rows.view, pool, rows.span);
  }
  return rows.outputs;
}

py::array_t<double> predict_oob(const Forest& forest, const Table& table, const Optional<task_t>& tasks,
                                const Optional<double>& weights, int n_threads) {
  require(forest.params.n_bootstrap > 0, "without bootstrap no row is out of bag");
  const Rows rows = rows_of(forest, table, tasks);
  std::span<const double> row_weights;
  if (weights) {
    row_weights = as_span(*weights, "weights");
    require(row_weights.size() == rows.view.table.n_rows, "weights must have shape (n_rows,)");
  }
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    predict_out_of_bag(forest.trees, forest.params, rows.view, row_weights, pool, rows.span);
  }
  return rows.outputs;
}

py::array_t<node_t> leaves(const Forest& forest, const Table& table, const Optional<task_t>& tasks, int n_threads) {
  const Rows rows = rows_of(forest, table, tasks);
  py::array_t<node_t> found({rows.view.table.n_rows, forest.trees.size()});
  const std::span span(found.mutable_data(), static_cast<std::size_t>(found.size()));
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    find_leaves(forest.trees, rows.view, pool, span);
  }
  return found;
}

py::dict tree_arrays(const Forest& forest, std::size_t number) {
  require(number < forest.trees.size(), "there is no tree of this number");
  return arrays_of(forest.trees[number]);
}

void add_tree(Forest& forest, const py::dict& arrays, std::uint32_t n_outputs) {
  DecisionTree tree = tree_from(arrays, n_outputs);
  tree.check(forest.n_features, forest.n_tasks);
  require(forest.trees.empty() || forest.trees.front().leaves.n_outputs == n_outputs,
          "the trees of a forest have different outputs");
  forest.trees.push_back(std::move(tree));
}

py::dict params_dict(const ForestParams& params) {
  py::dict values;
  values["splitter"] = params.splitter == Splitter::random ? "random" : "best";
  values["max_features"] = params.max_features;
  values["max_depth"] = params.max_depth;
  values["min_samples_split"] = params.min_samples_split;
  values["min_samples_leaf"] = params.min_samples_leaf;
  values["n_bootstrap"] = params.n_bootstrap;
  values["task_split_prob"] = params.task_split_prob;
  values["alpha"] = params.alpha;
  values["seed"] = params.seed;
  return values;
}

std::uint32_t n_outputs_of(const Forest& forest) {
  return forest.trees.empty() ? 1 : forest.trees.front().leaves.n_outputs;
}

py::dict arrays(const Forest& forest) {
  std::vector<py::dict> trees;
  for (const DecisionTree& tree : forest.trees) trees.push_back(arrays_of(tree));
  return joined(trees);
}

void add_trees(Forest& forest, const py::dict& arrays, std::uint32_t n_outputs) {
  for (const py::dict& tree : parted(arrays)) add_tree(forest, tree, n_outputs);
}

// What a pickle holds: the arguments of both constructors, and the trees.
py::tuple get_state(const Forest& forest) {
  return py::make_tuple(params_dict(forest.params), forest.n_features, forest.n_tasks, n_outputs_of(forest),
                        arrays(forest));
}

Forest from_state(const py::tuple& state) {
  require(state.size() == 5, "this is no pickle of a forest");
  const py::object params = py::type::of<ForestParams>()(**state[0].cast<py::dict>());
  Forest forest{params.cast<ForestParams>(), state[1].cast<feature_t>(), state[2].cast<task_t>(), {}};
  add_trees(forest, state[4].cast<py::dict>(), state[3].cast<std::uint32_t>());
  return forest;
}

}  // namespace

void bind_forest(py::module_& module) {
  const ForestParams defaults;
  py::class_<ForestParams>(module, "ForestParams", "How the trees of a forest grow.")
      .def(py::init(&forest_params), py::kw_only(), py::arg("splitter") = "random",
           py::arg("max_features") = defaults.max_features, py::arg("max_depth") = defaults.max_depth,
           py::arg("min_samples_split") = defaults.min_samples_split,
           py::arg("min_samples_leaf") = defaults.min_samples_leaf, py::arg("n_bootstrap") = defaults.n_bootstrap,
           py::arg("task_split_prob") = defaults.task_split_prob, py::arg("alpha") = defaults.alpha,
           py::arg("seed") = defaults.seed);

  py::class_<ForestProjection>(module, "ForestProjection", "Components of the outputs that splits are found on.")
      .def(py::init(&random_projection), py::arg("kind"), py::kw_only(), py::arg("n_components"),
           py::arg("is_shared") = false)
      .def(py::init(&given_projection), py::arg("matrix").noconvert())
      .def("matrix", &projection_matrix, py::kw_only(), py::arg("n_outputs"), py::arg("seed"), py::arg("tree"))
      .def("project", &project, py::arg("gradients").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(), py::arg("seed"), py::arg("tree"),
           py::arg("n_threads") = 1);

  py::class_<SparseRows>(module, "SparseRows", "Rows of a table whose values are mostly 0.")
      .def(py::init(&make_sparse_rows), py::kw_only(), py::arg("indptr").noconvert(), py::arg("indices").noconvert(),
           py::arg("values").noconvert(), py::arg("n_features"), py::arg("absent") = 0.0f);

  py::class_<FeatureColumns>(module, "FeatureColumns", "A table as trees of a forest read it.")
      .def(py::init(&make_columns), py::arg("X").noconvert(), py::kw_only(), py::arg("n_threads") = 1,
           py::keep_alive<1, 2>());  // columns of a sparse table refer to it

  py::class_<Forest>(module, "Forest", "Trees whose outputs are averaged.")
      .def(py::init([](const ForestParams& params, feature_t n_features, task_t n_tasks) {
             return Forest{params, n_features, n_tasks, {}};
           }),
           py::arg("params"), py::kw_only(), py::arg("n_features"), py::arg("n_tasks") = 0)
      .def("grow", &grow, py::arg("columns"), py::kw_only(), py::arg("n_trees"),
           py::arg("y").noconvert().none(true) = py::none(), py::arg("labels").noconvert().none(true) = py::none(),
           py::arg("label_starts").noconvert().none(true) = py::none(),
           py::arg("label_values").noconvert().none(true) = py::none(), py::arg("n_labels") = 0,
           py::arg("tasks").noconvert().none(true) = py::none(), py::arg("weights").noconvert().none(true) = py::none(),
           py::arg("projection").none(true) = py::none(), py::arg("n_threads") = 1)
      .def("predict", &predict_rows, py::arg("X").noconvert(), py::kw_only(),
           py::arg("tasks").noconvert().none(true) = py::none(), py::arg("n_threads") = 1)
      .def("predict_out_of_bag", &predict_oob, py::arg("X").noconvert(), py::kw_only(),
           py::arg("tasks").noconvert().none(true) = py::none(), py::arg("weights").noconvert().none(true) = py::none(),
           py::arg("n_threads") = 1)
      .def("leaves", &leaves, py::arg("X").noconvert(), py::kw_only(),
           py::arg("tasks").noconvert().none(true) = py::none(), py::arg("n_threads") = 1)
      .def("importances", [](const Forest& forest) { return to_array(importances(forest.trees, forest.n_features)); })
      .def("tree_arrays", &tree_arrays, py::arg("tree"))
      .def("add_tree", &add_tree, py::arg("arrays"), py::kw_only(), py::arg("n_outputs"))
      .def("arrays", &arrays)
      .def("add_trees", &add_trees, py::arg("arrays"), py::kw_only(), py::arg("n_outputs"))
      .def(py::pickle(&get_state, &from_state))
      .def_property_readonly("params", [](const Forest& forest) { return params_dict(forest.params); })
      .def_readonly("n_features", &Forest::n_features)
      .def_readonly("n_tasks", &Forest::n_tasks)
      .def_property_readonly("n_outputs", &n_outputs_of)
      .def_property_readonly("n_trees", [](const Forest& forest) { return forest.trees.size(); })
      .def_property_readonly("n_nodes", [](const Forest& forest) {
        std::size_t n_nodes = 0;
        for (const DecisionTree& tree : forest.trees) n_nodes += tree.nodes.size();
        return n_nodes;
      });
}

}  // namespace mtboost
