// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <algorithm>
#include <optional>

#include "arrays.hpp"
#include "bindings.hpp"
#include "loss/make_lightgbm_loss.hpp"
#include "loss/make_loss.hpp"

namespace mtboost {
namespace {

using OptionalWeights = std::optional<Contiguous<float>>;
using OptionalRows = std::optional<Contiguous<std::uint32_t>>;

std::unique_ptr<XgboostLoss> make_xgboost(const std::string& name, std::size_t n_outputs, float scale_pos_weight,
                                          float huber_slope, float max_delta_step, float tweedie_variance_power,
                                          std::vector<float> quantile_alpha, std::size_t lambdarank_num_pair_per_sample,
                                          bool lambdarank_normalization, bool lambdarank_score_normalization,
                                          bool ndcg_exp_gain, std::string aft_loss_distribution,
                                          float aft_loss_distribution_scale, const std::string& arithmetic) {
  return make_loss(
      name, n_outputs,
      {scale_pos_weight,
       huber_slope,
       max_delta_step,
       tweedie_variance_power,
       std::move(quantile_alpha),
       arithmetic_named(arithmetic),
       {lambdarank_num_pair_per_sample, lambdarank_normalization, lambdarank_score_normalization, ndcg_exp_gain},
       {std::move(aft_loss_distribution), aft_loss_distribution_scale}});
}

std::unique_ptr<LightgbmLoss> make_lightgbm(const std::string& name, std::size_t n_outputs, double alpha, double fair_c,
                                            double poisson_max_delta_step, double tweedie_variance_power,
                                            double sigmoid, bool is_unbalance, double scale_pos_weight,
                                            bool lambdarank_norm, std::size_t lambdarank_truncation_level,
                                            const std::string& arithmetic) {
  return lightgbm::make_loss(name, n_outputs,
                             {alpha, fair_c, poisson_max_delta_step, tweedie_variance_power, sigmoid, is_unbalance,
                              scale_pos_weight, arithmetic, lambdarank_norm, lambdarank_truncation_level});
}

// (n_rows, n_columns), or (n_rows,) where there is one column.
template <typename T>
std::span<const T> as_rows(const Contiguous<T>& array, std::size_t n_columns, const char* name) {
  const bool is_matrix = array.ndim() == 2 && static_cast<std::size_t>(array.shape(1)) == n_columns;
  require(is_matrix || (array.ndim() == 1 && n_columns == 1),
          std::string(name) + " must have shape " +
              (n_columns == 1 ? "(n_rows,)" : "(n_rows, " + std::to_string(n_columns) + ")"));
  return {array.data(), static_cast<std::size_t>(array.size())};
}

template <typename Margin>
LossRows<Margin> as_loss_rows(const Loss<Margin>& loss, const Contiguous<Margin>& margins,
                              const Contiguous<float>& labels, const OptionalWeights& weights) {
  LossRows<Margin> rows{as_rows(margins, loss.n_outputs(), "margins"), as_rows(labels, loss.n_labels(), "labels"), {}};
  if (weights) {
    rows.weights = as_span(*weights, "weights");
    // An empty span means "no weights", so that an empty array for some rows has to be refused here.
    require(!rows.weights.empty() || rows.margins.empty(), "weights must have shape (n_rows,), found 0 weights");
  }
  return rows;
}

template <typename Margin>
Contiguous<float> gradients(const Loss<Margin>& loss, const Contiguous<Margin>& margins,
                            const Contiguous<float>& labels, const OptionalWeights& weights, const OptionalRows& groups,
                            const OptionalRows& order, int n_threads, std::optional<Contiguous<float>> out) {
  LossRows<Margin> rows = as_loss_rows(loss, margins, labels, weights);
  if (groups) rows.groups = as_span(*groups, "groups");
  if (order) rows.order = as_span(*order, "order");
  const std::vector<py::ssize_t> shape{margins.shape(0), static_cast<py::ssize_t>(loss.n_outputs()), 2};
  if (!out) out.emplace(shape);
  require(out->ndim() == 3 && std::equal(shape.begin(), shape.end(), out->shape()),
          "out must have shape (n_rows, n_outputs, 2)");
  static_assert(sizeof(GradientPair) == 2 * sizeof(float));
  const std::span pairs(reinterpret_cast<GradientPair*>(out->mutable_data()), rows.margins.size());
  {
    py::gil_scoped_release release;
    constexpr std::size_t kStepsPerPair = 8;  // most of them of an exponential function
    ThreadPool pool(threads_for(pairs.size() * kStepsPerPair, n_threads));
    loss.gradients(rows, pool, pairs);
  }
  return *out;
}

template <typename Margin>
py::array_t<Margin> refit_leaf_values(const Loss<Margin>& loss, const Contiguous<Margin>& leaf_values,
                                      const Contiguous<node_t>& leaves, const Contiguous<Margin>& margins,
                                      const Contiguous<float>& labels, const OptionalWeights& weights,
                                      std::size_t output, Margin learning_rate, int n_threads) {
  const LossRows<Margin> rows = as_loss_rows(loss, margins, labels, weights);
  const auto leaf_of_row = as_span(leaves, "leaves");
  auto values = as_vector(leaf_values, "leaf_values");
  {
    py::gil_scoped_release release;
    ThreadPool pool(n_threads);
    loss.refit_leaf_values(leaf_of_row, rows, output, learning_rate, pool, values);
  }
  return to_array(std::move(values));
}

template <typename Margin>
void bind_methods(py::class_<Loss<Margin>>& bound) {
  using Bound = Loss<Margin>;
  bound.def_property_readonly("name", &Bound::name)
      .def_property_readonly("n_outputs", &Bound::n_outputs)
      .def_property_readonly("n_labels", &Bound::n_labels)
      .def_property_readonly("refits_leaves", &Bound::refits_leaves)
      .def_property_readonly("needs_groups", &Bound::needs_groups)
      .def_property_readonly("needs_risk_sets", &Bound::needs_risk_sets)
      .def(
          "check_labels",
          [](const Bound& loss, const Contiguous<float>& labels) {
            loss.check_labels(as_rows(labels, loss.n_labels(), "labels"));
          },
          py::arg("labels").noconvert())
      .def("gradients", &gradients<Margin>, py::arg("margins").noconvert(), py::arg("labels").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(),
           py::arg("groups").noconvert().none(true) = py::none(), py::arg("order").noconvert().none(true) = py::none(),
           py::arg("n_threads") = 1, py::arg("out").noconvert().none(true) = py::none())
      .def("refit_leaf_values", &refit_leaf_values<Margin>, py::arg("leaf_values").noconvert(),
           py::arg("leaves").noconvert(), py::arg("margins").noconvert(), py::arg("labels").noconvert(),
           py::arg("weights").noconvert().none(true) = py::none(), py::kw_only(), py::arg("output") = 0,
           py::arg("learning_rate"), py::arg("n_threads") = 1);
}

}  // namespace

void bind_loss(py::module_& module) {
  const LossParams xgboost;
  py::class_<XgboostLoss> xgboost_loss(
      module, "Loss", "A loss by XGBoost's name of its objective; gradients are XGBoost's bit for bit.");
  xgboost_loss.def(py::init(&make_xgboost), py::arg("name"), py::arg("n_outputs") = 1, py::kw_only(),
                   py::arg("scale_pos_weight") = xgboost.scale_pos_weight, py::arg("huber_slope") = xgboost.huber_slope,
                   py::arg("max_delta_step") = xgboost.max_delta_step,
                   py::arg("tweedie_variance_power") = xgboost.tweedie_variance_power,
                   py::arg("quantile_alpha") = xgboost.quantile_alpha,
                   py::arg("lambdarank_num_pair_per_sample") = xgboost.lambdarank.n_pairs,
                   py::arg("lambdarank_normalization") = xgboost.lambdarank.normalization,
                   py::arg("lambdarank_score_normalization") = xgboost.lambdarank.score_normalization,
                   py::arg("ndcg_exp_gain") = xgboost.lambdarank.exp_gain,
                   py::arg("aft_loss_distribution") = xgboost.aft.distribution,
                   py::arg("aft_loss_distribution_scale") = xgboost.aft.scale, py::arg("arithmetic") = "xgboost-3.0");
  bind_methods(xgboost_loss);

  const lightgbm::LossParams lightgbm;
  py::class_<LightgbmLoss> lightgbm_loss(
      module, "LightgbmLoss", "A loss by LightGBM's name of its objective; gradients are LightGBM's bit for bit.");
  lightgbm_loss.def(py::init(&make_lightgbm), py::arg("name"), py::arg("n_outputs") = 1, py::kw_only(),
                    py::arg("alpha") = lightgbm.alpha, py::arg("fair_c") = lightgbm.fair_c,
                    py::arg("poisson_max_delta_step") = lightgbm.poisson_max_delta_step,
                    py::arg("tweedie_variance_power") = lightgbm.tweedie_variance_power,
                    py::arg("sigmoid") = lightgbm.sigmoid, py::arg("is_unbalance") = lightgbm.is_unbalance,
                    py::arg("scale_pos_weight") = lightgbm.scale_pos_weight,
                    py::arg("lambdarank_norm") = lightgbm.lambdarank_norm,
                    py::arg("lambdarank_truncation_level") = lightgbm.lambdarank_truncation_level,
                    py::arg("arithmetic") = lightgbm.arithmetic);
  bind_methods(lightgbm_loss);
}

}  // namespace mtboost
