# SPDX-License-Identifier: Apache-2.0
"""Drawings of multi-task decision trees: lines of text, and graphs for Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mtboost import _core
from mtboost.base.tasks import TaskName

_INDENT = "|   "


@dataclass(frozen=True, eq=False)
class DrawnTree:
    """A tree with the names of what it speaks of.

    Attributes
    ----------
    arrays : dict of str to ndarray
        The tree (cpp/core/tree/mt_decision_tree.hpp).
    features : sequence of str
        Names of its features.
    tasks : sequence of task names
    labels : ndarray of shape (n_task_classes,)
        Label of each class of each task.
    """

    arrays: dict[str, npt.NDArray[Any]]
    features: Sequence[str]
    tasks: Sequence[TaskName]
    labels: npt.NDArray[Any]

    @classmethod
    def of(
        cls,
        tree: _core.MTDecisionTree,
        features: Sequence[str],
        tasks: Sequence[TaskName],
        labels: npt.NDArray[Any],
    ) -> DrawnTree:
        """Read the arrays of a tree."""
        return cls(tree.arrays(), features, tasks, labels)

    def to_text(self) -> str:
        """One line per split and decision, indented by depth."""
        lines: list[str] = []
        # Depth first, left before right, without recursion: a tree may be deep.
        waiting = [(0, "", 0)]
        while waiting:
            node, condition, depth = waiting.pop()
            if condition:
                lines.append(f"{_INDENT * (depth - 1)}|--- {condition}")
            lines += (f"{_INDENT * depth}|--- {decision}" for decision in self._decisions(node))
            left = int(self.arrays["left"][node])
            if left >= 0:
                below, above = self._conditions(node)
                waiting += [(left + 1, above, depth + 1), (left, below, depth + 1)]
        return "\n".join(lines) + "\n"

    def to_graphviz(self) -> str:
        """A graph in the language of Graphviz: boxes for splits, rounded ones for decisions."""
        lines = ["digraph tree {", "  node [shape=box, fontname=helvetica];"]
        for node, left in enumerate(self.arrays["left"].tolist()):
            decisions = [*map(_quoted, self._decisions(node))]
            text = "\\l".join([*decisions, ""])
            if left < 0:
                lines.append(f'  n{node} [label="{text}", style=rounded];')
                continue
            feature, threshold = self._cut(node)
            lines.append(f'  n{node} [label="{_quoted(feature)} < {threshold}"];')
            if decisions:
                lines.append(f'  d{node} [label="{text}", style=rounded];')
                lines.append(f"  n{node} -> d{node} [style=dashed, arrowhead=none];")
            names = ["yes", "no"]
            names[0 if self.arrays["default_left"][node] else 1] += " or missing"
            lines += (f'  n{node} -> n{left + side} [label="{names[side]}"];' for side in (0, 1))
        return "\n".join([*lines, "}"]) + "\n"

    def _cut(self, node: int) -> tuple[str, str]:
        feature = self.features[int(self.arrays["feature"][node])]
        return feature, f"{self.arrays['threshold'][node]:.6g}"

    def _conditions(self, node: int) -> tuple[str, str]:
        feature, threshold = self._cut(node)
        missing_left = bool(self.arrays["default_left"][node])
        below = f"{feature} < {threshold}{' or missing' if missing_left else ''}"
        above = f"{feature} >= {threshold}{'' if missing_left else ' or missing'}"
        return below, above

    def _decisions(self, node: int) -> Iterator[str]:
        starts, shares = self.arrays["leaf_starts"], self.arrays["leaf_values"]
        for number in range(*self.arrays["decision_starts"][node : node + 2].tolist()):
            label = self.labels[int(self.arrays["decided_classes"][number])]
            share = shares[int(starts[number]) : int(starts[number + 1])].max()
            weight = float(self.arrays["decided_weights"][number])
            of = f"{share:.0%} of {weight:.6g}" if weight > 0.0 else "no rows: as above"
            yield f"{self.tasks[int(self.arrays['decided_tasks'][number])]}: {label} ({of})"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def feature_names(names: Sequence[Any] | None, n_features: int, task: int | None) -> list[str]:
    """Names of all columns of X but the task's, ``x0``, ``x1``, ... if they have none."""
    all_names = [f"x{place}" for place in range(n_features)] if names is None else map(str, names)
    return [name for place, name in enumerate(all_names) if place != task]


def importances(tree: _core.MTDecisionTree, n_features: int) -> npt.NDArray[np.float64]:
    """Share of each feature in the information gain of a tree; zeros without a split."""
    arrays = tree.arrays()
    is_split = arrays["left"] >= 0
    bits = np.bincount(arrays["feature"][is_split], arrays["gains"][is_split], minlength=n_features)
    return bits / (bits.sum() or 1.0)
