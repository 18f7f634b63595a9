# SPDX-License-Identifier: Apache-2.0
"""Common part of the core's boosting: rounds, predictions, files."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse
import xgboost
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted

from mtboost import _core
from mtboost.base.archive import require
from mtboost.base.arrays import FloatArray
from mtboost.base.checked_tables import as_table
from mtboost.base.checks import check_count, check_number, check_switch, check_verbose, listed
from mtboost.base.labels import as_label_weights, check_sum_of_weights
from mtboost.base.renamed import renamed
from mtboost.base.sklearn_input import check_not_mapping, check_not_masked, reading_numbers
from mtboost.base.sparse_tables import checked_sparse
from mtboost.base.user_warnings import warn_user
from mtboost.errors import DataError
from mtboost.estimators.boosting.rounds import (
    Engine,
    Margins,
    Round,
    Validation,
    checked_callbacks,
    predict_margins,
    run_rounds,
)
from mtboost.estimators.boosting.scoring import check_scoring, make_score
from mtboost.estimators.table_estimator import TableEstimator, TableRows, core_table
from mtboost.estimators.tree_parameters import (
    check_adds_trees,
    checked_depth,
    rows_at_least,
    seed_of,
)
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.xgboost.bins import bin_matrix
from mtboost.xgboost.boosted_models import booster_of
from mtboost.xgboost.matrices import quantile_matrix

# cpp/core/binning/binned_matrix.cpp
_MOST_BINS = 65_535

# Rows, their labels, and their weights or those of the labels.
_Rows: TypeAlias = tuple[TableRows, Margins, Margins | None]


class BaseBoosting(TableEstimator):
    """Trees that are added up; subclasses say how they grow, and what labels are.

    They share the parameters and attributes listed here.

    Parameters
    ----------
    subsample : float, default=1.0
        Fraction of the rows drawn for each tree.
    max_bin : int, default=256
        Maximum number of bins of a feature; bins are those of XGBoost.
    early_stopping_rounds : int, optional
        Stop after this many rounds without a better score, and keep the trees up to the best round.
    validation_fraction : float, default=0.1
        Fraction of the rows held out for early stopping, unless ``fit`` gets an ``eval_set``. Rows
        of weight 0 and rows without a known label are left out first.
    scoring : str or callable, default="loss"
        Score of the rows held out; greater is better. ``"loss"``, ``"r2"`` (mean over outputs; of
        two classes or of labels, that of their probabilities) and
        ``"label_ranking_average_precision"`` ignore unknown labels; also any other name of a
        scikit-learn scorer, or a scorer ``(estimator, X, y) -> float``. With weights, a
        scorer or its metric gets those of the rows if it has a parameter ``sample_weight``.
    warm_start : bool, default=False
        A further ``fit`` adds trees until there are `n_estimators`, the same trees as a single fit
        would grow. With early stopping it keeps only those that improve on the trees of before.
    verbose : bool or int, default=False
        Show progress: a bar of tqdm with the training loss and the validation score, or without
        it lines in the log every `verbose` rounds.
    n_jobs : int, optional
        Threads, by default the cores this process may use, or one for a small table. Trees do not
        depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed; with an int each fit is the same.

    Attributes
    ----------
    n_estimators_ : int
        Number of trees kept.
    train_losses_ : ndarray of float64, shape (n_rounds,)
        Mean loss of the known labels after each round. With early stopping the rounds after the
        best one are listed too, though their trees are not kept.
    validation_scores_ : ndarray of float64, shape (n_rounds,), or None
        Score of the rows held out after each round, as in `train_losses_`. All are scores on the
        rows that the last ``fit`` held out, also of trees that were there before (`warm_start`).
        None without rows held out.
    n_features_in_ : int
        Number of columns of `X`.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns of `X`, where all are strings.
    """

    n_estimators: int
    learning_rate: float
    max_depth: int | None
    min_samples_leaf: int | float
    subsample: float
    max_bin: int
    early_stopping_rounds: int | None
    validation_fraction: float
    scoring: str | Callable[..., float]
    warm_start: bool
    verbose: bool | int
    random_state: int | np.random.RandomState | None

    models_: list[_core.BoostedModel]
    train_losses_: npt.NDArray[np.float64]
    validation_scores_: npt.NDArray[np.float64] | None
    _seed: int

    _saved: ClassVar[dict[str, Any]] = TableEstimator._saved | {
        "train_losses_": np.ndarray,
        "validation_scores_": np.ndarray | None,
        "_seed": int,
    }

    # ---- fit --------------------------------------------------------------------------------

    @renamed(where_in_a_method)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        eval_set: tuple[Any, Any] | None = None,
        callbacks: Sequence[Callable[[Round], object]] = (),
    ) -> Self:
        """Grow the trees.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            NumPy array, SciPy sparse matrix, pandas or polars DataFrame, or pyarrow Table of
            numbers; NaN means missing, and so does, as in XGBoost, what a sparse matrix does not
            store.
        y : array-like or SciPy sparse matrix of shape (n_rows,) or (n_rows, n_outputs)
            Numbers; for a classifier classes, or labels of 0 and 1. NaN, beside texts also None,
            is an unknown label: it is ignored, the row's other labels count. A column in which no
            row has one is predicted as a constant, and a warning names it.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Weights >= 0 of rows, or of each of their labels; 0 leaves a row or label out. They
            also count in the score of rows that are held out for early stopping.
        eval_set : tuple (X, y), optional
            Validation rows, instead of a fraction of those above. They all have the same weight.
        callbacks : sequence of callables, default=()
            Called after every round with its ``number``, ``train_loss`` and ``validation_score``;
            training ends when one returns True.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        DataError, ParameterError, ValueError
            Before any tree grows, if something does not fit together; after the first round, if a
            scorer cannot score the rows held out, or early stopping gets a score of NaN.
        TrainingError
            Residuals leave the range of float32.
        """
        self._check_parameters()
        callbacks = checked_callbacks(callbacks)
        goes_on = self.warm_start and hasattr(self, "models_")
        if not goes_on:
            self._forget()
        labels = self._read_labels(y, reset=not goes_on)
        rows, _ = self._split(X, None, reset=not goes_on, y=y, sample_weight=sample_weight)
        check_consistent_length(rows, labels)
        loss = self._loss()
        weights = None
        if sample_weight is not None:
            weights = as_label_weights(sample_weight, labels.shape, argument="sample_weight")
            check_sum_of_weights(weights)
        if not goes_on:
            self._seed = seed_of(self.random_state)
        held_out = None if eval_set is None else self._read_eval_set(eval_set)
        rows, labels, weights = _that_count(rows, labels, weights)
        if not goes_on:
            _warn_of_unknown_outputs(labels, weights)
        if held_out is None and self.early_stopping_rounds is not None:
            kept, others = self._hold_out(labels)
            held_out = _part(rows, labels, weights, others)
            rows, labels, weights = _part(rows, labels, weights, kept)
        n_threads = self._n_threads(rows.shape[0] * max(rows.shape[1], loss.n_outputs))
        validation = None
        if held_out is not None:
            validation = Validation(
                _core_rows(held_out[0]),
                make_score(self.scoring, self, loss, *held_out, n_threads=n_threads),
                self.early_stopping_rounds,
            )
        n_rounds = int(self.n_estimators)
        if goes_on:
            self._check_goes_on(loss)
            n_trees = self.models_[0].n_trees
            check_adds_trees(self.n_estimators, n_trees)
            n_rounds -= n_trees
        engine = self._engine(rows, loss, labels, weights, goes_on, n_threads)
        self._check_can_be_saved()
        losses = run_rounds(
            engine,
            n_rounds,
            validation=validation,
            callbacks=callbacks,
            verbose=int(self.verbose),
            n_threads=n_threads,
        )
        self._keep(engine, losses, validation)
        return self

    def _check_parameters(self) -> None:
        check_count("n_estimators", self.n_estimators, low=1)
        check_count("max_bin", self.max_bin, low=2, high=_MOST_BINS)
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_number("subsample", self.subsample, above=0.0, high=1.0)
        if self.early_stopping_rounds is not None:
            rounds = self.early_stopping_rounds
            check_count("early_stopping_rounds", rounds, low=1, besides="None")
        check_number("validation_fraction", self.validation_fraction, above=0.0, below=1.0)
        check_scoring(self.scoring)
        check_verbose(self.verbose)
        check_switch("warm_start", self.warm_start)

    def _forget(self) -> None:
        """Remove the results of an earlier fit; a refused or interrupted one leaves no half."""
        for name in ("models_", "train_losses_", "validation_scores_"):
            self.__dict__.pop(name, None)

    def _hold_out(self, labels: Margins) -> list[npt.NDArray[np.intp]]:
        """Rows to train on, and others to validate on."""
        n_rows = len(labels)
        n_held_out = math.ceil(self.validation_fraction * n_rows)
        if n_held_out == n_rows:
            raise DataError(
                f"validation_fraction={self.validation_fraction!r} holds out each of the rows that "
                f"count ({n_rows}), and leaves none to train on: lower it, give more rows or an "
                f"eval_set, or leave early_stopping_rounds out."
            )
        classes = labels[:, 0] if self._are_classes() and not np.isnan(labels).any() else None
        if classes is not None:
            counts = np.unique(classes, return_counts=True)[1]
            # Both parts must have a row of each class to keep their shares.
            if counts.min() < 2 or len(counts) > min(n_held_out, n_rows - n_held_out):
                classes = None
        found: list[npt.NDArray[np.intp]] = train_test_split(
            np.arange(n_rows),
            test_size=self.validation_fraction,
            random_state=self._seed % 2**32,
            stratify=classes,
        )
        return found

    def _read_eval_set(self, eval_set: Any) -> _Rows:
        if not (isinstance(eval_set, tuple) and len(eval_set) == 2):
            raise DataError("eval_set must be a tuple (X, y).")
        labels = self._read_labels(eval_set[1], reset=False)
        rows, _ = self._split(eval_set[0], None, reset=False)
        check_consistent_length(rows, labels)
        return rows, labels, None

    def _engine(
        self,
        rows: TableRows,
        loss: _core.OutputLoss,
        labels: Margins,
        weights: Margins | None,
        goes_on: bool,
        n_threads: int,
    ) -> Engine:
        n_rows, n_features = rows.shape
        tree = _core.ComponentTreeParams(
            max_depth=checked_depth(self.max_depth),
            min_samples_leaf=rows_at_least(self.min_samples_leaf, n_rows, "min_samples_leaf", 1),
            subsample=float(self.subsample),
            seed=self._seed,
            **self._tree_parameters(n_features),
        )
        try:
            loss.check(for_core(labels), weights)
        except ValueError as error:
            raise DataError(f"y: {error}") from None
        matrix = bin_matrix(
            quantile_matrix(as_table(rows), max_bin=int(self.max_bin), n_threads=n_threads),
            storage_order=np.empty(0, np.uint32),
            n_threads=n_threads,
            table=rows,
        )

        def start(
            loss: _core.OutputLoss,
            labels: Margins,
            weights: Margins | None,
            *,
            model: int = 0,
            **options: Any,
        ) -> _core.ProjectedBoosting:
            if goes_on:
                begun = self.models_[model]
                margins = begun.predict(_core_rows(rows), n_threads=n_threads)
                options |= {"model": begun, "margins": margins}
            return _core.ProjectedBoosting(
                matrix,
                loss,
                for_core(labels),
                weights,
                learning_rate=float(self.learning_rate),
                tree=tree,
                n_threads=n_threads,
                **options,
            )

        return self._start(start, loss, labels, weights, n_threads)

    @abc.abstractmethod
    def _tree_parameters(self, n_features: int) -> dict[str, Any]:
        """Those of _core.ComponentTreeParams that are a subclass's own."""

    @abc.abstractmethod
    def _start(
        self,
        start: Callable[..., _core.ProjectedBoosting],
        loss: _core.OutputLoss,
        labels: Margins,
        weights: Margins | None,
        n_threads: int,
    ) -> Engine:
        """Return what trains; ``start(loss, labels, weights, model=0, ...)`` makes a part of it.

        `model` is the part's place in ``models_``, further arguments are the core's.
        """

    def _check_goes_on(self, loss: _core.OutputLoss) -> None:
        """Refuse to go on with trees of another kind."""

    def _keep(self, engine: Engine, losses: list[float], validation: Validation | None) -> None:
        n_trees = engine.models[0].n_trees
        if (
            validation is not None
            and validation.early_stopping_rounds is not None
            and validation.scores
        ):
            n_trees = validation.best_round
        # Of the rounds that training went on with; an earlier fit may have dropped later ones.
        before = getattr(self, "train_losses_", [])[: engine.models[0].n_trees - len(losses)]
        self.train_losses_ = np.array([*before, *losses])
        self.validation_scores_ = None
        if validation is not None:
            self.validation_scores_ = np.array(validation.scores)
        # Copies, which do not hold what they were trained on.
        self.models_ = [model.first_trees(n_trees) for model in engine.models]

    # ---- predictions ------------------------------------------------------------------------

    def _margins(self, X: Any) -> Margins:
        *_, margins = self._staged_margins(X, of_each=False)
        return margins

    def _staged_margins(self, X: Any, *, of_each: bool = True) -> Iterator[Margins]:
        """Margins after each tree, or after all."""
        check_is_fitted(self, "models_")
        rows, _ = self._split(X, None, reset=False)
        table, n_trees = _core_rows(rows), self.models_[0].n_trees
        n_threads = self._n_threads(rows.shape[0] * self.models_[0].n_outputs * len(self.models_))
        margins = predict_margins(self.models_, table, last=0, n_threads=n_threads)
        ends = range(1, n_trees + 1) if of_each else [n_trees]
        first = 0
        for last in ends:
            predict_margins(
                self.models_, table, margins, first=first, last=last, n_threads=n_threads
            )
            first = last
            yield np.hstack(margins)

    @renamed(where_in_a_method)
    def staged_predict(self, X: Any) -> Iterator[Any]:
        """Yield the predictions after each tree.

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Columns as in ``fit``.

        Yields
        ------
        ndarray
            As of :meth:`predict`.
        """
        for margins in self._staged_margins(X):
            yield self._predict_margins(margins)

    # ---- labels -----------------------------------------------------------------------------

    def _checked(self, y: Any, dtype: Any) -> npt.NDArray[Any]:
        """`y` as an array of one or two dimensions, in which only NaN is not finite."""
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        check_not_masked(y)
        check_not_mapping("y", y)
        with reading_numbers("y"):
            checked: npt.NDArray[Any] = check_array(
                checked_sparse(y, "y").toarray() if scipy.sparse.issparse(y) else y,
                dtype=dtype,
                ensure_2d=False,
                ensure_all_finite="allow-nan",
                input_name="y",
                estimator=self,
            )
        return checked

    @abc.abstractmethod
    def _read_labels(self, y: Any, *, reset: bool) -> Margins:
        """Labels of shape (n_rows, n_labels) as the loss reads them, NaN where unknown."""

    @abc.abstractmethod
    def _decode(self, labels: Margins) -> Any:
        """The way back, without unknown labels."""

    @abc.abstractmethod
    def _loss(self, n_outputs: int | None = None) -> _core.OutputLoss:
        """The loss of all outputs, or of some of them."""

    @abc.abstractmethod
    def _predict_margins(self, margins: Margins) -> Any:
        """Predictions that belong to margins."""

    def _are_classes(self) -> bool:
        """Whether a row has one label, its class."""
        return False

    # ---- the trees --------------------------------------------------------------------------

    @property
    def n_estimators_(self) -> int:
        """Trees of the model, or of each of its models.

        Fewer than `n_estimators` if training stopped early: those up to the best score.
        """
        check_is_fitted(self, "models_")
        return self.models_[0].n_trees

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each column of `X` in what the trees explain of the components.

        Shape (n_features,). Averaged over the trees; they sum to 1.
        """
        check_is_fitted(self, "models_")
        mean = np.mean([model.importances()[:-1] for model in self.models_], axis=0)
        total: float = mean.sum()
        return np.asarray(mean / (total or 1.0))

    @renamed(where_in_a_method)
    def booster(self, output: int | None = None) -> xgboost.Booster:
        """The model as XGBoost's own, which predicts without mtboost.

        Its margins are bitwise identical to those of the model, after each round
        (``iteration_range``) too, and its predictions those of :meth:`predict`, of a classifier of
        ``predict_proba``, up to rounding; of two classes, the probability of the second one.

        Parameters
        ----------
        output : int, optional
            Column of `y`, counted from 0: trees of this output alone, with a number in each leaf,
            for whatever reads ordinary boosters. Where `y` holds several classes, a column of
            ``decision_function``; the booster predicts this margin. By default all outputs: trees
            whose leaves hold vectors, by ``strategy="single-target"`` ordinary ones for each.

        Returns
        -------
        xgboost.Booster
            Of the objective ``reg:squarederror`` (also for Huber's loss), ``reg:absoluteerror``,
            ``binary:logistic`` or ``multi:softprob``. ``feature_names`` are the names of the
            columns where all are strings. Constants that the outputs start from are in the leaves
            of the first tree.

        Raises
        ------
        ParameterError
            There is no such output.
        """
        self._check_has_trees()
        n_outputs = sum(model.n_outputs for model in self.models_)
        if output is not None:
            output = check_count("output", output, high=n_outputs - 1, besides="None")
        names = getattr(self, "feature_names_in_", None)
        return booster_of(
            self.models_,
            self._loss().name,
            output=output,
            feature_names=None if names is None else names.tolist(),
        )

    # ---- files ------------------------------------------------------------------------------

    def _check_has_trees(self) -> None:
        check_is_fitted(self, "models_")
        if self.models_[0].n_trees == 0:
            raise NotFittedError("There are no trees: fit again.")

    def _plain_parameters(self) -> dict[str, Any]:
        own = super()._plain_parameters()
        return own | ({"scoring": "loss"} if callable(self.scoring) else {})

    def _to_file(self) -> dict[str, Any]:
        self._check_has_trees()
        if callable(self.scoring):
            warn_user(
                "scoring is a function, which a model file cannot hold: the estimator that "
                "load_model() returns has scoring='loss'.",
            )
        models = [
            {
                "relabels": model.relabels,
                "initial": model.initial,
                "output_weights": model.output_weights,
                "trees": model.arrays(),
            }
            for model in self.models_
        ]
        return super()._to_file() | {"models": models}

    def _set_from_file(self, content: dict[str, Any]) -> None:
        super()._set_from_file(content)
        self.__dict__.setdefault("validation_scores_", None)  # what is None in a file is left out
        self.models_ = [
            _core.BoostedModel(
                n_features=self.n_features_in_,
                relabels=model["relabels"],
                initial=model["initial"],
                arrays=model["trees"],
                output_weights=model["output_weights"].ravel(),
            )
            for model in content["models"]
        ]
        n_trees = {model.n_trees for model in self.models_}
        require(len(n_trees) == 1 and n_trees != {0}, "there are no trees, or not as many of each")
        n_outputs = sum(model.n_outputs for model in self.models_)
        require(n_outputs == self._loss().n_outputs, "the trees are of other outputs")


# ---- rows and labels as the core reads them -----------------------------------------------------


def _core_rows(rows: TableRows) -> Any:
    """Return the table with unstored entries missing, as in XGBoost, whose bins these are."""
    return core_table(rows, absent=np.nan)


def for_core(labels: Margins) -> Margins:
    """A single label is a vector."""
    return np.ascontiguousarray(labels[:, 0] if labels.shape[1] == 1 else labels)


def _warn_of_unknown_outputs(labels: Margins, weights: Margins | None) -> None:
    """Warn of columns of y without a known label, whose margins are 0."""
    unknown = np.flatnonzero(~_counts(labels, weights).any(axis=0))
    if len(unknown):
        warn_user(
            f"y has no known label of a weight above 0 in {listed(unknown.tolist(), 'column')} "
            f"(of {labels.shape[1]}, counted from 0): every row is predicted as 0 there, a label "
            "with probability 0.5. Leave these columns out."
        )


def _counts(labels: Margins, weights: Margins | None) -> npt.NDArray[np.bool_]:
    """Which labels are known and have a weight above 0."""
    counts: npt.NDArray[np.bool_] = ~np.isnan(labels)
    if weights is not None:
        counts &= weights.reshape(len(labels), -1) > 0.0
    return counts


def _that_count(rows: TableRows, labels: Margins, weights: Margins | None) -> _Rows:
    """Rows with a known label whose weight is not 0."""
    kept = _counts(labels, weights).any(axis=1)
    if not kept.any():
        raise DataError("y has no known label of a weight above 0: at least one must count.")
    if kept.all():
        return rows, labels, weights
    return _part(rows, labels, weights, kept)


def _part(rows: TableRows, labels: Margins, weights: Margins | None, part: Any) -> _Rows:
    """Some of the rows, with their labels and weights."""
    return rows[part], labels[part], None if weights is None else weights[part]
