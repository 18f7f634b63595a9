# SPDX-License-Identifier: Apache-2.0
"""XGBoost's own trees, whose structure counts all tasks alike while the leaves count all rows."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xgboost

from mtboost.base.task_weights import TaskWeight
from mtboost.base.tasks import TaskName, TaskSet
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.trees.losses import is_multiclass
from mtboost.trees.task_objective import Pair
from mtboost.xgboost import assemble
from mtboost.xgboost.library import (
    check_has_split_gradient,
    check_split_gradient,
    check_vector_categories,
)
from mtboost.xgboost.objective import TaskObjective
from mtboost.xgboost.vector_leaves import with_scalar_leaves

if TYPE_CHECKING:
    from xgboost.objective import TreeObjective
elif hasattr(xgboost, "objective"):
    TreeObjective = xgboost.objective.TreeObjective
else:  # before XGBoost 3.2, where __init__ raises
    TreeObjective = object


class BalancedSplit(xgboost.callback.TrainingCallback, TreeObjective):
    """Let tasks of all sizes have the same say in the structure of XGBoost's own trees.

    Two models grow on the same trees. The *balanced* one has its rows weighted so that all tasks
    have the same total; it is stock XGBoost with :class:`TaskObjective` and
    ``task_weight="balanced"``, and decides every split. The other takes over its splits, but its
    leaves are the Newton steps of the unweighted rows; it is the one that ``xgboost.train``
    returns, as an ordinary booster. So a large task cannot outvote the splits of a small one, and
    leaf values still rest on all rows, each counted once.

    The structure comes through the split gradient of XGBoost 3.2, which is marked experimental
    there. It is no substitute for :class:`TaskSplit`, which asks how the gain of each candidate is
    spread over the tasks: here a split may still serve one task alone, if that one gains enough.

    Give one object as ``obj=`` and in ``callbacks=``, and a matrix whose labels are there twice::

        split = BalancedSplit("binary:logistic", task)
        dtrain = xgboost.QuantileDMatrix(X, np.column_stack([y, y]))
        params = {"multi_strategy": "multi_output_tree", "objective": "binary:logistic",
                  "base_score": y.mean(), "min_child_weight": 0, ...}
        booster = xgboost.train(params, dtrain, 200, obj=split, callbacks=[split])

    Parameters
    ----------
    objective : str or callable
        As in :class:`TaskObjective`, with one output per label: not multi-class. A function sees
        margins and labels of both models, those of the returned one first.
    task : array-like of shape (n_rows,)
        Task of each row of the training matrix: integers, strings or categories.
    split_weight : mapping of task name to float, or "balanced", default="balanced"
        The tasks' weights in the balanced model, above 0, which multiply those of the rows.
    task_weight : mapping of task name to float, or "balanced", optional
        The tasks' weights in the leaves.
    n_threads : int, optional
        For the gradients. By default all cores that the process may use.
    **options : float
        Parameters of the loss, as in :class:`TaskObjective`.

    Raises
    ------
    UnsupportedError
        XGBoost is older than 3.2; the objective is multi-class, or TaskObjective does not have it.
        When training begins: parameters that do not go with a split gradient, such as monotone
        constraints; categories before XGBoost 3.3; interaction constraints and a
        ``min_child_weight`` above 0 before 3.4; a model to continue.
    ParameterError
        A weight in `split_weight` is 0, the parameters lack
        ``multi_strategy="multi_output_tree"``, or `callbacks` lacks this object.
    DataError
        There is not one task per row, or the matrix does not hold its labels twice.

    Notes
    -----
    Margins have shape (n_rows, 2 * n_labels) in training: the returned model's columns, then the
    balanced one's. XGBoost's metrics on `evals`, whose labels must be there twice as well, average
    over both (AUC: from XGBoost 3.4 on). A ``custom_metric`` is given margins and may look at the
    first columns only; :class:`TaskQuitting` with ``objective=split`` does so.

    XGBoost estimates no start score for an objective that it is given: set
    ``params["base_score"]``.

    The returned booster has one scalar tree per round and label. Its gains and covers, and so
    importances and the weights of branches in SHAP values, are the balanced model's. BalancedSplit
    cannot continue it.

    Why two models? The split gradient could be the weighted gradient of the returned model itself.
    But where tasks disagree, the weighted sum does not vanish in a leaf that suits the rows as they
    are, and no later leaf makes it vanish: each round would split there again, in vain.
    """

    def __init__(
        self,
        objective: str | Callable[..., Pair],
        task: Any,
        *,
        split_weight: TaskWeight = "balanced",
        task_weight: TaskWeight = None,
        n_threads: int | None = None,
        **options: float,
    ) -> None:
        super().__init__()
        check_has_split_gradient("BalancedSplit", "TaskSplit")
        if is_multiclass(objective):
            raise UnsupportedError(
                f"objective={objective!r} has one output per class, BalancedSplit needs one per "
                "label: use TaskSplit."
            )
        if isinstance(split_weight, Mapping) and 0 in split_weight.values():
            raise ParameterError(
                f"split_weight must be above 0, found {dict(split_weight)}: to XGBoost, rows that "
                "have no hessian for splits are not sampled. Use a small number."
            )
        self._leaves = TaskObjective(
            objective, task, task_weight=task_weight, n_threads=n_threads, **options
        )
        self._splits = TaskObjective(
            objective,
            self._leaves.tasks,
            task_weight=split_weight,
            n_threads=n_threads,
            **options,
        )
        self._is_in_training = False
        self._matrix: weakref.ref[xgboost.DMatrix] | None = None

    @property
    def tasks(self) -> TaskSet:
        """Tasks of the training rows."""
        return self._leaves.tasks

    @property
    def objective(self) -> str | Callable[..., Pair]:
        """The loss."""
        return self._leaves.objective

    def start(self) -> None:
        """Let all tasks take part again, as at the start of a training."""
        self._leaves.start()
        self._splits.start()

    def quit(self, task: TaskName) -> None:
        """Leave the rows of a task out of all later trees."""
        self._leaves.quit(task)
        self._splits.quit(task)

    # ---- what xgboost.train calls ----------------------------------------------------------------

    def before_training(self, model: Any) -> Any:
        if not isinstance(model, xgboost.Booster):
            raise UnsupportedError(
                "BalancedSplit cannot be used in xgboost.cv, which does not tell an objective the "
                "rows of its folds: train each fold with xgboost.train."
            )
        if model.num_boosted_rounds():
            raise UnsupportedError(
                "BalancedSplit cannot continue a model: the balanced one that chose its splits is "
                "not part of it. Leave out xgb_model=."
            )
        check_split_gradient(model, user="BalancedSplit", instead="TaskSplit")
        self.start()
        self._matrix = None
        self._is_in_training = True
        return model

    def __call__(self, iteration: int, y_pred: Any, dtrain: xgboost.DMatrix) -> Pair:
        """Gradient and hessian of both models, each of the shape of the margins."""
        if not self._is_in_training:
            raise ParameterError(
                "BalancedSplit is missing among the callbacks, where it checks the parameters and "
                "takes the returned model out: train with obj=split, callbacks=[split]."
            )
        margins = np.asarray(y_pred)
        if self._matrix is None or self._matrix() is not dtrain:
            _check_matrix(margins, dtrain)
            self._matrix = weakref.ref(dtrain)
        n_labels = margins.shape[1] // 2
        gradient, hessian = (
            np.hstack([leaves[:, :n_labels], splits[:, n_labels:]])
            for leaves, splits in zip(
                self._leaves(margins, dtrain), self._splits(margins, dtrain), strict=True
            )
        )
        return gradient, hessian

    def split_grad(self, iteration: int, grad: Any, hess: Any) -> Pair:
        """Those of the balanced model."""
        n_labels = grad.shape[1] // 2
        return np.ascontiguousarray(grad[:, n_labels:]), np.ascontiguousarray(hess[:, n_labels:])

    def after_training(self, model: Any) -> Any:
        self._is_in_training = False
        return returned_model(model)


def returned_model(model: xgboost.Booster) -> xgboost.Booster:
    """Booster without the balanced model, of one that BalancedSplit trains."""
    n_outputs = int(assemble.read_document(model)["learner"]["learner_model_param"]["num_target"])
    return with_scalar_leaves(model, n_outputs // 2)


def returned_columns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels or margins, shape (n_rows, 2 * n_labels), without the balanced model's columns.

    Those of a single model, shape (n_rows,) or (n_rows, 1), are returned as they are.
    """
    columns = values.reshape(len(values), -1)
    return columns[:, : max(1, columns.shape[1] // 2)]


def _check_matrix(margins: npt.NDArray[Any], matrix: xgboost.DMatrix) -> None:
    labels = matrix.get_label().reshape(len(margins), -1)
    n_labels, rest = divmod(labels.shape[1], 2)
    if (
        rest
        or labels.shape != margins.shape
        or (labels[:, :n_labels] != labels[:, n_labels:]).any()
    ):
        raise DataError(
            f"BalancedSplit trains two models at once and needs all labels twice, found "
            f"{labels.shape[1]} column(s): pass label=np.column_stack([y, y]) to the matrix."
        )
    check_vector_categories(matrix, instead="TaskSplit")
