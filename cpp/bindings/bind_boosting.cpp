// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <variant>

#include "arrays.hpp"
#include "base/random.hpp"
#include "bindings.hpp"
#include "boosting/boosted_model.hpp"
#include "boosting/feature_draw.hpp"
#include "boosting/output_loss.hpp"
#include "boosting/output_steps.hpp"
#include "boosting/projected_boosting.hpp"
#include "forests.hpp"
#include "trees.hpp"

namespace mtboost {
namespace {

using OptionalFloats = std::optional<Contiguous<float>>;
using OptionalDoubles = std::optional<Contiguous<double>>;

std::string name_of(OutputLossKind kind) {
  switch (kind) {
    case OutputLossKind::squared: return "squared";
    case OutputLossKind::absolute: return "absolute";
    case OutputLossKind::huber: return "huber";
    case OutputLossKind::logistic: return "logistic";
    default: return "softmax";
  }
}

// The arrays must outlive it.
LabelledRows labelled_rows(const OutputLoss& loss, const Contiguous<float>& labels, const OptionalFloats& weights) {
  const bool is_matrix = labels.ndim() == 2 && static_cast<std::size_t>(labels.shape(1)) == loss.n_labels();
  require(is_matrix || (labels.ndim() == 1 && loss.n_labels() == 1), [&] {
    return loss.n_labels() == 1 ? std::string("labels must have shape (n_rows,)")
                                : "labels must have shape (n_rows, " + std::to_string(loss.n_labels()) + ")";
  });
  LabelledRows rows{{labels.data(), static_cast<std::size_t>(labels.size())},
                    {},
                    static_cast<std::size_t>(labels.shape(0)),
                    loss.n_labels()};
  if (weights) {
    require(weights->ndim() <= 2 && weights->shape(0) == labels.shape(0) &&
                (weights->ndim() == 1 || static_cast<std::size_t>(weights->shape(1)) == loss.n_labels()),
            "weights must have shape (n_rows,), or that of the labels");
    rows.weights = {weights->data(), static_cast<std::size_t>(weights->size())};
  }
  return rows;
}

std::span<const float> margins_of(const OutputLoss& loss, const Contiguous<float>& margins, std::size_t n_rows) {
  require(margins.ndim() == 2 && static_cast<std::size_t>(margins.shape(0)) == n_rows &&
              static_cast<std::size_t>(margins.shape(1)) == loss.n_outputs(),
          [&] { return "margins must have shape (n_rows, " + std::to_string(loss.n_outputs()) + ")"; });
  return {margins.data(), static_cast<std::size_t>(margins.size())};
}

Contiguous<float> output_like(const OutputLoss& loss, std::size_t n_rows, const OptionalFloats& out) {
  if (!out) return Contiguous<float>({n_rows, loss.n_outputs()});
  require(out->ndim() == 2 && static_cast<std::size_t>(out->shape(0)) == n_rows &&
              static_cast<std::size_t>(out->shape(1)) == loss.n_outputs(),
          "out must have the shape of the margins");
  return *out;
}

// out: weights times what fill(row, out of the row) makes of each row
template <typename Fill>
void fill_rows(const OutputLoss& loss, const LabelledRows& rows, int n_threads, float* out, const Fill& fill) {
  constexpr std::size_t kRowsPerBlock = 256;
  const std::size_t d = loss.n_outputs();
  py::gil_scoped_release release;
  loss.check_classes(rows);
  ThreadPool pool(n_threads);
  pool.parallel_for((rows.n_rows + kRowsPerBlock - 1) / kRowsPerBlock, [&](std::size_t block) {
    for (std::size_t row = block * kRowsPerBlock; row < std::min((block + 1) * kRowsPerBlock, rows.n_rows); ++row) {
      float* own = out + row * d;
      fill(row, own);
      if (!rows.weights.empty())
        for (std::size_t j = 0; j < d; ++j) own[j] *= rows.weight(row, rows.has_weight_per_label() ? j : 0);
    }
  });
}

Contiguous<float> residuals(const OutputLoss& loss, const Contiguous<float>& margins, const Contiguous<float>& labels,
                            const OptionalFloats& weights, int n_threads, const OptionalFloats& out) {
  const LabelledRows rows = labelled_rows(loss, labels, weights);
  const auto own = margins_of(loss, margins, rows.n_rows);
  Contiguous<float> found = output_like(loss, rows.n_rows, out);
  fill_rows(loss, rows, n_threads, found.mutable_data(), [&](std::size_t row, float* of_row) {
    loss.residuals(own.data() + row * loss.n_outputs(), rows.labels_of(row), of_row);
  });
  return found;
}

Contiguous<float> hessians(const OutputLoss& loss, const Contiguous<float>& margins, const Contiguous<float>& labels,
                           const OptionalFloats& weights, int n_threads, const OptionalFloats& out) {
  const LabelledRows rows = labelled_rows(loss, labels, weights);
  const auto own = margins_of(loss, margins, rows.n_rows);
  Contiguous<float> found = output_like(loss, rows.n_rows, out);
  fill_rows(loss, rows, n_threads, found.mutable_data(), [&](std::size_t row, float* of_row) {
    loss.residuals(own.data() + row * loss.n_outputs(), rows.labels_of(row), of_row);
    loss.hessians(of_row, rows.labels_of(row), of_row);
  });
  return found;
}

py::array_t<float> initial(const OutputLoss& loss, const Contiguous<float>& labels, const OptionalFloats& weights,
                           int n_threads) {
  const LabelledRows rows = labelled_rows(loss, labels, weights);
  std::vector<float> constants;
  {
    py::gil_scoped_release release;
    loss.check(rows);
    ThreadPool pool(n_threads);
    constants = loss.initial(rows, pool);
  }
  return to_array(std::move(constants));
}

double mean_loss(const OutputLoss& loss, const Contiguous<float>& margins, const Contiguous<float>& labels,
                 const OptionalFloats& weights, int n_threads) {
  const LabelledRows rows = labelled_rows(loss, labels, weights);
  const auto own = margins_of(loss, margins, rows.n_rows);
  py::gil_scoped_release release;
  loss.check(rows);
  ThreadPool pool(n_threads);
  return loss.mean_loss(own, rows, pool);
}

py::array_t<double> steps(const OutputLoss& loss, const Contiguous<float>& margins, const Contiguous<float>& labels,
                          const Contiguous<float>& direction, const OptionalFloats& weights, int n_threads) {
  const LabelledRows rows = labelled_rows(loss, labels, weights);
  const auto own = margins_of(loss, margins, rows.n_rows);
  const auto along = as_span(direction, "direction");
  std::vector<double> found;
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    found = output_steps(loss, own, rows, along, pool);
  }
  return to_array(std::move(found));
}

// ---- models
py::array_t<float> predict_margins(const BoostedModel& model, const Table& table, std::size_t first,
                                   std::optional<std::size_t> last, const OptionalFloats& margins, int n_threads) {
  const RowsView rows = as_rows_view(table);
  const std::size_t n_rows = rows.table.n_rows, d = model.n_outputs(), end = last.value_or(model.trees.size());
  require(rows.table.n_columns == model.n_features, "X has other features than the model");
  require(first <= end && end <= model.trees.size(), "there are no such trees");
  Contiguous<float> sums = margins ? *margins : Contiguous<float>({n_rows, d});
  require(sums.ndim() == 2 && static_cast<std::size_t>(sums.shape(0)) == n_rows &&
              static_cast<std::size_t>(sums.shape(1)) == d,
          "margins must have shape (n_rows, n_outputs)");
  const std::span own(sums.mutable_data(), n_rows * d);
  py::gil_scoped_release release;
  ThreadPool pool(n_threads);
  if (!margins)
    for (std::size_t row = 0; row < n_rows; ++row)
      std::ranges::copy(model.initial, own.begin() + static_cast<std::ptrdiff_t>(row * d));
  add_trees(model, first, end, rows, pool, own);
  return sums;
}

py::dict arrays(const BoostedModel& model) {
  std::vector<py::dict> trees;
  for (const DecisionTree& tree : model.trees) trees.push_back(arrays_of(tree));
  return joined(trees);
}

BoostedModel model_from(feature_t n_features, bool relabels, const Contiguous<float>& initial, const py::dict& arrays,
                        const Contiguous<float>& output_weights) {
  BoostedModel model{
      n_features, relabels, as_vector(initial, "initial"), {}, as_vector(output_weights, "output_weights")};
  const auto n_outputs = static_cast<std::uint32_t>(relabels ? model.n_outputs() : 1);
  for (const py::dict& tree : parted(arrays)) model.trees.push_back(tree_from(tree, n_outputs));
  model.check();
  return model;
}

BoostedModel first_trees(const BoostedModel& model, std::size_t n_trees) {
  require(n_trees <= model.trees.size(), "the model has fewer trees");
  BoostedModel part{model.n_features, model.relabels, model.initial, {}, {}};
  part.trees.assign(model.trees.begin(), model.trees.begin() + static_cast<std::ptrdiff_t>(n_trees));
  const auto n_weights = static_cast<std::ptrdiff_t>(model.relabels ? 0 : n_trees * model.n_outputs());
  part.output_weights.assign(model.output_weights.begin(), model.output_weights.begin() + n_weights);
  return part;
}

// ---- training
Contiguous<float> residual_matrix(const ResidualProjection& projection, const Contiguous<float>& residuals,
                                  std::uint64_t seed, std::uint64_t tree, int n_threads) {
  require(residuals.ndim() == 2 && residuals.shape(1) > 0, "residuals must have shape (n_rows, n_outputs)");
  const auto n_rows = static_cast<row_t>(residuals.shape(0));
  const auto d = static_cast<std::size_t>(residuals.shape(1));
  std::vector<row_t> rows(n_rows);
  std::iota(rows.begin(), rows.end(), row_t{0});
  const ResidualRows view{{residuals.data(), static_cast<std::size_t>(residuals.size())}, rows, d};
  const RandomStream random(RandomStream::Purpose::projection_of_tree, seed, tree);
  const Projection drawn = [&] {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    return make_residual_projection(projection.kind, projection.n_components, view, random, pool);
  }();
  return matrix_of(drawn);
}

// None: equal chances, an empty vector of the core.
std::vector<double> weights_of(const OptionalDoubles& weights) {
  if (!weights) return {};
  require(weights->size() > 0, "feature_weights must hold one number a feature");
  return as_vector(*weights, "feature_weights");
}

py::object weights_from(std::span<const double> weights) {
  if (weights.empty()) return py::none();
  return to_array(std::vector<double>(weights.begin(), weights.end()));
}

Contiguous<feature_t> draw_features(const Contiguous<double>& weights, std::size_t n, std::uint64_t seed,
                                    std::uint64_t tree, std::uint64_t node) {
  const auto own = as_vector(weights, "weights");
  const auto n_features = static_cast<feature_t>(own.size());
  check_feature_weights(own, n_features);
  const FeatureDraw draw(drawable_features(n_features, own), own);
  return to_array(draw.draw(n, RandomStream(RandomStream::Purpose::features_of_node, seed, tree, node)));
}

ComponentTreeParams tree_params(std::uint32_t max_depth, std::uint32_t max_leaf_nodes, row_t min_samples_leaf,
                                feature_t max_features, const OptionalDoubles& feature_weights, double subsample,
                                double colsample, std::uint64_t seed) {
  return {max_depth, max_leaf_nodes, min_samples_leaf, max_features, weights_of(feature_weights), subsample, colsample,
          seed};
}

using OptionalProjection = std::variant<std::monostate, ForestProjection, ResidualProjection>;

// What trains, and the arrays it reads.
struct Training {
  std::shared_ptr<const BinnedMatrix> matrix;
  Contiguous<float> labels;
  OptionalFloats weights;
  ProjectedBoosting boosting;
};

std::unique_ptr<Training> start(std::shared_ptr<BinnedMatrix> matrix, const OutputLoss& loss, Contiguous<float> labels,
                                OptionalFloats weights, bool relabels, double learning_rate,
                                const ComponentTreeParams& tree, OptionalProjection projection,
                                const BoostedModel* model, const OptionalFloats& margins, int n_threads) {
  const LabelledRows rows = labelled_rows(loss, labels, weights);
  std::span<const float> own;
  if (margins) own = margins_of(loss, *margins, rows.n_rows);
  BoostedModel begun = model != nullptr ? *model : BoostedModel{};
  const BinnedMatrix& table = *matrix;
  ThreadPool pool(n_threads);
  ProjectedBoosting boosting = [&] {
    py::gil_scoped_release release;
    return ProjectedBoosting(table, loss, rows, {relabels, learning_rate, tree, std::move(projection)},
                             std::move(begun), own, pool);
  }();
  return std::unique_ptr<Training>(
      new Training{std::move(matrix), std::move(labels), std::move(weights), std::move(boosting)});
}

void update(Training& training, int n_threads) {
  py::gil_scoped_release release;
  ThreadPool pool(n_threads);
  training.boosting.update(pool, check_interrupt);
}

// Read-only, where the margins lie: the object that trains is kept alive by it.
py::array_t<float> margins(const py::object& self) {
  const auto& training = self.cast<const Training&>();
  const auto own = training.boosting.margins();
  const std::size_t d = training.boosting.model().n_outputs();
  py::array_t<float> view({own.size() / d, d}, own.data(), self);
  view.attr("flags").attr("writeable") = false;
  return view;
}

}  // namespace

