# SPDX-License-Identifier: Apache-2.0
"""Related tasks: what the caller gets (faddoul2012, section 4.1)."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count, check_number, check_seed
from mtboost.datasets.regions import LabelArray, Region, RegionalConcept, draw_region
from mtboost.errors import ParameterError

_SPACING = 3.0  # side of the square that a region has to itself on average; see the docstring
_N_PLACES = 20  # random places of which a region takes the one farthest from the others


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RelatedTasks:
    """Rows of tasks with different labels, which are related only within regions of the plane.

    Every mapping has the names of the tasks as keys, in the same order. Rows are independent, so
    that any part of a task, such as its first 300 rows, is as good a sample as any other.

    Attributes
    ----------
    X : dict of ndarray of float32, shape (n_rows, 2)
        Points of the plane.
    y : dict of ndarray of int64, shape (n_rows,)
        Labels, 0 to the number of the task's labels less one. The 0 of one task has nothing to do
        with the 0 of another.
    clean_y : dict of ndarray of int64, shape (n_rows,)
        Labels before noise.
    region : dict of ndarray of int64, shape (n_rows,)
        Which of its task's regions each row was drawn from.
    bayes_probability : dict of ndarray of float64, shape (n_rows, n_labels)
        P(label | X), noise included: no model can expect more right answers than its largest.
    concept : dict of RegionalConcept
        The regions and labels behind all this, for rows of your own.
    """

    X: dict[str, npt.NDArray[np.float32]]
    y: dict[str, LabelArray]
    clean_y: dict[str, LabelArray]
    region: dict[str, LabelArray]
    bayes_probability: dict[str, Float64Array]
    concept: dict[str, RegionalConcept]

    def __repr__(self) -> str:
        tasks = ", ".join(
            f"{task}: {len(X)} rows, {self.concept[task].n_labels} labels"
            for task, X in self.X.items()
        )
        return f"{type(self).__name__}({tasks})"


def make_related_tasks(
    n_rows: int | Sequence[int] = 1500,
    *,
    n_labels: Sequence[int] = (3, 2),
    n_regions: int = 4,
    relatedness: float = 1.0,
    label_noise: float = 0.1,
    seed: int = 0,
) -> RelatedTasks:
    """Classification in the plane whose tasks are related only locally and have different labels.

    Rows lie in regions, along random curves. Each region has a lower and an upper part, and each
    task one of its labels in either. Where two tasks share a region, the dependence between
    them differs from region to region: their labels may change together, in either direction, or
    only those of one task.

    From the paper are a random Bayesian network for each region, with linear, cubic and exponential
    functions and Beta, Gaussian and Laplacian densities, tasks with different numbers of labels,
    and the noise. It says neither how many regions there are nor what their parameters are, nor how
    labels are drawn: its text describes a class that goes with one class of the other task in the
    upper part of its density, and with another in the lower. Chosen here: networks of two nodes,
    the columns, with one edge in either direction; the median of the parent as border of the parts;
    parts that are dealt to the labels at random, as many to each as can be; the same distribution
    of the rows in all tasks (if ``relatedness`` is 1); regions that are equally frequent and lie
    apart, so far that a tree for each task is nearly as accurate as in the paper's table 1.

    Parameters
    ----------
    n_rows : int or sequence of int
        Rows of every task, or of each.
    n_labels : sequence of int
        Labels of each task, at least 2. As many tasks as numbers: "task1", "task2", ...
    n_regions : int
        Regions of each task. Their parts, two of each, must suffice for all labels.
    relatedness : float
        Share of the regions that all tasks have in common, in [0, 1], rounded to a whole number
        of them; the others are drawn for each task alone, elsewhere in the plane.
    label_noise : float
        Probability, in [0, 1], that a row has not its label but another of its task, each as
        likely.
    seed : int
        Decides everything drawn: regions, labels, rows and noise. Same seed, same bytes (with the
        same NumPy and SciPy on the same kind of machine).

    Returns
    -------
    RelatedTasks
        Rows, labels and the best possible scores of each task.

    Raises
    ------
    ParameterError
        A value is out of range, or ``n_rows`` and ``n_labels`` are of different length.
    TypeError
        A value has the wrong type.

    Examples
    --------
    >>> from mtboost.datasets import make_related_tasks
    >>> data = make_related_tasks(100, n_labels=(3, 2))
    >>> {task: sorted(set(y.tolist())) for task, y in data.y.items()}
    {'task1': [0, 1, 2], 'task2': [0, 1]}

    References
    ----------
    faddoul2012, sec. 4.1 (key in docs/papers.md).
    """
    label_counts = _by_task("n_labels", n_labels, low=2)
    same = isinstance(n_rows, numbers.Integral)
    row_counts = _by_task("n_rows", [n_rows] * len(label_counts) if same else n_rows, low=1)
    if len(row_counts) != len(label_counts) or not label_counts:
        raise ParameterError(
            f"n_rows={n_rows} and n_labels={n_labels} must have one number for each task: there "
            f"are {len(row_counts)} and {len(label_counts)}."
        )
    n_regions = check_count("n_regions", n_regions, low=1)
    if max(label_counts) > 2 * n_regions:
        raise ParameterError(
            f"n_labels={n_labels} asks for {max(label_counts)} labels in one task, but "
            f"n_regions={n_regions} has {2 * n_regions} parts for them: raise n_regions."
        )
    relatedness = check_number("relatedness", relatedness, low=0.0, high=1.0)
    label_noise = check_number("label_noise", label_noise, low=0.0, high=1.0)

    # One stream for each purpose, so that for example more rows of a task leave the others alone.
    streams = iter(np.random.SeedSequence(check_seed(seed)).spawn(1 + 2 * len(label_counts)))
    side = _SPACING * np.sqrt(n_regions)
    n_shared = round(relatedness * n_regions)
    shared = _fill((), n_shared, side, np.random.default_rng(next(streams)))

    tasks = RelatedTasks(X={}, y={}, clean_y={}, region={}, bayes_probability={}, concept={})
    for number, (count, task_labels) in enumerate(zip(row_counts, label_counts, strict=True), 1):
        name = f"task{number}"
        rng = np.random.default_rng(next(streams))
        regions = _fill(shared, n_regions, side, rng)
        labels = rng.permutation(np.arange(2 * n_regions) % task_labels).reshape(n_regions, 2)
        concept = RegionalConcept(regions, labels, task_labels, float(label_noise))

        rng = np.random.default_rng(next(streams))
        region = rng.integers(n_regions, size=count)
        X = _draw_rows(regions, region, rng)
        clean_y = concept.label_by_region(X.astype(np.float64))[region, np.arange(count)]
        is_noisy = rng.random(count) < label_noise
        others = rng.integers(1, task_labels, size=count)  # steps to another label
        tasks.X[name], tasks.region[name], tasks.clean_y[name] = X, region, clean_y
        tasks.y[name] = np.where(is_noisy, (clean_y + others) % task_labels, clean_y)
        tasks.bayes_probability[name] = concept.probability(X)
        tasks.concept[name] = concept
    return tasks


def _by_task(name: str, counts: object, *, low: int) -> list[int]:
    """One whole number of at least ``low`` for each task."""
    if isinstance(counts, str) or not isinstance(counts, Iterable):
        raise TypeError(f"{name} must be one number for each task, not {counts!r}.")
    return [check_count(name, count, low=low) for count in counts]


def _fill(
    regions: tuple[Region, ...], n_regions: int, side: float, rng: np.random.Generator
) -> tuple[Region, ...]:
    """The regions and as many new ones as are missing, each far from all before it."""
    while len(regions) < n_regions:
        places = rng.uniform(0.0, side, (_N_PLACES, 2))
        if regions:
            gaps = cdist(places, [region.center for region in regions]).min(axis=1)
            places = places[gaps.argsort()]
        regions = (*regions, draw_region(places[-1], rng))
    return regions


def _draw_rows(
    regions: tuple[Region, ...], region: LabelArray, rng: np.random.Generator
) -> npt.NDArray[np.float32]:
    """A row of the region that each number names, shape (n_rows, 2)."""
    X = np.empty((len(region), 2), dtype=np.float32)
    for number, of_region in enumerate(regions):
        members = region == number
        X[members] = of_region.draw(int(members.sum()), rng)
    return X
