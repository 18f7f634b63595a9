// SPDX-License-Identifier: Apache-2.0
// Table of contents of the extension: one bind_<step>(module) per bind_<step>.cpp.
#include "bindings.hpp"

void mtboost::check_interrupt() {
  pybind11::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

PYBIND11_MODULE(_core, module) {
  module.doc() = "The algorithms of mtboost in C++; mtboost's Python modules are its only users.";
  mtboost::bind_binning(module);
  mtboost::bind_split(module);
  mtboost::bind_grow(module);
  mtboost::bind_small_models(module);
  mtboost::bind_loss(module);
  mtboost::bind_forest(module);
  mtboost::bind_compression(module);
  mtboost::bind_mt_decision_tree(module);
  mtboost::bind_boosting(module);
  mtboost::bind_margin_trees(module);
  mtboost::bind_ubjson(module);
}