void bind_boosting(py::module_& module) {
  py::class_<OutputLoss>(module, "OutputLoss", "A loss of many outputs, some of whose labels may be unknown.")
      .def(py::init([](const std::string& name, std::size_t n_outputs, float huber_delta) {
             return OutputLoss(output_loss_named(name), n_outputs, huber_delta);
           }),
           py::arg("name"), py::arg("n_outputs"), py::kw_only(), py::arg("huber_delta") = 1.0f)
      .def_property_readonly("name", [](const OutputLoss& loss) { return name_of(loss.kind()); })
      .def_property_readonly("n_outputs", &OutputLoss::n_outputs)
      .def_property_readonly("n_labels", &OutputLoss::n_labels)
      .def(
          "check",
          [](const OutputLoss& loss, const Contiguous<float>& labels, const OptionalFloats& weights) {
            loss.check(labelled_rows(loss, labels, weights));
          },
          py::arg("labels").noconvert(), py::arg("weights").noconvert().none(true) = py::none())
      .def("initial", &initial, py::arg("labels").noconvert(), py::arg("weights").noconvert().none(true) = py::none(),
           py::kw_only(), py::arg("n_threads") = 1)
      .def("residuals", &residuals, py::arg("margins").noconvert(), py::arg("labels").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(), py::arg("n_threads") = 1,
           py::arg("out").noconvert().none(true) = py::none())
      .def("hessians", &hessians, py::arg("margins").noconvert(), py::arg("labels").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(), py::arg("n_threads") = 1,
           py::arg("out").noconvert().none(true) = py::none())
      .def("steps", &steps, py::arg("margins").noconvert(), py::arg("labels").noconvert(),
           py::arg("direction").noconvert(), py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(),
           py::arg("n_threads") = 1)
      .def("mean_loss", &mean_loss, py::arg("margins").noconvert(), py::arg("labels").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(), py::arg("n_threads") = 1);

  py::class_<BoostedModel>(module, "BoostedModel", "Constants, and trees that are added to them.")
      .def(py::init(&model_from), py::kw_only(), py::arg("n_features"), py::arg("relabels"),
           py::arg("initial").noconvert(), py::arg("arrays"), py::arg("output_weights").noconvert())
      .def("predict", &predict_margins, py::arg("X").noconvert(), py::kw_only(), py::arg("first") = 0,
           py::arg("last") = py::none(), py::arg("margins").noconvert().none(true) = py::none(),
           py::arg("n_threads") = 1)
      .def("arrays", &arrays)
      .def(
          "tree_arrays",
          [](const BoostedModel& model, std::size_t tree) {
            require(tree < model.trees.size(), "there is no tree of this number");
            return arrays_of(model.trees[tree]);
          },
          py::arg("tree"))
      .def("first_trees", &first_trees, py::arg("n_trees"))
      .def("importances",
           [](const BoostedModel& model) { return to_array(importances(model.trees, model.n_features)); })
      .def(py::pickle(
          [](const BoostedModel& model) {
            return py::make_tuple(model.n_features, model.relabels, to_array(model.initial), arrays(model),
                                  to_array(model.output_weights));
          },
          [](const py::tuple& state) {
            require(state.size() == 5, "this is no pickle of a model");
            return model_from(state[0].cast<feature_t>(), state[1].cast<bool>(), state[2].cast<Contiguous<float>>(),
                              state[3].cast<py::dict>(), state[4].cast<Contiguous<float>>());
          }))
      .def_readonly("n_features", &BoostedModel::n_features)
      .def_readonly("relabels", &BoostedModel::relabels)
      .def_property_readonly("initial", [](const BoostedModel& model) { return to_array(model.initial); })
      .def_property_readonly("output_weights",
                             [](const BoostedModel& model) {
                               const std::size_t d = model.n_outputs(), n = model.output_weights.size() / d;
                               return Contiguous<float>({n, d}, model.output_weights.data());
                             })
      .def_property_readonly("n_outputs", &BoostedModel::n_outputs)
      .def_property_readonly("n_trees", [](const BoostedModel& model) { return model.trees.size(); });

  py::class_<ResidualProjection>(module, "ResidualProjection", "A projection computed from the residuals.")
      .def(py::init([](const std::string& kind, std::size_t n_components) {
             check_components(n_components);
             return ResidualProjection{residual_projection_named(kind), n_components};
           }),
           py::arg("kind"), py::kw_only(), py::arg("n_components"))
      .def("matrix", &residual_matrix, py::arg("residuals").noconvert(), py::kw_only(), py::arg("seed"),
           py::arg("tree"), py::arg("n_threads") = 1);

  module.def("draw_features", &draw_features, py::arg("weights").noconvert(), py::arg("n"), py::kw_only(),
             py::arg("seed"), py::arg("tree"), py::arg("node"));

  const ComponentTreeParams defaults;
  py::class_<ComponentTreeParams>(module, "ComponentTreeParams", "How the trees of boosting grow.")
      .def(py::init(&tree_params), py::kw_only(), py::arg("max_depth") = defaults.max_depth,
           py::arg("max_leaf_nodes") = defaults.max_leaf_nodes, py::arg("min_samples_leaf") = defaults.min_samples_leaf,
           py::arg("max_features") = defaults.max_features,
           py::arg("feature_weights").noconvert().none(true) = py::none(), py::arg("subsample") = defaults.subsample,
           py::arg("colsample") = defaults.colsample, py::arg("seed") = defaults.seed);

  py::class_<Training>(module, "ProjectedBoosting", "Boosting of many outputs, round by round.")
      .def(py::init(&start), py::arg("matrix").none(false), py::arg("loss"), py::arg("labels").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(), py::arg("relabels") = true,
           py::arg("learning_rate") = 0.1, py::arg("tree"), py::arg("projection") = py::none(),
           py::arg("model").none(true) = py::none(), py::arg("margins").noconvert().none(true) = py::none(),
           py::arg("n_threads") = 1)
      .def("update", &update, py::kw_only(), py::arg("n_threads") = 1)
      .def("mean_loss", [](const Training& training) { return training.boosting.mean_loss(); })
      .def_property(
          "feature_weights", [](const Training& training) { return weights_from(training.boosting.feature_weights()); },
          [](Training& training, const OptionalDoubles& weights) {
            training.boosting.set_feature_weights(weights_of(weights));
          })
      .def_property_readonly("margins", &margins)
      .def_property_readonly(
          "model", [](const Training& training) -> const BoostedModel& { return training.boosting.model(); },
          py::return_value_policy::reference_internal);
}

}  // namespace mtboost
