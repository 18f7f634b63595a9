// SPDX-License-Identifier: Apache-2.0
// The parts of the extension; each is defined in the file of its name.
#pragma once

#include <pybind11/pybind11.h>

namespace mtboost {

void bind_binning(pybind11::module_& module);
void bind_split(pybind11::module_& module);
void bind_grow(pybind11::module_& module);
void bind_small_models(pybind11::module_& module);
void bind_loss(pybind11::module_& module);
void bind_forest(pybind11::module_& module);
void bind_compression(pybind11::module_& module);
void bind_mt_decision_tree(pybind11::module_& module);
void bind_boosting(pybind11::module_& module);
void bind_margin_trees(pybind11::module_& module);
void bind_ubjson(pybind11::module_& module);

// Ctrl-C while the core works without the GIL: throws what Python raises.
void check_interrupt();

}  // namespace mtboost
