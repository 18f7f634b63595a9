# SPDX-License-Identifier: Apache-2.0
""":func:`train`: the common model alone, stage one of zhang2019, by ``xgboost.train``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import xgboost

from mtboost.base.checks import check_count, check_pairs, check_type
from mtboost.base.dataset import Dataset
from mtboost.base.tables import Columns
from mtboost.errors import ParameterError
from mtboost.trees.backend import Rows
from mtboost.trees.split_scores import Beta, Score
from mtboost.xgboost.backend import XgboostBackend
from mtboost.xgboost.callbacks import InOrder, TaskSplit, check_callbacks
from mtboost.xgboost.library import read_model, with_start


def train(
    params: Mapping[str, Any],
    data: Dataset,
    num_boost_round: int = 10,
    *,
    evals: Sequence[tuple[Dataset, str]] = (),
    obj: Callable[..., Any] | None = None,
    custom_metric: Callable[..., Any] | None = None,
    early_stopping_rounds: int | None = None,
    evals_result: dict[str, Any] | None = None,
    verbose_eval: bool | int = True,
    xgb_model: Any = None,
    callbacks: Sequence[xgboost.callback.TrainingCallback] = (),
) -> xgboost.Booster:
    """Train the common model: ``xgboost.train`` with :class:`~mtboost.xgboost.TaskSplit`.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters, and ``split_score`` (default ``"entropy"``) and ``beta``.
    data : Dataset
        Rows to train on; the common columns are used.
    num_boost_round : int, default=10
        Number of rounds.
    evals : sequence of (Dataset, str), default=()
        Data to evaluate after each round, with names.
    obj : callable, optional
        Function ``(margins, matrix) -> (gradient, hessian)``, as in ``xgboost.train``.
    custom_metric : callable, optional
        Function ``(predictions, matrix) -> (name, value)``, as in ``xgboost.train``.
    early_stopping_rounds : int, optional
        Rounds without improvement of the last metric on the last of `evals` after which training
        ends.
    evals_result : dict, optional
        Filled with the metrics of all rounds.
    verbose_eval : bool or int, default=True
        Print the metrics every `verbose_eval` rounds; True is every round.
    xgb_model : Booster, str or path, optional
        Model to continue.
    callbacks : sequence of xgboost.callback.TrainingCallback, default=()
        Further callbacks.

    Returns
    -------
    xgboost.Booster
        The trained model, an ordinary booster.

    Raises
    ------
    TypeError
        A parameter is unknown, or data or evals hold no Dataset.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> train = mtboost.Dataset(X, y, task=task)
    >>> params = {"max_depth": 3, "split_score": "entropy"}
    >>> booster = mtboost.train(params, train, 10)
    >>> booster.num_boosted_rounds()
    10

    References
    ----------
    zhang2019, section 3.2.
    """
    _check_datasets(data, evals)
    check_type("params", params, Mapping, "a mapping of names to values")
    if early_stopping_rounds is not None:
        check_count("early_stopping_rounds", early_stopping_rounds, low=1, besides="None")
        if not evals:
            raise ParameterError("early_stopping_rounds needs evals: give Datasets to evaluate.")
    num_boost_round = check_count("num_boost_round", num_boost_round)
    params = dict(params)
    score: Score = params.pop("split_score", "entropy")
    beta: Beta = params.pop("beta", "auto")
    library = XgboostBackend()
    params = library.parameters(params, others=("split_score", "beta"))
    library.check_values(params, data.common, "params", is_ours=True)

    check_callbacks(callbacks)
    columns, n_threads = Columns.of(data.common), params.get("nthread")

    def matrix_of(part: Dataset, ref: xgboost.DMatrix | None = None) -> xgboost.DMatrix:
        table = part.common if ref is None else columns.align(part.common)
        rows = Rows(table, part.labels(), part.weight, part.base_margin, queries=part.queries)
        return library.matrix(rows, params, n_threads, ref)

    matrix = matrix_of(data)
    eval_matrices = [(matrix_of(part, matrix), name) for part, name in evals]
    if xgb_model is not None:
        xgb_model = read_model(xgb_model)
    if obj is None and xgb_model is None:
        library.check_start(params, data)
    split = TaskSplit(data.tasks, split_score=score, beta=beta, table=data.common.native)
    return xgboost.train(
        with_start(params, matrix),
        matrix,
        num_boost_round,
        evals=eval_matrices,
        obj=obj,
        custom_metric=custom_metric,
        early_stopping_rounds=early_stopping_rounds,
        evals_result=evals_result,
        verbose_eval=verbose_eval,
        xgb_model=xgb_model,
        callbacks=[InOrder([split, *callbacks])],
    )


def _check_datasets(data: object, evals: object) -> None:
    if not isinstance(data, Dataset):
        raise TypeError(
            f"data is a {type(data).__name__}: make it mtboost.Dataset(X, y, task=...)."
        )
    for _, name in check_pairs("evals", evals, Dataset, "(mtboost.Dataset, name)"):
        check_type("the name of an evaluation set", name, str, "a str")
