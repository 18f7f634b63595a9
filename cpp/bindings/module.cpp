// SPDX-License-Identifier: Apache-2.0
// Table of contents of the extension: one bind_<step>(module) per bind_<step>.cpp.
#include <pybind11/pybind11.h>

PYBIND11_MODULE(_core, module) { module.doc() = "The algorithms of mtboost in C++; mtboost's Python modules are its only users."; }
