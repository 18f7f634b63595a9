# SPDX-License-Identifier: Apache-2.0
"""The scikit-learn regressor of related tasks."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.frames import Output
from mtboost.base.renamed import renamed, without_parameters
from mtboost.base.several_labels import (
    in_order_of_labels,
    in_order_of_predictions,
    names_of_labels,
    values_and_known,
)
from mtboost.base.sklearn_input import r2
from mtboost.base.task_tables import is_mapping
from mtboost.errors import UnsupportedError
from mtboost.estimators.multi_task.base import (
    UNROUTED_OUTPUT,
    MultiTaskEstimator,
    Objective,
    in_one_array,
)
from mtboost.estimators.multi_task.classifier import MultiTaskClassifier
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.inputs.named_objectives import MOST_CLASSES
from mtboost.model.prediction.predictions import UnknownTask
from mtboost.trees.backend import Backend
from mtboost.trees.losses import is_survival


@shares_docstring_of(MultiTaskClassifier, without=["classes_"])
class MultiTaskRegressor(RegressorMixin, MultiTaskEstimator):  # type: ignore[misc]
    """Regressor for related tasks: a common model, continued by a specific model for each task.

    By default validation rows decide how much the tasks share (``strategy="auto"``). Without a task
    it is gradient boosting of one model, whose kind of trees and rounds are chosen as well.

    Parameters
    ----------
    objective : str or callable, optional
        The library's name of an objective, or a function ``(margins, DMatrix or Dataset) ->
        gradient, hessian``. By default squared error: of each task in its own unit where the labels
        of some vary much less than those of others, unless ``unknown_task="common"``
        (docs/mixed_tasks.md).
    validation_fraction : float in [0, 1) or "auto", default="auto"
        Fraction of the rows of each task that is held out, unless ``fit`` gets `eval_set`.
        ``"auto"`` is 0.2, or 0 for a single task; ``strategy="auto"`` with fewer than 10,000 rows
        (2000 with ``effort="fast"``) holds out several fifths, one after the other, until 2000
        rows have been held out, or all.
        With 0 every task uses all rounds of the common model and none gets a specific one, unless
        `early_stopping_rounds` is None.
    intervals : bool, default=False
        Keep the errors of held-out rows for :meth:`predict_interval`, see :func:`mtboost.fit`.

    Attributes
    ----------
    model_ : MultiTaskModel
        The fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> from mtboost import MultiTaskRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> school = np.repeat(["a", "b", "c"], 100)
    >>> y = X[:, 0] + (school == "b") + 0.1 * rng.normal(size=300)
    >>> model = MultiTaskRegressor(n_estimators=50, max_depth=3).fit(X, y, task=school)
    >>> model.predict(X, task=school).shape
    (300,)
    >>> type(model.booster("b")).__name__  # of XGBoost
    'Booster'

    References
    ----------
    zhang2019, section 3 (key in docs/papers.md).
    """

    __init__ = without_parameters("class_weight", "scale_pos_weight", "calibrate")(
        MultiTaskEstimator.__init__
    )

    __metadata_request__predict: ClassVar = {**UNROUTED_OUTPUT, "sort_levels": UNUSED}

    @renamed(where_in_a_method)
    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        output: Output = "numpy",
        sort_levels: bool = False,
    ) -> Any:
        """Predict on the scale of the labels.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained: refuse them, or predict them with
            the common model. By default the parameter of the estimator.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            ``"pandas"`` and ``"polars"`` give a Series named ``"prediction"``, or a DataFrame with
            a column for each label or level; ``"pandas"`` keeps the index of `X`, if it has one.
        sort_levels : bool, default=False
            Whether quantiles of several levels are sorted in each row (docs/quantiles.md).

        Returns
        -------
        ndarray of float32, or float64 from LightGBM, shape (n_rows,), or Series; or a dict of them
            In the unit of the labels. Of several labels a row the shape is (n_rows, n_labels), of
            quantiles of several levels (n_rows, n_levels).

        Raises
        ------
        DataError, ValueError
            Columns are not those of ``fit``, or a task is unknown (the known ones are listed).
        MissingDependencyError
            The library of `output` is not installed.
        """
        rows = {"task": task, "base_margin": base_margin}
        return self._predict(X, unknown_task, **rows, output=output, sort_levels=sort_levels)

    @renamed(where_in_a_method)
    def predict_interval(
        self,
        X: Any,
        *,
        task: Any = None,
        alpha: float = 0.1,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
    ) -> Any:
        """Predict intervals that contain the labels of new rows with probability 1 - `alpha`.

        Needs the parameter `intervals`, or :meth:`conformalize`; see
        :meth:`.MultiTaskModel.predict_interval`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        alpha : float in (0, 1), default=0.1
            Probability that a label is outside.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained. By default the parameter of the
            estimator.

        Returns
        -------
        ndarray of float64, shape (n_rows, 2); for a mapping, a dict of them
            Lower and upper bound, in the unit of the labels.

        Raises
        ------
        DataError, ValueError
            There are no held-out errors, or as :meth:`predict`.
        """
        X = self._fitted_table(X)
        return self.model_.predict_interval(
            X,
            task=task,
            alpha=alpha,
            base_margin=base_margin,
            unknown_task=self._asked(unknown_task),
        )

    @renamed(where_in_a_method)
    def conformalize(
        self,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
    ) -> Self:
        """Learn the widths of intervals from rows that ``fit`` has not seen.

        See :meth:`.MultiTaskModel.conformalize`.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``.
        y : array-like of shape (n_rows,)
            Labels.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        sample_weight : array-like of shape (n_rows,), optional
            Row weights >= 0; rows of weight 0 are left out, all others count alike.
        base_margin : array-like of shape (n_rows,), optional
            Margin that each row starts from, if ``fit`` had one.

        Returns
        -------
        self
            With other intervals.

        Raises
        ------
        DataError, ValueError
            The rows do not fit the model, or a task is unknown.
        """
        X = self._fitted_table(X)
        self.model_ = self.model_.conformalize(
            X, y, task=task, weight=sample_weight, base_margin=base_margin
        )
        return self

    @renamed(where_in_a_method)
    def score(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> float:
        """Compute the coefficient of determination of :meth:`predict`, or a concordance.

        Parameters
        ----------
        X : table of shape (n_rows, n_features), or mapping of task name to table
            Columns as in ``fit``. With a mapping `y` and `sample_weight` are mappings, too.
        y : array-like of shape (n_rows,) or (n_rows, n_labels)
            True numbers, or times as in ``fit``.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_labels), optional
            Row weights >= 0.
        task : array-like of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.

        Returns
        -------
        float
            R²: 1 for perfect predictions, 0 for those of the mean. Of several labels a row their
            mean, each over the rows that know it. Of an objective of survival the concordance: 1
            for the right order of times, one half by chance (docs/survival.md).

        Raises
        ------
        UnsupportedError
            The model predicts quantiles of several levels.
        """
        check_is_fitted(self, "model_")
        if self.model_._stage.n_outputs > 1:
            raise UnsupportedError(
                "score() is R², of one prediction a row, and this model predicts quantiles of "
                "several levels: pass scoring=task_scorer('quantile@0.1,0.9', task=...) of "
                "mtboost.metrics, with its levels."
            )
        if is_survival(self.objective):
            table = self.model_.evaluate(
                self._fitted_table(X),
                y,
                task=task,
                weight=sample_weight,
                metrics="concordance",
                n_bootstrap=2,
            )
            return float(table["concordance"].iloc[-1])  # of all tasks together
        predicted = in_one_array("predictions", self.predict(X, task=task), X)
        y = in_one_array("y", y, X)
        sample_weight = in_one_array("sample_weight", sample_weight, X)
        names = self.model_._labels
        y = in_order_of_predictions(y, predicted, names)
        sample_weight = in_order_of_labels("sample_weight", sample_weight, names)
        if names_of_labels(y) is None:
            return r2(y, predicted, sample_weight)
        values, is_known = values_and_known(y)
        weights = np.ones(1) if sample_weight is None else np.asarray(sample_weight)
        weights = np.broadcast_to(weights.reshape(len(weights), -1), values.shape)
        columns = zip(values.T, predicted.T, weights.T, is_known.T, strict=True)
        return float(np.mean([r2(own[k], found[k], w[k]) for own, found, w, k in columns]))

    def _learn_labels(self, y: Any, library: Backend) -> Objective:
        return library.squared_error if self.objective is None else self.objective

    def _objective_given(self, objective: Objective, y: Any) -> Objective | None:
        """None, by which ``fit`` may learn each task in its unit, unless unknown ones are to come.

        Nor where it could take the labels for classes.
        """
        if self.objective is not None or self.unknown_task != "error":
            return objective
        parts = [values_and_known(own) for own in (y.values() if is_mapping(y) else [y])]
        n_values = max(len(np.unique(values[is_known])) for values, is_known in parts)
        return None if n_values > MOST_CLASSES else objective
