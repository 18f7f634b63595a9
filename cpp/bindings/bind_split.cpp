// SPDX-License-Identifier: Apache-2.0
#include <pybind11/functional.h>

#include "arrays.hpp"
#include "bindings.hpp"
#include "split/split_score.hpp"

namespace mtboost {
namespace {

// A Python score, called from worker threads: the GIL is taken for each call, and the object released under it.
std::shared_ptr<SplitScore> make_callable_score(py::function function) {
  const std::shared_ptr<py::function> shared(new py::function(std::move(function)), [](py::function* pointer) {
    py::gil_scoped_acquire acquire;
    delete pointer;
  });
  return std::make_shared<CallableScore>([shared](std::span<const float> gains, const MatrixView<float>& task_gains,
                                                  std::span<double> scores) {
    py::gil_scoped_acquire acquire;
    const py::array_t<float> pooled(static_cast<py::ssize_t>(gains.size()), gains.data());
    const py::array_t<float> by_task(
        {static_cast<py::ssize_t>(task_gains.n_rows), static_cast<py::ssize_t>(task_gains.n_columns)}, task_gains.data);
    const auto result = Contiguous<double>::ensure((*shared)(pooled, by_task));
    require(static_cast<bool>(result) && result.ndim() == 1 && result.size() == pooled.size(),
            "the split score must return one number per split, an array of shape (n_splits,)");
    std::copy_n(result.data(), scores.size(), scores.begin());
  });
}

}  // namespace

void bind_split(py::module_& module) {
  py::class_<SplitScore, std::shared_ptr<SplitScore>>(module, "SplitScore", "How good a split is for several tasks.");
  module.def("entropy_score", []() -> std::shared_ptr<SplitScore> { return std::make_shared<EntropyScore>(); });
  module.def(
      "variance_score",
      [](double beta) -> std::shared_ptr<SplitScore> { return std::make_shared<VarianceScore>(beta); },
      py::arg("beta"));
  module.def("deviation_score", []() -> std::shared_ptr<SplitScore> { return std::make_shared<DeviationScore>(); });
  module.def("callable_score", &make_callable_score, py::arg("function"));
}

}  // namespace mtboost
