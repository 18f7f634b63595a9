# SPDX-License-Identifier: Apache-2.0
"""Monotone and interaction constraints as a user gives them, checked before training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from mtboost.base.checks import did_you_mean, listed, shown
from mtboost.base.tables import Table
from mtboost.errors import ParameterError


def read_signs(given: Any, argument: str) -> dict[str, int] | list[int]:
    """Return the sign of each column, -1, 0 or 1, by name or in their order.

    Parameters
    ----------
    given : mapping of column name to sign, sequence of signs, or str such as "(1,0,-1)"
    argument : str
        What messages call the parameters.

    Raises
    ------
    ParameterError
        It has another form, or other values.
    """
    if isinstance(given, Mapping):
        return {name: _sign(value, given, argument) for name, value in given.items()}
    values = given
    if isinstance(given, str):
        inside = re.fullmatch(r"\s*(?:\(([^()\[\]]*)\)|\[([^()\[\]]*)\]|([^()\[\]]*))\s*", given)
        if inside is None:
            raise _error(given, argument)
        text = next(group for group in inside.groups() if group is not None)
        values = [part for part in text.split(",") if part.strip()]
    try:
        return [_sign(value, given, argument) for value in values or ()]
    except TypeError:
        raise _error(given, argument) from None


def check_columns(signs: Any, table: Table, argument: str) -> None:
    """Raise ParameterError if signs, as :func:`read_signs` returns them, are of other columns."""
    names = table.feature_names
    if isinstance(signs, Mapping):
        unknown = [name for name in signs if name not in (names or ())]
        if unknown and names is None:
            raise ParameterError(
                f"{argument}: monotone_constraints name {listed(unknown, 'column')}, but the "
                f"columns of X have no names: give a list, with a sign for each of "
                f"{table.n_features} columns."
            )
        if unknown:
            hint = did_you_mean(unknown[0], names or ())
            raise ParameterError(
                f"{argument}: monotone_constraints name {listed(unknown, 'column')}, which the "
                f"common model does not have: give signs of {listed(names or (), 'column')} "
                f"alone.{hint}"
            )
        return
    n_signs, n_columns = len(signs or ()), table.n_features
    if n_signs not in (0, n_columns):
        own = f": {listed(names, 'column')}, without that of the task" if names else ""
        raise ParameterError(
            f"{argument}: monotone_constraints must have a value for each of {n_columns} columns, "
            f"found {n_signs}{own}."
        )


def check_groups_of_names(groups: Any, table: Table, argument: str) -> None:
    """Raise ParameterError if lists of interactions name columns that the common model lacks.

    A text, which has numbers of columns, is left to XGBoost.
    """
    if groups is None or isinstance(groups, str):
        return
    lists = groups if isinstance(groups, Iterable) else (groups,)
    if any(isinstance(group, str) or not isinstance(group, Iterable) for group in lists):
        raise ParameterError(
            f"{argument}: interaction_constraints must be a list of lists of columns, found "
            f"{shown(groups)}."
        )
    names = table.feature_names
    unknown = [name for group in groups for name in group if name not in (names or ())]
    if not unknown:
        return
    by_number = "Numbers of columns are given as a text, such as '[[0, 1], [2]]'."
    if names is None:
        raise ParameterError(
            f"{argument}: interaction_constraints name {listed(unknown, 'column')}, but the "
            f"columns of X have no names. {by_number}"
        )
    hint = did_you_mean(unknown[0], names) if isinstance(unknown[0], str) else f" {by_number}"
    raise ParameterError(
        f"{argument}: interaction_constraints name {listed(unknown, 'column')}, which the common "
        f"model does not have: it has {listed(names, 'column')}.{hint}"
    )


def _sign(value: Any, given: Any, argument: str) -> int:
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise _error(given, argument) from None
    if found not in (-1.0, 0.0, 1.0):
        raise _error(given, argument)
    return int(found)


def _error(given: Any, argument: str) -> ParameterError:
    return ParameterError(
        f"{argument}: monotone_constraints must have 1 (rises), -1 (falls) or 0 for each column, "
        f"as in (1, 0, -1), found {shown(given)}."
    )
