# SPDX-License-Identifier: Apache-2.0
"""Machines that train the common model together, each on the rows of other tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from mtboost.base.dataset import Dataset

Result = TypeVar("Result")


class Team(Protocol):
    """What one of the machines knows of the others.

    All of them call :meth:`train` with the same function, and as often. Whatever they do between
    these calls concerns the tasks whose rows they have.
    """

    def train(
        self,
        train: Callable[[Dataset, Dataset | None], Result],
        data: Dataset,
        valid: Dataset | None,
    ) -> Result:
        """Call a function where sums over the machines are possible.

        Parameters
        ----------
        train : callable
            Is given the rows, with the names of the tasks of all machines.
        data : Dataset
            Training rows of this machine.
        valid : Dataset, optional
            Validation rows of this machine; None only if no machine has any.
        """
