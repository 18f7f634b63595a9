# SPDX-License-Identifier: Apache-2.0
"""Families of tasks: seven ways in which tasks may be related, or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy import special

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import LARGEST_SCALE, check_choice, check_count, check_number, check_seed
from mtboost.datasets.cosine_sums import CosineSum, draw_cosine_sum, mix
from mtboost.errors import ParameterError

Kind: TypeAlias = Literal[
    "same", "related", "clustered", "unrelated", "opposite", "outlier", "columns"
]
Sizes: TypeAlias = Literal["balanced", "zipf"]

_COMMON = tuple(f"x{number}" for number in range(1, 11))
_N_GROUPS = 4  # of the kinds "clustered" and "columns"
_OWN_COLUMNS = 5  # that each group of "columns" has beside the common ones
_OWN_SHARE = {"related": 0.25, "outlier": 0.25, "clustered": 0.5, "columns": 0.5}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TaskFamily:
    """Rows of tasks that are related in a known way, and the prediction no model can beat.

    Every mapping has the names of the tasks as keys, in the same order. Rows are independent, so
    that any part of a task, such as its first 30 rows, is as good a sample as any other.

    Attributes
    ----------
    X : dict of ndarray of float32, shape (n_rows, n_features)
        Columns are independent and uniform on [0, 1).
    y : dict of ndarray, shape (n_rows,)
        float64 labels, or int64 classes 0 and 1.
    expected_y : dict of ndarray of float64, shape (n_rows,)
        Mean of y given the row: the best prediction in squared error, or P(y = 1 | X) exactly.
    feature_names : dict of tuple of str
        Columns of each task. Those that all tasks have come first, in the same order.
    group : dict of int
        Tasks of the same group have the same relation to the others; see
        :func:`make_task_family`. Models do not get it.
    function : dict of CosineSum
        The signal f of each task. Its variance is 1, and ``f.covariance(g)`` is exact.
    noise : float
        Standard deviation of what is added to f.
    is_classification : bool
        Whether labels are classes.
    """

    X: dict[str, npt.NDArray[np.float32]]
    y: dict[str, npt.NDArray[Any]]
    expected_y: dict[str, Float64Array]
    feature_names: dict[str, tuple[str, ...]]
    group: dict[str, int]
    function: dict[str, CosineSum]
    noise: float
    is_classification: bool

    def __repr__(self) -> str:
        counts = [len(X) for X in self.X.values()]
        n_features = len({name for own in self.feature_names.values() for name in own})
        return (
            f"{type(self).__name__}({len(counts)} tasks of {min(counts)} to {max(counts)} rows, "
            f"{n_features} features)"
        )

    def draw(self, n_rows: int, *, seed: int = 0) -> TaskFamily:
        """New rows of the same tasks, such as a test set.

        Parameters
        ----------
        n_rows : int
            Rows of every task.
        seed : int
            Same seed, same rows. No seed gives those that :func:`make_task_family` drew.

        Returns
        -------
        TaskFamily
            With the same functions.

        Raises
        ------
        ParameterError
            A value is out of range.
        TypeError
            A value has the wrong type.
        """
        counts = dict.fromkeys(self.X, check_count("n_rows", n_rows, low=1))
        # make_task_family() uses the children 0 and 1 of a seed.
        return self._with_rows(counts, np.random.SeedSequence(check_seed(seed)).spawn(3)[2])

    def in_one_table(
        self,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[np.str_]]:
        """Rows of all tasks one below the other, for models that take one table.

        Returns
        -------
        X : ndarray of float32, shape (n_rows, n_features)
            All columns of any task, in the order in which they first appear; NaN where the task of
            a row lacks a column.
        y : ndarray, shape (n_rows,)
        task : ndarray of str, shape (n_rows,)
            Name of the task of each row.
        """
        names = list(dict.fromkeys(name for own in self.feature_names.values() for name in own))
        task = np.repeat(list(self.X), [len(X) for X in self.X.values()])
        table = np.full((len(task), len(names)), np.nan, dtype=np.float32)
        for own, X in self.X.items():
            columns = [names.index(name) for name in self.feature_names[own]]
            table[np.ix_(task == own, columns)] = X
        return table, np.concatenate(list(self.y.values())), task

    def _with_rows(self, counts: Mapping[str, int], seed: np.random.SeedSequence) -> TaskFamily:
        """The same tasks with new rows; each task has separate random streams."""
        X: dict[str, npt.NDArray[np.float32]] = {}
        y: dict[str, npt.NDArray[Any]] = {}
        expected_y: dict[str, Float64Array] = {}
        for (task, count), stream in zip(counts.items(), seed.spawn(len(counts)), strict=True):
            for_X, for_noise = map(np.random.default_rng, stream.spawn(2))
            names = self.feature_names[task]
            X[task] = for_X.random((count, len(names)), dtype=np.float32)
            signal = self.function[task](X[task], names)
            latent = signal + self.noise * for_noise.standard_normal(count)
            if not self.is_classification:
                y[task], expected_y[task] = latent, signal
                continue
            y[task] = (latent > 0).astype(np.int64)
            # Without noise the class is known; elsewhere f / σ would be 0 / 0.
            expected_y[task] = special.ndtr(signal / self.noise) if self.noise else y[task] * 1.0
        return replace(self, X=X, y=y, expected_y=expected_y)


def make_task_family(
    kind: Kind,
    *,
    n_tasks: int = 20,
    n_rows: int = 4000,
    sizes: Sizes = "balanced",
    noise: float = 1.0,
    own_share: float | None = None,
    classification: bool = False,
    seed: int = 0,
) -> TaskFamily:
    """Tasks with nonlinear signals, related in one of seven ways that are known exactly.

    Whether sharing helps a task depends on how it is related to the others, and on how few rows it
    has. Here both are chosen. The signal of each task has the mean 0 and the variance 1 and depends
    on columns that are uniform on [0, 1): ten that all tasks have, x1 to x10, of which a drawn
    function uses five. It has four monotone effects, an effect in the shape of a U and a product of
    two columns, each with a sixth of the variance and a random sign. Two functions drawn
    independently have a covariance of mean 0.

    In ``kind``, g is a drawn function that tasks have in common, h one that has no term in common
    with g, and s the share of the variance that is h's, ``own_share``:

    ============  ==================================================================  ============
    kind          signal of a task                                                    s
    ============  ==================================================================  ============
    "same"        g
    "related"     √(1-s) g + √s h, with a function h for each task                    0.25
    "clustered"   √(1-s) g + √s h, with a function h for each of four groups          0.5
    "unrelated"   a function drawn for each task alone
    "opposite"    g in half of the tasks, -g in the others
    "outlier"     as "related"; but one task is -√(1-s) g + √s h, and one only h      0.25
    "columns"     √(1-s) g + √s h, with a function h for each of four groups, of      0.5
                  five columns that only the tasks of this group have
    ============  ==================================================================  ============

    Which task is in which group is drawn (``group``: 0 to 3; of "opposite" 1 has -g; of "outlier" 0
    are the related tasks, 1 is the one of -g and 2 that of h; of "same" and "related" all are 0, of
    "unrelated" each task has a different number).

    Parameters
    ----------
    kind : {"same", "related", "clustered", "unrelated", "opposite", "outlier", "columns"}
        How tasks are related; see above.
    n_tasks : int
        Tasks, at least 4: "task1", "task2", ....
    n_rows : int
        Rows of all tasks together.
    sizes : {"balanced", "zipf"}
        As many rows of each task, or of task number k as many as are proportional to 1/k. Of 4000
        rows of 20 tasks the first has then 1112 and the last 56. Rounded so that they add up; later
        tasks never have more rows.
    noise : float
        Standard deviation σ of what is added to the signal f, at least 0: y = f + σ ε, ε normal.
        The best model explains 1 / (1 + σ²) of the variance of y.
    own_share : float, optional
        s, from 0 to 1, for the four kinds that have one. By default as in the table.
    classification : bool
        Whether labels are classes: 1 where f + σ ε > 0, so that P(y = 1 | X) = Φ(f / σ).
    seed : int
        Decides everything drawn: functions, groups, rows and noise. Same seed, same bytes (with the
        same NumPy and SciPy on the same kind of machine). Neither sizes, noise, nor rows change the
        functions.

    Returns
    -------
    TaskFamily
        To train on it: ``mtboost.fit(family.X, family.y, feature_names=family.feature_names)``; to
        test: ``family.draw(1000)``.

    Raises
    ------
    ParameterError
        A value is out of range, a task would have no row, or `kind` has no `own_share`.
    TypeError
        A value has the wrong type.

    Notes
    -----
    The shape of the signals is that of the first regression problem of J. H. Friedman
    (*Multivariate adaptive regression splines*, Annals of Statistics 19, 1991), written in cosines:
    variances and covariances need no simulation (:class:`~mtboost.datasets.CosineSum`).

    Examples
    --------
    >>> import mtboost
    >>> from mtboost.datasets import make_task_family
    >>> family = make_task_family("clustered", n_tasks=8, n_rows=400)
    >>> sorted(set(family.group.values()))
    [0, 1, 2, 3]
    >>> family.draw(100).y["task1"].shape
    (100,)
    """
    check_choice("kind", kind, get_args(Kind))
    if own_share is not None and kind not in _OWN_SHARE:
        raise ParameterError(
            f"own_share={own_share} means nothing for kind={kind!r}: leave it out, or use one of "
            f"{', '.join(_OWN_SHARE)}."
        )
    share = _OWN_SHARE.get(kind, 0.0) if own_share is None else own_share
    share = check_number("own_share", share, low=0.0, high=1.0)
    noise = check_number("noise", noise, low=0.0, high=LARGEST_SCALE)
    counts = _rows_by_task(n_rows, check_count("n_tasks", n_tasks, low=4), sizes)
    function_seed, rows_seed = np.random.SeedSequence(check_seed(seed)).spawn(2)
    rng = np.random.default_rng(function_seed)
    groups = _draw_groups(kind, len(counts), rng)
    functions, names = _draw_functions(kind, groups, float(share), rng)
    tasks = TaskFamily(
        X={},
        y={},
        expected_y={},
        feature_names=dict(zip(counts, names, strict=True)),
        group=dict(zip(counts, groups, strict=True)),
        function=dict(zip(counts, functions, strict=True)),
        noise=float(noise),
        is_classification=bool(classification),
    )
    return tasks._with_rows(counts, rows_seed)


def _rows_by_task(n_rows: int, n_tasks: int, sizes: str) -> dict[str, int]:
    """Return the number of rows of each task."""
    check_choice("sizes", sizes, get_args(Sizes))
    total = check_count("n_rows", n_rows, low=n_tasks)
    number = np.arange(1, n_tasks + 1)
    part = np.ones(n_tasks) if sizes == "balanced" else 1 / number
    # Rounding the running totals would let a later task have more; the largest remainders do not.
    exact = total * part / part.sum()
    counts = np.floor(exact).astype(np.int64)
    order = np.argsort(counts - exact, kind="stable")
    counts[order[: total - counts.sum()]] += 1
    if counts[-1] < 1:
        raise ParameterError(
            f"n_rows={n_rows} leave task{n_tasks} without a row under sizes={sizes!r}: raise "
            "n_rows, or lower n_tasks."
        )
    return {f"task{k}": int(count) for k, count in zip(number, counts, strict=True)}


def _draw_groups(kind: Kind, n_tasks: int, rng: np.random.Generator) -> list[int]:
    """Group of each task; any task may be in any, so that sizes carry no information."""
    match kind:
        case "unrelated":
            groups = np.arange(n_tasks)
        case "clustered" | "columns":
            groups = rng.permutation(np.arange(n_tasks) % _N_GROUPS)
        case "opposite":
            groups = rng.permutation(np.arange(n_tasks) % 2)
        case "outlier":
            groups = rng.permutation([1, 2, *[0] * (n_tasks - 2)])
        case "same" | "related":
            groups = np.zeros(n_tasks, dtype=np.int64)
    return [int(group) for group in groups]


def _draw_functions(
    kind: Kind, groups: list[int], share: float, rng: np.random.Generator
) -> tuple[list[CosineSum], list[tuple[str, ...]]]:
    """Signal and columns of each task."""
    g = draw_cosine_sum(_COMMON, rng)
    common, own = np.sqrt(1 - share), np.sqrt(share)
    names = [_COMMON] * len(groups)
    match kind:
        case "same":
            return [g for _ in groups], names
        case "unrelated":
            return [draw_cosine_sum(_COMMON, rng) for _ in groups], names
        case "opposite":
            return [mix((-1.0 if group else 1.0, g)) for group in groups], names
        case "clustered":
            of_group = [draw_cosine_sum(_COMMON, rng, apart_from=g) for _ in range(_N_GROUPS)]
            return [mix((common, g), (own, of_group[group])) for group in groups], names
        case "columns":
            columns = [
                tuple(f"{letter}{number}" for number in range(1, _OWN_COLUMNS + 1))
                for letter in "abcd"[:_N_GROUPS]
            ]
            of_group = [draw_cosine_sum(own_columns, rng) for own_columns in columns]
            functions = [mix((common, g), (own, of_group[group])) for group in groups]
            return functions, [_COMMON + columns[group] for group in groups]
        case "related" | "outlier":
            factors = {0: (common, own), 1: (-common, own), 2: (0.0, 1.0)}
            functions = []
            for group in groups:
                of_g, of_h = factors[group]
                h = draw_cosine_sum(_COMMON, rng, apart_from=g)
                functions.append(mix((of_g, g), (of_h, h)))
            return functions, names
