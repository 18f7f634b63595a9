// SPDX-License-Identifier: Apache-2.0
#include <pybind11/stl.h>

#include <optional>

#include "arrays.hpp"
#include "bindings.hpp"
#include "boosting/output_loss.hpp"
#include "boosting/output_steps.hpp"

namespace mtboost {
namespace {

using OptionalFloats = std::optional<Contiguous<float>>;

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
      .def_property_readonly("huber_delta", &OutputLoss::huber_delta)
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
}

}  // namespace mtboost
