# SPDX-License-Identifier: Apache-2.0
"""Estimators in the manner of ``xgboost.dask``: those of one machine, with collections of Dask."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import dask
import dask.array
import dask.dataframe
import distributed
import numpy as np
import numpy.typing as npt
from dask.dataframe.utils import meta_nonempty
from sklearn.utils.validation import check_is_fitted

from mtboost.base.checked_tables import as_table
from mtboost.base.docstrings import shares_docstring_of
from mtboost.base.frames import Output
from mtboost.base.given_splits import check_eval_set
from mtboost.base.sklearn_input import check_classes, without_objects
from mtboost.dask.chunks import check_collection
from mtboost.dask.fitting import fit
from mtboost.dask.predicting import predict_with
from mtboost.dask.workers import client_of
from mtboost.errors import DataError, UnsupportedError
from mtboost.estimators.multi_task import MultiTaskClassifier, MultiTaskRegressor
from mtboost.model.prediction.predictions import UnknownTask


class _OnDask:
    """Shared part of both estimators; a mixin before that of one machine."""

    _client: distributed.Client | None = None
    _alone: type[Any]  # the estimator of one machine

    @property
    def client(self) -> distributed.Client:
        """The client: as it was set, or else the one in use."""
        return client_of(self._client)

    @client.setter
    def client(self, client: distributed.Client | None) -> None:
        self._client = client

    def fit(
        self: Any,
        X: Any,
        y: Any,
        *,
        task: Any = None,
        sample_weight: Any = None,
        base_margin: Any = None,
        eval_set: Sequence[Any] | None = None,
    ) -> Any:
        """Fit on the workers; see :func:`mtboost.dask.fit`.

        Parameters
        ----------
        X : dask DataFrame or Array of shape (n_rows, n_features)
            Categories must be known to Dask.
        y : dask Series or Array of shape (n_rows,)
            Labels, with the partitions of `X`, as all that belongs to rows.
        task : dask Series or Array of shape (n_rows,), optional
            Task of each row, unless the parameter ``task`` names a column of `X`.
        sample_weight : dask Series or Array of shape (n_rows,), optional
            Row weights >= 0.
        base_margin : dask Series or Array of shape (n_rows,) or (n_rows, n_classes), optional
            Margins that each row starts from.
        eval_set : (X, y[, task[, weight[, base_margin]]]), optional
            Validation rows, instead of a fraction of the rows of `X`.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError, TypeError, UnsupportedError
            Before any training, if something does not fit together.
        TrainingError
            A worker has ended.
        """
        library = self._begin(task)
        if getattr(self, "class_weight", None) is not None:
            raise UnsupportedError(
                "class_weight needs the labels of all rows at once: pass sample_weight, such as "
                "y.map({0: 1.0, 1: 5.0})."
            )
        client = self.client
        objective = self._learn_labels(self._different_labels(client, y), library)
        y = self._encode_lazily(y)
        check_eval_set(eval_set)
        if eval_set is not None and len(eval_set) > 1:
            eval_set = (eval_set[0], self._encode_lazily(eval_set[1]), *eval_set[2:])
        self._train(
            partial(fit, client),
            library,
            X,
            y,
            task=task,
            objective=objective,
            eval_set=eval_set,
            weight=sample_weight,
            base_margin=base_margin,
        )
        sample: Any = np.zeros((1, X.shape[1]))
        if isinstance(X, dask.dataframe.DataFrame):
            sample = meta_nonempty(X._meta)
        self._check_table(sample, reset=True)
        self._remember_columns(as_table(sample, task_column=self.task, used=()))
        return self

    def _different_labels(self: Any, client: distributed.Client, y: Any) -> Any:
        return None

    def _encode_lazily(self: Any, y: Any) -> Any:
        return y

    def _predicted(
        self: Any,
        method: str,
        X: Any,
        task: Any,
        base_margin: Any,
        unknown_task: UnknownTask | None,
        **options: Any,
    ) -> Any:
        """Return the collection of what the estimator of one machine predicts for the partitions.

        Rows that are no collection are predicted here and now.
        """
        check_is_fitted(self, "model_")
        alone = self._alone.__new__(self._alone)
        alone.__dict__.update(
            {
                name: own
                for name, own in self.__dict__.items()
                if name not in ("_client", "callbacks")
            }
        )
        alone.callbacks = None
        rows = {"task": task, "base_margin": base_margin}
        options["unknown_task"] = self._asked(unknown_task)
        if not isinstance(X, dask.dataframe.DataFrame | dask.array.Array):
            return getattr(alone, method)(X, **rows, **options)
        if options.pop("output", "numpy") != "numpy":
            raise UnsupportedError(
                "output is for tables that are predicted at once, and collections of Dask are "
                "predicted as collections of their kind: leave it out."
            )
        return predict_with(self.client, alone, self.model_, method, X, rows, options)

    def predict(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        output: Output = "numpy",
    ) -> Any:
        """Predict lazily, partition by partition; see :func:`mtboost.dask.predict`.

        Parameters
        ----------
        X : dask DataFrame or Array, or table of shape (n_rows, n_features)
            Columns as in ``fit``. A table is predicted at once.
        task : dask Series or Array of shape (n_rows,), optional
            Task of each row, if ``fit`` had it.
        base_margin : dask Series or Array, optional
            Margins that each row starts from, if ``fit`` had them.
        unknown_task : {"error", "common"}, optional
            What to do with rows of a task that was not trained. By default the parameter of the
            estimator.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            Of a table, as on one machine. Predictions of a collection are a collection.

        Returns
        -------
        dask Series or Array, or ndarray
            Classes of a classifier, else numbers in the unit of the labels.
        """
        return self._predicted("predict", X, task, base_margin, unknown_task, output=output)

    def _to_parts(self: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Return the parts of the estimator of one machine, which a file has no client for."""
        metadata, members = super()._to_parts()  # type: ignore[misc]
        return {**metadata, "estimator": self._alone.__name__}, members

    def __getstate__(self: Any) -> dict[str, Any]:
        """Return all but the client, which belongs to a process."""
        state: Any = super().__getstate__()
        return {name: own for name, own in state.items() if name != "_client"}


