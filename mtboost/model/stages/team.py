# SPDX-License-Identifier: Apache-2.0
"""Machines that train models together, each on a part of the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from mtboost.base.arrays import Float64Array
from mtboost.base.tasks import TaskName

Result = TypeVar("Result")


class Team(Protocol):
    """What one of the machines knows of the others.

    All of them call :meth:`call` as often, with functions that do the same on other rows. Whatever
    they do between these calls concerns tasks whose rows they have alone.

    Attributes
    ----------
    tasks : sequence of task names
        Tasks of the common model, on all machines.
    divided : sequence of task names
        Tasks that have rows on every machine; the others are on one.
    """

    @property
    def tasks(self) -> Sequence[TaskName]: ...

    @property
    def divided(self) -> Sequence[TaskName]: ...

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function where sums over the machines are possible."""

    def total(self, values: Float64Array) -> Float64Array:
        """Add up numbers over the machines, within :meth:`call`."""


def of_one_machine(values: Float64Array) -> Float64Array:
    """Return numbers as they are: the total of a single machine."""
    return values
