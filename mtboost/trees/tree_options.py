# SPDX-License-Identifier: Apache-2.0
"""Options for growing the trees of several tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mtboost import _core
from mtboost.base.checks import check_number, check_switch
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.trees.pooling import Pooling, PoolingOption, check_pooling
from mtboost.trees.split_scores import Beta, Score, make_split_score

#: `one_stratum` in the name of what ``strategy="auto"`` has chosen.
ONE_STRATUM = "one stratum"


@dataclass(frozen=True, slots=True)
class TreeOptions:
    """Options for growing trees, checked when they are made; ``fit`` and ``TaskSplit`` make them.

    Attributes
    ----------
    split_score, beta
        How candidate splits are ranked over tasks (:func:`mtboost.make_split_score`). Kept as
        given: scores of the core cannot be copied, as scikit-learn copies callbacks.
    pooling : float, EstimatedPooling, RelativePooling or None
        κ of partially pooled leaves; None gives all tasks the pooled values. ``"auto"`` is turned
        into an estimate.
    task_splits : float or None
        c of S = s − c σ² (1 + (T − 2) 2/π), the price of splits that separate tasks; 0 treats the
        column of the tasks as any category. None: there are no such splits.
    n_descriptors : int or None
        Number of descriptors of each kind by which nodes may separate tasks
        (:func:`~mtboost.trees.task_descriptors.describe_tasks`); None for none.
    symmetric_trees : bool
        Whether all nodes of a level have the same split.
    random_strength : float
        ν, noise in the choice of the splits of symmetric trees.
    quantized_gradients : bool
        Whether splits are found by gradients that are rounded to 16 bits; of trees for XGBoost.
    unseen_at_random : bool
        Whether values that no row of a node has, missing ones and categories, go to a child that is
        drawn by its part of the hessians; otherwise where the library sends them. Of trees for
        XGBoost.
    one_stratum : bool
        Whether the risk sets of hazards have rows of all tasks, as if baselines were the same.

    Raises
    ------
    ParameterError
        A value is out of its range, or two do not go together.
    TypeError
        A value is not of its type.
    """

    split_score: Score = "plain"
    beta: Beta = "auto"
    pooling: Pooling | PoolingOption = None
    task_splits: float | None = None
    n_descriptors: int | None = None
    symmetric_trees: bool = False
    random_strength: float = 0.0
    one_stratum: bool = False
    quantized_gradients: bool = False
    unseen_at_random: bool = False

    def __post_init__(self) -> None:
        make_split_score(self.split_score, self.beta)
        object.__setattr__(self, "pooling", check_pooling(self.pooling))
        if self.task_splits is not None:
            number = check_number("task_splits", self.task_splits, low=0.0)
            object.__setattr__(self, "task_splits", number)
        if self.may_split_tasks and self.split_score != "plain":
            raise ParameterError(
                f"Task splits need split_score='plain', found {self.split_score!r}: a split "
                "between tasks has all rows of a task on one side, so that gains of single tasks "
                "are 0 and do not rank it. Pass 'plain', or leave the task splits out."
            )
        check_switch("symmetric_trees", self.symmetric_trees)
        check_switch("quantized_gradients", self.quantized_gradients)
        check_switch("unseen_at_random", self.unseen_at_random)
        strength = check_number("random_strength", self.random_strength, low=0.0)
        object.__setattr__(self, "random_strength", strength)
        if self.symmetric_trees and self.split_score != "plain":
            raise ParameterError(
                f"symmetric_trees=True needs split_score='plain', found {self.split_score!r}: all "
                "nodes of a level have one split, and scores over tasks compare the candidate "
                "splits of one node."
            )
        if strength and not self.symmetric_trees:
            raise ParameterError(
                f"random_strength={self.random_strength!r} is noise in the splits of symmetric "
                "trees: set symmetric_trees=True, or leave it out."
            )

    @property
    def may_split_tasks(self) -> bool:
        """Whether nodes may separate tasks, by a column of the tasks or by descriptors."""
        return self.task_splits is not None or self.n_descriptors is not None

    def check_library_grown(self, reason: str, *, has_task_column: bool = False) -> None:
        """Raise UnsupportedError for what the trees of a library's own growth do not have.

        Parameters
        ----------
        reason : str
            Why the library grows the trees: a parameter with its value.
        has_task_column : bool
            Whether a column of the training matrix holds the tasks.
        """
        refused = {
            f"split_score={self.split_score!r}": self.split_score != "plain",
            "symmetric_trees=True": self.symmetric_trees,
            "quantized_gradients=True": self.quantized_gradients,
            "unseen_at_random=True": self.unseen_at_random,
            "task_column": has_task_column,
            "task_splits": self.may_split_tasks,
        }
        for name, is_refused in refused.items():
            if is_refused:
                plain = name.startswith("split_score")
                raise UnsupportedError(
                    f"{name} needs trees that mtboost grows, but with {reason} the library grows "
                    f"them: {'use split_score=' + repr('plain') if plain else 'leave it out'}, or "
                    "grow trees by tree_method='hist' on device='cpu', one tree per output, from a "
                    "matrix in memory."
                )

    def of_one_task(self) -> TreeOptions:
        """Return the options of a model of a single task."""
        return TreeOptions(
            symmetric_trees=self.symmetric_trees,
            random_strength=self.random_strength,
            quantized_gradients=self.quantized_gradients,
            unseen_at_random=self.unseen_at_random,
        )

    def make_score(self) -> _core.SplitScore | None:
        """Return the split score of the core; None ranks splits by the pooled gain."""
        score = make_split_score(self.split_score, self.beta)
        return None if isinstance(score, str) else score

    def grower_arguments(self, task_column: int | None) -> dict[str, Any]:
        """Return the arguments of the core's ``TreeGrower``.

        Parameters
        ----------
        task_column : int or None
            Position of the column of the tasks in the matrix.
        """
        return {
            "score": self.make_score(),
            "task_column": task_column,
            "task_penalty": 0.0 if self.task_splits is None else self.task_splits,
            "symmetric": self.symmetric_trees,
            "random_strength": self.random_strength,
            "quantized_gradients": self.quantized_gradients,
            "unseen_at_random": self.unseen_at_random,
        }
