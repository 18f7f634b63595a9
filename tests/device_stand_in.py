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


class Array(np.lib.mixins.NDArrayOperatorsMixin):
    """An array "on the GPU"."""

    def __init__(self, values):
        self._values = values

    def get(self):
        return self._values.copy()

    def __array__(self, *args, **kwargs):
        raise TypeError("implicit conversion to an array of NumPy")

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


def elementwise_kernel(inputs, outputs, code, name):
    """The one kernel there is, level by level."""
    assert name == "find_leaf"

    def find(values, left, right, feature, threshold, default_left, n_features, *, size):
        arguments = map(values_of, (values, left, right, feature, threshold, default_left))
        values, left, right, feature, threshold, default_left = arguments
        assert values.shape == (size, n_features)
        node = np.zeros(size, np.int32)
        while (inner := left[node] >= 0).any():
            value = values[np.arange(size), np.where(inner, feature[node], 0)]
            goes_left = np.where(np.isnan(value), default_left[node] != 0, value < threshold[node])
            node = np.where(inner, np.where(goes_left, left[node], right[node]), node)
        return Array(node.astype(np.int32))

    return find


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
        if name == "add":
            return SimpleNamespace(at=lambda *args: np.add.at(*map(values_of, args)))
        return np.errstate(all="ignore")(
            lambda *args, **kwargs: array_of(found(*map(values_of, args), **kwargs))
        )


def install(monkeypatch):
    """Let trainings keep their rows in such arrays, and XGBoost read them."""
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
