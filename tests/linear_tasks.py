# SPDX-License-Identifier: Apache-2.0
"""Tasks that are linear models with different slopes, for tests of linear effects."""

import numpy as np

N_TASKS, N_COLUMNS = 12, 3


def linear_rows(seed, n_tasks=N_TASKS, n_rows=20, noise=0.5, spread=1.0):
    """Rows of tasks with different slopes, and what is expected of each row."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(task), N_COLUMNS))
    slopes = rng.normal(0.5, spread, (n_tasks, N_COLUMNS))
    expected = rng.normal(size=n_tasks)[task] + (X * slopes[task]).sum(axis=1)
    return X, expected + noise * rng.normal(size=len(task)), task, expected
