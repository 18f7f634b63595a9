# SPDX-License-Identifier: Apache-2.0
"""Figures of forests; importing this module needs matplotlib."""

from __future__ import annotations

import matplotlib.axes
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from mtboost.base.arrays import Float64Array


def plot_cv_curve(
    steps: npt.NDArray[np.int64],
    loss: Float64Array,
    standard_error: Float64Array,
    best: int,
    *,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """See :meth:`CompressedForestRegressor.plot_cv_curve`."""
    if ax is None:
        _, ax = plt.subplots(figsize=(6, 4), layout="constrained")
    ax.plot(steps, loss, linewidth=1.4, label="mean of the folds")
    low, high = loss - standard_error, loss + standard_error
    ax.fill_between(steps, low, high, alpha=0.25, linewidth=0, label="± standard error")
    ax.axvline(best, color="black", linestyle="--", linewidth=1, label=f"best: {best}")
    ax.set_xlabel("steps")
    ax.set_ylabel("squared error / variance")
    ax.legend()
    return ax
