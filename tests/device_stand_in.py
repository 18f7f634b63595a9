# SPDX-License-Identifier: Apache-2.0
"""A stand-in for CuPy on a machine without a GPU: arrays that are on the host but do not mix.

As CuPy's, its arrays and functions refuse arrays of NumPy, and NumPy's refuse its arrays, so that
a test sees where rows would leave the GPU.
"""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import xgboost

from mtboost.xgboost.device_rows import DeviceRows

try:
    import cupy as found

    HAS_GPU = found.cuda.is_available()
except ImportError:
    HAS_GPU = False


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on the GPU"."""

    def __init__(self, values):
        self._values = values

    def get(self):
        return self._values.copy()

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit conversion to an array of NumPy")

    device = SimpleNamespace(id=0)
    __cuda_array_interface__ = {}  # noqa: RUF012  # only asked for by name

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        assert method in ("__call__", "at")
        if "out" in kwargs:
            kwargs["out"] = tuple(map(values_of, kwargs["out"]))
        with np.errstate(all="ignore"):  # CuPy does not warn
            return array_of(getattr(ufunc, method)(*map(values_of, inputs), **kwargs))

    def __getitem__(self, key):
        return array_of(self._values[values_of(key)])

    def __setitem__(self, key, value):
        self._values[values_of(key)] = values_of(value)

    def __len__(self):
        return len(self._values)

    def __bool__(self):
        return bool(self._values)

    def __int__(self):
        return int(self._values)

    def __float__(self):
        return float(self._values)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._values, name)
        if not callable(found):
            return array_of(found)
        return lambda *args, **kwargs: array_of(found(*map(values_of, args), **kwargs))


def values_of(value):
    """What NumPy computes with; arrays of NumPy itself are refused."""
    if isinstance(value, tuple | list):
        return type(value)(map(values_of, value))
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeError("an array of NumPy where one on the GPU is needed")
    return value._values if isinstance(value, Array) else value


def array_of(value):
    if isinstance(value, tuple):
        return tuple(map(array_of, value))
    is_array = isinstance(value, np.ndarray | np.generic) and not isinstance(value, np.dtype)
    return Array(np.asarray(value)) if is_array else value


def asarray(value, dtype=None):
    return Array(np.asarray(value._values if isinstance(value, Array) else value, dtype))


def find_leaf(values, nodes, n_features, *, size):
    """Level by level."""
    values, nodes = values_of(values), values_of(nodes)
    left, right, feature, threshold, default_left = nodes.T
    threshold = threshold.copy().view(np.float32)
    assert values.shape == (size, n_features)
    node = np.zeros(size, np.int32)
    while (inner := left[node] >= 0).any():
        value = values[np.arange(size), np.where(inner, feature[node], 0)]
        goes_left = np.where(np.isnan(value), default_left[node] != 0, value < threshold[node])
        node = np.where(inner, np.where(goes_left, left[node], right[node]), node)
    return Array(node.astype(np.int32))


def add_to_cell(leaf, code, gradient, hessian, n_tasks, n_cells, n_copies, *scales_and_sums):
    gradient_scale, hessian_scale, sums = map(values_of, scales_and_sums)
    leaf, code, gradient, hessian = map(values_of, (leaf, code, gradient, hessian))
    copy = np.arange(len(leaf)) % n_copies
    has_leaf = leaf >= 0
    cell = (copy, leaf * n_tasks + code)
    assert sums.shape == (n_copies, n_cells, 2)
    for part, (values, scale) in enumerate(((gradient, gradient_scale), (hessian, hessian_scale))):
        rounded = np.rint(values * np.float64(scale)).astype(np.int64).view(np.uint64)
        np.add.at(sums[:, :, part], tuple(place[has_leaf] for place in cell), rounded[has_leaf])


def add_value(leaf, code, values, n_columns, margin):
    leaf, code, values, margin = map(values_of, (leaf, code, values, margin))
    node = np.where(leaf < 0, ~leaf, leaf)
    margin += values.ravel()[node * n_columns + np.where(code < 0, n_columns - 1, code)]


def elementwise_kernel(inputs, outputs, code, name):
    """What the kernel of this name does, in NumPy."""
    return {"find_leaf": find_leaf, "add_to_cell": add_to_cell, "add_value": add_value}[name]


class Namespace:
    """The module: NumPy's functions on these arrays."""

    n_trees = 0  # grown from gradients on the device
    cuda = SimpleNamespace(Device=lambda number: nullcontext())
    asarray = staticmethod(asarray)
    ElementwiseKernel = staticmethod(elementwise_kernel)

    def __getattr__(self, name):
        found = getattr(np, name)
        if isinstance(found, type):
            return found
        return np.errstate(all="ignore")(
            lambda *args, **kwargs: array_of(found(*map(values_of, args), **kwargs))
        )


def cupy_or_stand_in(monkeypatch):
    """CuPy where there is a GPU; else let trainings keep their rows in the arrays of this file."""
    if HAS_GPU:
        return found
    cupy = Namespace()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(DeviceRows, "of", lambda _: DeviceRows(cupy, "cuda:0"))
    boost, set_base_margin = xgboost.Booster.boost, xgboost.DMatrix.set_base_margin

    def boost_arrays(self, matrix, iteration, grad, hess):
        if isinstance(grad, Array):
            cupy.n_trees += 1
            grad, hess = grad.get(), hess.get()
        return boost(self, matrix, iteration, grad=grad, hess=hess)

    def set_arrays(self, margin):
        return set_base_margin(self, margin.get() if isinstance(margin, Array) else margin)

    monkeypatch.setattr(xgboost.Booster, "boost", boost_arrays)
    monkeypatch.setattr(xgboost.DMatrix, "set_base_margin", set_arrays)
    return cupy