class DaskMultiTaskRegressor(_OnDask, MultiTaskRegressor):
    """:class:`mtboost.MultiTaskRegressor` on the workers of Dask.

    Its parameters and attributes are those of one machine, and ``client`` is an attribute, as in
    ``xgboost.dask``: by default the one in use. A file that ``save`` writes is that of a
    :class:`mtboost.MultiTaskRegressor`.

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> from distributed import Client
    >>> from mtboost.dask import DaskMultiTaskRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = dask.array.from_array(rng.normal(size=(300, 3)), chunks=(100, 3))
    >>> shop = dask.array.from_array(np.repeat([0, 1, 2], 100), chunks=100)
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     model = DaskMultiTaskRegressor(n_estimators=20).fit(X, X[:, 0], task=shop)
    ...     found = model.predict(X, task=shop).compute()
    >>> found.shape
    (300,)
    """

    _alone = MultiTaskRegressor

    @shares_docstring_of(_OnDask.predict)
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
        """Predict lazily, partition by partition; see :func:`mtboost.dask.predict`.

        Parameters
        ----------
        base_margin : dask Series or Array of shape (n_rows,), optional
            Margins that each row starts from, if ``fit`` had them.
        sort_levels : bool, default=False
            Not on Dask, where quantiles are not trained.

        Returns
        -------
        dask Series or Array, or ndarray
            Shape (n_rows,), in the unit of the labels.

        Raises
        ------
        UnsupportedError
            Levels are to be sorted.
        """
        if sort_levels:
            raise UnsupportedError(
                "sort_levels=True is for quantiles, which are not trained on Dask: leave it out."
            )
        return super().predict(
            X, task=task, base_margin=base_margin, unknown_task=unknown_task, output=output
        )


class DaskMultiTaskClassifier(_OnDask, MultiTaskClassifier):
    """:class:`mtboost.MultiTaskClassifier` on the workers of Dask.

    Its parameters and attributes are those of one machine, and ``client`` is an attribute, as in
    ``xgboost.dask``: by default the one in use. `class_weight` must be None. A file that ``save``
    writes is that of a :class:`mtboost.MultiTaskClassifier`.
    """

    _alone = MultiTaskClassifier

    @shares_docstring_of(_OnDask.predict)
    def predict_proba(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
        output: Output = "numpy",
    ) -> Any:
        """Compute the probability of each class lazily, partition by partition.

        Returns
        -------
        dask DataFrame or Array, or ndarray
            Shape (n_rows, n_classes), in the order of ``classes_``.
        """
        return self._predicted("predict_proba", X, task, base_margin, unknown_task, output=output)

    @shares_docstring_of(_OnDask.predict)
    def decision_function(
        self,
        X: Any,
        *,
        task: Any = None,
        base_margin: Any = None,
        unknown_task: UnknownTask | None = None,
    ) -> Any:
        """Compute the margins lazily: log-odds of ``classes_[1]``, or one margin per class.

        Returns
        -------
        dask Series, DataFrame or Array, or ndarray
            Shape (n_rows,) or (n_rows, n_classes).
        """
        return self._predicted("decision_function", X, task, base_margin, unknown_task)

    def _different_labels(self, client: distributed.Client, y: Any) -> npt.NDArray[Any]:
        check_collection("y", y)
        found = dask.delayed(_unique)
        parts = client.gather(client.compute([found(part) for part in np.ravel(y.to_delayed())]))
        parts = [part for part in parts if len(part)]
        if not parts:
            raise DataError("y has no labels: a classifier needs two classes.")
        return np.unique(np.concatenate(parts))

    def _encode_lazily(self, y: Any) -> Any:
        check_collection("y", y)
        if isinstance(y, dask.array.Array):
            return y.map_blocks(self._encode, dtype=np.int64)
        return y.map_partitions(_encoded, self.classes_, meta=(y.name, np.int64))


def _unique(values: Any) -> npt.NDArray[Any]:
    labels = without_objects(np.asarray(values))
    try:
        return np.unique(labels)
    except TypeError:
        check_classes(labels)
        raise


def _encoded(y: Any, classes: npt.NDArray[Any]) -> Any:
    known = MultiTaskClassifier()
    known.classes_ = classes
    return type(y)(known._encode(np.asarray(y)), index=y.index, name=y.name)
