# SPDX-License-Identifier: Apache-2.0
"""Validation rows: the user's own, or a part of each task's rows held out."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost.base.checks import check_number, listed
from mtboost.base.dataset import Dataset
from mtboost.base.given_splits import RowNumbers, as_splits, check_eval_set, check_validation
from mtboost.base.labels import weights_or_ones
from mtboost.base.queries import Queries, ascending, begins_of
from mtboost.base.task_tables import is_mapping
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError

#: Whether labels are classes, of all rows or of each; or the classes of the rows as integers.
Classes: TypeAlias = "bool | npt.NDArray[np.bool_] | npt.NDArray[np.int64]"


def parts_of_eval_set(eval_set: Sequence[Any]) -> tuple[Any, ...]:
    """Return X, y, task, weight, base margin and qid, None where they are missing."""
    check_eval_set(eval_set)
    if not 2 <= len(eval_set) <= 6:
        raise DataError(
            f"eval_set has {len(eval_set)} parts: it must be (X, y), optionally followed by task, "
            "weight, base_margin and qid."
        )
    return (*eval_set, None, None, None, None)[:6]


@contextmanager
def saying_of_eval_set() -> Iterator[None]:
    """Say of errors of rows that they are validation rows."""
    try:
        yield
    except DataError as error:
        raise DataError(f"eval_set: {error}") from None


def validation_data(data: Dataset, eval_set: Sequence[Any], feature_names: Any) -> Dataset:
    """Validation rows as the user gave them, columns as in training."""
    X, y, own_task, weight, base_margin, qid = parts_of_eval_set(eval_set)
    if own_task is None:
        own_task = data.task_column
    if (base_margin is None) != (data.base_margin is None):
        raise DataError(
            "base_margin must be given for training and validation rows, or for neither: "
            "eval_set=(X, y, task, weight, base_margin)."
        )
    if (qid is None) != (data.queries is None):
        raise DataError(
            "qid must be given for training and validation rows, or for neither: "
            "eval_set=(X, y, task, weight, base_margin, qid)."
        )
    are_named = is_mapping(X) or (data.label_names is not None and data.tasks.n_levels == 1)
    if own_task is None and not are_named and data.tasks.n_tasks > 1:
        raise DataError("eval_set lacks the tasks of its rows: pass (X, y, task).")
    if is_mapping(X) and feature_names is not None:
        feature_names = {name: names for name, names in feature_names.items() if name in X}
    with saying_of_eval_set():
        valid = Dataset(
            X,
            y,
            task=own_task,
            weight=weight,
            base_margin=base_margin,
            qid=qid,
            feature_names=feature_names,
            common_features="all" if data.is_union else data.common.feature_names,
            label_names=data.label_names,
            are_bounds=data.labels().ndim == 2,
        )
        unknown = [name for name in valid.tasks if name not in data.tasks]
        if len(unknown) == len(valid.tasks):
            data.tasks.code(unknown[0])  # raises
        valid = valid.of_tasks(data.tasks.names)
        valid.align(data)
    if unknown:
        warn_user(
            f"eval_set has rows of {listed(unknown, 'task')}, without training rows: they follow "
            "the common model, and decide nothing. model.evaluate(..., unknown_task='common') "
            "shows how well it predicts them, and validation='tasks' in place of eval_set chooses "
            "what predicts new tasks best.",
        )
    return valid


@dataclass(frozen=True, slots=True)
class Folds:
    """Pairs of rows to train on and of rows to judge by.

    One pair where rows are held out or the user's own; several where each row is held out in turn.
    All pairs have the same training tasks.

    Attributes
    ----------
    pairs : tuple of (Dataset, Dataset)
    are_new_tasks : bool
        Whether the rows to judge by are of tasks without weight in training, which are predicted as
        new ones.
    """

    pairs: tuple[tuple[Dataset, Dataset], ...]
    are_new_tasks: bool = False

    @property
    def tasks(self) -> TaskSet:
        """Tasks of the training rows; codes of rows are those of the first pair."""
        return self.pairs[0][0].tasks

    def first(self, n_pairs: int) -> Folds:
        """Return the first pairs."""
        return replace(self, pairs=self.pairs[:n_pairs])

    @property
    def n_valid_rows(self) -> int:
        """Number of validation rows in all pairs."""
        return sum(valid.n_rows for _, valid in self.pairs)

    def valid_codes(self, tasks: TaskSet) -> npt.NDArray[np.int64]:
        """Return the task of each validation row, pair after pair, as a code of these tasks."""
        codes = [tasks.codes_of_rows(valid.tasks) for _, valid in self.pairs]
        return np.concatenate(codes, dtype=np.int64)

    def valid_tasks(self) -> TaskSet:
        """Return the tasks of the validation rows, pair after pair, in the order of training."""
        return TaskSet(self.tasks.names, self.valid_codes(self.tasks).astype(np.int32))

    def valid_weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of each validation row, pair after pair, 1 on average.

        Of rows that are ranked only the first of each query counts, which stands for the query. The
        weights of a row that is held out several times add up to that of one.
        """
        weights = np.concatenate([valid.loss_weights() for _, valid in self.pairs])
        if not weights.any():
            return np.ones(len(weights))
        queries, groups = self.valid_queries(), self.valid_groups()
        n_counted = len(weights) if queries is None else int(queries[-1]) + 1
        if groups is not None:
            n_counted = len(np.unique(groups * self.tasks.n_tasks + self.valid_codes(self.tasks)))
        return np.asarray(weights / (weights.sum() / n_counted))

    def valid_groups(self) -> npt.NDArray[np.int64] | None:
        """Return equal numbers for validation rows with the same features; None: all differ.

        They are measurements of one object, or one row that several pairs hold out.
        """
        parts = [valid.groups for _, valid in self.pairs]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return np.unique(np.concatenate(known), return_inverse=True)[1].astype(np.int64)

    def valid_queries(self) -> Queries | None:
        """Return the query of each validation row, pair after pair, from 0 on."""
        parts = [valid.queries for _, valid in self.pairs]
        if any(part is None for part in parts):
            return None
        begins = [begins_of(part) for part in parts if part is not None]
        sizes = np.concatenate([np.diff(part.astype(np.int64)) for part in begins])
        return np.repeat(np.arange(len(sizes)), sizes)

    def row_weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of each validation row as given, pair after pair."""
        return np.concatenate([weights_or_ones(own.weight, own.n_rows) for _, own in self.pairs])

    def valid_rows_by_task(self, tasks: TaskSet) -> npt.NDArray[np.float64]:
        """Return the weight of the validation rows by pair and task, 1 a row on average."""
        codes, weights = self.valid_codes(tasks), self.valid_weights()
        ends = np.cumsum([valid.n_rows for _, valid in self.pairs])[:-1]
        parts = zip(np.split(codes, ends), np.split(weights, ends), strict=True)
        return np.array([np.bincount(*part, tasks.n_tasks) for part in parts])

    def with_weight(self) -> Folds | None:
        """Return the same without validation rows of weight 0; None if no other is left."""
        pairs = []
        for train, valid in self.pairs:
            if valid.weight is None:
                pairs.append((train, valid))
            elif valid.weight.any():
                pairs.append((train, valid.take(np.flatnonzero(valid.weight))))
        return replace(self, pairs=tuple(pairs)) if pairs else None

    def with_positives(self, weight: float, tasks: Collection[TaskName] | None = None) -> Folds:
        """Return the same with a factor on the weight of positive validation rows.

        Of some tasks, or of all.
        """
        if weight == 1.0:
            return self
        pairs = []
        for train, valid in self.pairs:
            weighted = copy.copy(valid)
            own = weights_or_ones(valid.weight, valid.n_rows)
            is_positive = valid.numbers() > 0
            if tasks is not None:
                is_own = np.array([task in tasks for task in valid.tasks])
                is_positive = is_positive & is_own[valid.tasks.codes]
            weighted.weight = own * np.where(is_positive, weight, 1.0)
            pairs.append((train, weighted))
        return replace(self, pairs=tuple(pairs))

    def of_tasks(self, tasks: Collection[TaskName]) -> Folds:
        """Return the rows of some tasks; pairs without validation rows of them are left out."""
        judged = self.judged_by(tasks)
        pairs = tuple((train.of_tasks(tasks), valid) for train, valid in judged.pairs)
        return replace(self, pairs=pairs)

    def judged_by(self, tasks: Collection[TaskName]) -> Folds:
        """Return all training rows, and the validation rows of some tasks, where there are any."""
        pairs = tuple(
            (train, valid.of_tasks(tasks))
            for train, valid in self.pairs
            if not set(valid.tasks).isdisjoint(tasks)
        )
        return replace(self, pairs=pairs)


def hold_out(
    data: Dataset,
    fraction: float | Literal["auto"],
    classes: Classes,
    seed: int,
    shared: npt.NDArray[np.int64] | None = None,
    *,
    by_class: bool = True,
) -> tuple[Dataset, Dataset | None]:
    """Hold out the same part of each task, and of each class in it, or of the queries of each task.

    Of n rows of a task and class, the part of n is rounded up or down at random, so that it holds
    for small tasks together too. A row without which the others would lack a task or a class stays.

    Where a task has the same part of each class, its rows to validate have the base rate of those
    to train on, and a model that follows that rate too closely goes unpunished. Models that share
    less do so; to compare them needs ``by_class=False``.

    Parameters
    ----------
    data : Dataset
    fraction : float or "auto"
    classes : bool, or ndarray of bool or int, shape (n_rows,)
        Whether the labels are classes, of all rows or of each; integers are the classes themselves.
    seed : int
    shared : ndarray of int64, shape (n_rows,), optional
        Equal numbers for rows that are held out together.
    by_class : bool
        Whether each class in a task has its part, or only the task.

    Returns
    -------
    train, valid : Dataset
        `valid` is None if nothing is held out.
    """
    fraction = fraction_of(fraction, data.tasks.n_tasks)
    if not fraction:
        return data, None
    rng = np.random.default_rng(seed)
    strata = _Strata(data, classes, shared, by_class)
    n_held_out = max(1, round(fraction * strata.n_drawn))
    places = (np.arange(n_held_out) + rng.random()) * (strata.n_drawn / n_held_out)
    pairs = strata.pairs([strata.order(rng)[np.floor(places).astype(np.int64)]], rng)
    return pairs[0] if pairs else (data, None)


def hold_out_last(
    data: Dataset, fraction: float | Literal["auto"], times: npt.NDArray[np.int64]
) -> tuple[Dataset, Dataset | None]:
    """Hold out the last rows of each task.

    Rows of equal time stay together: of all times that can begin the held-out rows of a task, the
    one that comes nearest to the fraction is taken. A task whose rows have one time keeps them.

    Parameters
    ----------
    data : Dataset
    fraction : float or "auto"
        As in :func:`hold_out`.
    times : ndarray of int64, shape (n_rows,)

    Returns
    -------
    train, valid : Dataset
        `valid` is None if nothing is held out.
    """
    fraction = fraction_of(fraction, data.tasks.n_tasks)
    if data.queries is not None:  # a query has the time of its last row
        times = np.maximum.reduceat(times, begins_of(data.queries)[:-1])[ascending(data.queries)]
    is_last = np.zeros(data.n_rows, bool)
    for task in data.tasks if fraction else ():
        rows = data.tasks.rows(task)
        own, counts = np.unique(times[rows], return_counts=True)
        if len(own) > 1:
            held_out = 1.0 - np.cumsum(counts)[:-1] / len(rows)
            first = own[1 + np.argmin(np.abs(held_out - fraction))]
            is_last[rows[times[rows] >= first]] = True
    if not is_last.any():
        return data, None
    return data.take(np.flatnonzero(~is_last)), data.take(np.flatnonzero(is_last))


def split_by(data: Dataset, splitter: Any, classes: bool | npt.NDArray[np.bool_]) -> Folds:
    """Hold out the rows that a splitter of scikit-learn names.

    Its groups are the tasks, or of rows that are ranked the queries.

    Parameters
    ----------
    data : Dataset
    splitter : object with a method ``split(X, y, groups)``, or iterable of (train, valid)
        Row numbers or boolean masks.
    classes : bool, or ndarray of bool, shape (n_rows,)
        Whether the labels are classes.
    """
    check_validation(splitter)
    found = _rows_of_splits(data, splitter, classes)
    pairs = [(data.take(train), data.take(valid)) for train, valid in found]
    for number, (train_rows, valid_rows) in enumerate(found):
        if data.queries is None:
            continue
        both = np.intersect1d(data.queries[train_rows], data.queries[valid_rows])
        if len(both):
            raise DataError(
                f"validation separates the rows of {len(both)} queries in split {number}: hold out "
                "whole queries, as GroupKFold() does, whose groups are the queries."
            )
    if all(set(train.tasks).isdisjoint(valid.tasks) for train, valid in pairs):
        return _new_tasks(data, found)
    for number, (train, _) in enumerate(pairs):
        absent = [task for task in data.tasks if task not in train.tasks]
        if absent:
            raise DataError(
                f"validation leaves {listed(absent, 'task')} without training rows in split "
                f"{number}: split the rows of each task, or hold out whole tasks only, as "
                "GroupKFold() does, in every split."
            )
    return Folds(tuple(pairs))


def _rows_of_splits(
    data: Dataset, splitter: Any, classes: bool | npt.NDArray[np.bool_]
) -> list[tuple[RowNumbers, RowNumbers]]:
    """Return the rows of `data` that a splitter, or the user, trains on and holds out."""
    if not hasattr(splitter, "split"):
        splits = as_splits(splitter, data.n_given_rows)
    else:
        # Of several labels of a row the first known stands for all.
        given = rows = np.arange(data.n_rows)
        if data.label_names is not None and data.row_numbers is not None:
            given, rows = np.unique(data.row_numbers, return_index=True)
        labels = data.numbers()
        y = (labels.astype(np.int64) if np.all(classes) else labels)[rows]
        groups = data.tasks.codes if data.queries is None else data.queries
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The groups parameter is ignored", UserWarning)
            named = splitter.split(np.zeros((len(rows), 1)), y, groups[rows])
            splits = [(given[train], given[valid]) for train, valid in as_splits(named, len(rows))]
        if data.label_names is None:
            return splits
    found = [(data.rows_of_given(train), data.rows_of_given(valid)) for train, valid in splits]
    for number, (train, valid) in enumerate(found):
        if not (len(train) and len(valid)):
            raise DataError(
                f"validation: no row of the {'validation' if len(train) else 'training'} part of "
                f"split {number} has a known label: each part needs one."
            )
    return found


def hold_out_tasks(
    data: Dataset, n_folds: int, n_held_out: int, fraction: float | None, seed: int
) -> Folds:
    """Hold out all rows of some tasks: of nested tasks the same part of each group's.

    Of rows with several labels, the tasks of the rows are held out with all of them.

    Parameters
    ----------
    data : Dataset
    n_folds : int
        Parts of the tasks; not more than there are tasks.
    n_held_out : int
        Number of the parts that are held out, one after the other.
    fraction : float, optional
        Part of the tasks that is held out once, in place of these.
    seed : int

    Returns
    -------
    Folds
        In which these tasks have no weight in training.
    """
    rng = np.random.default_rng(seed)
    units: list[Any] = list(data.tasks.names)
    if data.label_names is not None:
        units = [name[1:] if isinstance(name, tuple) else name for name in units]
    names = list(dict.fromkeys(units))
    groups = [name[:-1] if isinstance(name, tuple) else () for name in names]
    outer = {group: place for place, group in enumerate(dict.fromkeys(groups))}
    of_groups = rng.permutation(len(outer))[[outer[group] for group in groups]]
    order = np.lexsort((rng.random(len(names)), of_groups))
    if fraction is None:
        parts = [order[first::n_folds] for first in range(min(n_folds, len(names)))][:n_held_out]
    else:
        n = min(max(1, round(fraction * len(names))), len(names) - 1)
        parts = [order[np.floor((np.arange(n) + 0.5) * (len(names) / n)).astype(np.int64)]]
    places = {name: place for place, name in enumerate(names)}
    codes = np.array([places[unit] for unit in units])[data.tasks.codes]
    are_held_out = [np.isin(codes, part) for part in parts]
    return _new_tasks(data, [(np.flatnonzero(~own), np.flatnonzero(own)) for own in are_held_out])


def _new_tasks(
    data: Dataset, splits: Sequence[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]
) -> Folds:
    """Return all rows, of which only those to train on have weight, and those held out."""
    pairs = []
    for train_rows, valid_rows in splits:
        train = copy.copy(data)
        train.weight = np.zeros(data.n_rows)
        train.weight[train_rows] = 1.0 if data.weight is None else data.weight[train_rows]
        pairs.append((train, data.take(valid_rows)))
    return Folds(tuple(pairs), are_new_tasks=True)


def cross_validation(
    data: Dataset,
    n_folds: int,
    classes: Classes,
    seed: int,
    shared: npt.NDArray[np.int64] | None = None,
    *,
    by_class: bool = True,
) -> Folds | None:
    """Hold out each row once.

    Each fold has the same part of each task, and `by_class` of each class in it, rounded up or
    down; see :func:`hold_out`. A row without which the others would lack a task or a class stays
    with them. Rows with the same number in `shared` are held out together.

    Returns
    -------
    Folds
        None if no row can be held out.
    """
    rng = np.random.default_rng(seed)
    strata = _Strata(data, classes, shared, by_class)
    order = strata.order(rng)
    pairs = strata.pairs([order[first::n_folds] for first in range(n_folds)], rng)
    return Folds(tuple(pairs)) if pairs else None


def fraction_of(fraction: float | Literal["auto"], n_tasks: int) -> float:
    """Return the fraction of the rows to hold out; "auto" is .2, of one task 0."""
    if isinstance(fraction, str) and fraction == "auto":
        fraction = 0.2 if n_tasks > 1 else 0.0
    return check_number("validation_fraction", fraction, low=0.0, below=1.0, besides="'auto'")


class _Strata:
    """Rows by task, `by_class` also by class, and whether they have weight."""

    def __init__(
        self,
        data: Dataset,
        classes: Classes,
        shared: npt.NDArray[np.int64] | None,
        by_class: bool,
    ) -> None:
        self._data = data
        self._by_class = by_class
        are_numbers = isinstance(classes, np.ndarray) and classes.dtype != bool
        labels = classes if are_numbers else np.where(classes, data.numbers(), 0.0)
        self._labels = np.unique(labels, return_inverse=True)[1]
        self._codes = data.tasks.codes
        self._is_void = np.zeros(data.n_rows, bool)
        if data.weight is not None:
            self._is_void = data.weight == 0.0
        self._are_whole = data.queries is not None
        self._shared = shared = data.queries if self._are_whole else shared
        #: Rows that can be drawn: one of those that are held out together.
        self.n_drawn = data.n_rows if shared is None else len(np.unique(shared))

    def order(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return rows in random order, stratum after stratum: each k-th is a part of each.

        Of rows that are held out together one at random.
        """
        shuffled = rng.permutation(self._data.tasks.n_tasks)[self._codes]
        classes = self._labels if self._by_class else np.zeros_like(self._labels)
        keys = (rng.random(self._data.n_rows), shuffled, classes, self._is_void)
        order = np.lexsort(keys)
        if self._shared is None:
            return order
        at_random = rng.permutation(self._data.n_rows)
        drawn = at_random[np.unique(self._shared[at_random], return_index=True)[1]]
        return order[np.isin(order, drawn)]

    def pairs(
        self, held_out: Sequence[npt.NDArray[np.int64]], rng: np.random.Generator
    ) -> list[tuple[Dataset, Dataset]]:
        """Return the other rows and those held out, except what the others would lack."""
        data = self._data
        at_random = np.lexsort((rng.random(data.n_rows), self._is_void))
        found = []
        for rows in held_out:
            stays = np.ones(data.n_rows, bool)
            if self._shared is None:
                stays[rows] = False
            else:
                stays[np.isin(self._shared, self._shared[rows])] = False
            for groups in (self._codes, self._labels):
                left = np.bincount(groups[stays & ~self._is_void], minlength=groups.max() + 1)
                firsts = np.unique(groups[at_random], return_index=True)[1]
                kept = at_random[firsts[left == 0]]
                stays[kept] = True
                if self._are_whole and self._shared is not None:
                    stays[np.isin(self._shared, self._shared[kept])] = True
            if not stays.all():
                found.append((data.take(np.flatnonzero(stays)), data.take(np.flatnonzero(~stays))))
        return found
