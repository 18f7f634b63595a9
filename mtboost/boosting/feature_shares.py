"""From a prior on features to the weights they are drawn by (eruhimov2007, section 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.boosting.rounds import Together
from mtboost.boosting.tree_importances import ImportanceType, as_shares, tree_importances
from mtboost.errors import DataError
from mtboost.tasks import listed

#: Importances by name, or one a feature in the order of the columns; a pandas Series is either.
FeaturePrior: TypeAlias = Mapping[str, float] | npt.ArrayLike
Shares: TypeAlias = npt.NDArray[np.float64]

#: Trees that the prior counts as, beside those that have grown.
PRIOR_TREES = 10


def as_plain(prior: Any) -> dict[str, float] | list[float] | None:
    """A prior by name as a dict, another one as a list.

    Raises
    ------
    DataError
        It does not hold numbers >= 0 in one dimension; or names that are no strings.
    """
    if prior is None:
        return None
    values, names = prior, None
    if isinstance(prior, Mapping):
        names, values = list(prior), list(prior.values())
        if not all(isinstance(name, str) for name in names):
            raise DataError(
                "prior is a mapping whose names are not all strings: give an array to tell "
                "features by position."
            )
    elif hasattr(prior, "index") and hasattr(prior, "items"):  # a Series
        index = list(prior.index)
        names = index if all(isinstance(name, str) for name in index) else None
        if names is not None and len(set(names)) < len(names):
            raise DataError("prior names a feature twice: its names must differ.")
    try:
        numbers = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"prior must hold numbers: {error}") from None
    if numbers.ndim != 1:
        raise DataError(f"prior has shape {numbers.shape}: it must hold one number a feature.")
    is_bad = ~(np.isfinite(numbers) & (numbers >= 0.0))
    if is_bad.any():
        place = int(is_bad.argmax())
        raise DataError(
            f"prior[{place if names is None else names[place]!r}] is {numbers[place]:g}: "
            f"importances must be finite and not negative. Clip those of permutations at 0."
        )
    return numbers.tolist() if names is None else dict(zip(names, numbers.tolist(), strict=True))


def prior_shares(
    prior: FeaturePrior | None, feature_names: Sequence[str] | None, n_features: int
) -> Shares:
    """The part of the draws that is each column's: its importance of all, or equal parts for None.

    What the prior names beyond the columns is left out, a column that it does not name has 0.

    Returns
    -------
    ndarray of float64, shape (n_features,)
        Sum 1.

    Raises
    ------
    DataError
        The prior has names and the columns none, or none in common; it has another length; or it
        is 0 for all columns.
    """
    values = as_plain(prior)
    if values is None:
        return np.full(n_features, 1.0 / n_features)
    if isinstance(values, dict):
        if feature_names is None:
            raise DataError(
                "prior has names, but the columns of X have none: fit a DataFrame, or give an "
                "array in the order of the columns."
            )
        if not any(name in values for name in feature_names):
            raise DataError(
                f"prior names {listed(tuple(values), 'feature')}, none of which is a column of X."
            )
        values = [values.get(name, 0.0) for name in feature_names]
    if len(values) != n_features:
        raise DataError(
            f"prior has {len(values)} numbers, but X has {n_features} columns: give one each, or a "
            f"mapping by name."
        )
    shares = np.array(values)
    largest: float = shares.max()
    if largest == 0.0:
        raise DataError("prior is 0 for every column of X: at least one must be above 0.")
    return as_shares(shares / largest)  # whose sum is finite


def with_floor(shares: Shares, floor: float) -> Shares:
    """A part `floor` of the draws is spread evenly."""
    return (1.0 - floor) * shares + floor / len(shares)


class DynamicSampling(Together):
    """Draws features by the prior and by the importances of the trees so far.

    The prior counts as `PRIOR_TREES` trees: after c of them the weights are
    (`PRIOR_TREES` prior + c VI) / (`PRIOR_TREES` + c), VI their importances with sum 1, and a
    floor under that. They depend on the trees alone, so that a model that goes on draws the same.
    """

    def __init__(
        self, engine: _core.ProjectedBoosting, prior: Shares, floor: float, kind: ImportanceType
    ) -> None:
        super().__init__(engine)
        self._prior, self._floor, self._kind = prior, floor, kind
        self._importances = np.zeros_like(prior)  # summed over the trees so far
        self._n_trees = 0

    def update(self, *, n_threads: int) -> None:
        model = self._engine.model
        for tree in range(self._n_trees, model.n_trees):
            arrays = model.tree_arrays(tree)
            self._importances += tree_importances(arrays, len(self._prior), self._kind)
        self._n_trees = model.n_trees
        self._engine.feature_weights = with_floor(self._shares(), self._floor)
        super().update(n_threads=n_threads)

    def _shares(self) -> Shares:
        if not self._importances.any():  # no tree has a cut
            return self._prior
        own = self._n_trees / (PRIOR_TREES + self._n_trees)
        return (1.0 - own) * self._prior + own * as_shares(self._importances)
