# SPDX-License-Identifier: Apache-2.0
"""One tree of a task, with its leaf values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mtboost.base.arrays import Float64Array
from mtboost.base.checks import check_count
from mtboost.base.tables import Columns
from mtboost.base.tasks import TaskName
from mtboost.errors import ParameterError, UnsupportedError
from mtboost.model.plots.drawing import COLORS, MUTED, ink, name_of, new_axes, note, paper
from mtboost.model.plots.rows import fitted
from mtboost.model.prediction.predictions import FittedTasks
from mtboost.model.stages.common_trees import NodesByTask
from mtboost.trees.nodes import Nodes

if TYPE_CHECKING:
    import matplotlib.axes


@dataclass(frozen=True, slots=True, eq=False)
class _Tree:
    """Nodes of a model, and the root of one tree among them.

    Attributes
    ----------
    nodes : Nodes
    root : int
    pooled : ndarray of float64, optional
        Values of the leaves for all tasks together, where tasks have values.
    columns : Columns
        Those that the nodes' features are numbered by.
    stage : str
    """

    nodes: Nodes
    root: int
    pooled: Float64Array | None
    columns: Columns
    stage: str


def plot_tree(
    model: Any,
    task: TaskName,
    tree: int = 0,
    *,
    max_depth: int = 4,
    ax: matplotlib.axes.Axes | None = None,
) -> matplotlib.axes.Axes:
    """Plot one tree of a task.

    A row that fulfils the condition of a node goes to the left; one whose value is missing follows
    the thick line. Leaves show what they add to the margin, learning rate included, and with
    partially pooled leaves below it the value for all tasks together. Nodes that separate tasks
    are resolved for the task. Long lists of categories lose their middle.

    Parameters
    ----------
    model : MultiTaskModel, MultiTaskClassifier or MultiTaskRegressor
        A fitted model.
    task : task name
        One of the model's tasks.
    tree : int, default=0
        Number of the tree: the common trees that the task uses come first, then its own. With
        several classes there is one tree for each class in a round.
    max_depth : int, default=4
        Splits below this depth are not drawn.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default new ones.

    Returns
    -------
    matplotlib.axes.Axes
        The axes with the tree.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    UnsupportedError
        Only the library can read the trees, such as LightGBM's with ``zero_as_missing``.
    DataError, ParameterError, TypeError
        The task is unknown, it has fewer trees, or `model` is not a fitted model.

    Examples
    --------
    >>> import numpy as np
    >>> import mtboost
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> shop = np.repeat(["a", "b", "c"], 100)
    >>> fast = {"strategy": "two-stage", "num_boost_round": 10}
    >>> model = mtboost.fit(X, X[:, 0], task=shop, **fast)
    >>> ax = mtboost.plotting.plot_tree(model, "b")
    """
    check_count("tree", tree)
    check_count("max_depth", max_depth, low=1)
    own = fitted(model)
    own._check_task(task)
    found, n_trees = _find(own, task, tree)
    places, n_cut = _layout(found, max_depth)
    n_leaves = sum(found.nodes.left[node] < 0 for node in places) + n_cut
    depth = int(max(y for _, y in places.values()))
    ax = new_axes(ax, max(5.0, 1.05 * n_leaves + 1.0), 1.0 + 1.1 * (depth + 1))
    _draw(ax, found, places, _font_size(ax, n_leaves), own.backend)
    note(
        ax,
        f"{name_of(task)}: tree {tree:,} of {n_trees:,} ({found.stage}); thick: missing values",
        f"splits below depth {max_depth} are not drawn" if n_cut else "",
        "in leaves: value for the task, (value for all tasks together)"
        if found.pooled is not None
        else "",
    )
    return ax


def _find(model: FittedTasks, task: TaskName, number: int) -> tuple[_Tree, int]:
    """Return a tree of a task, and how many it has."""
    stage, library, trees = model._stage, model._library, model.common_trees
    pooled = None
    if model.losses:
        common = library.document(stage.followed_by(task)).nodes()
        n_common = 0 if common is None else len(common.roots)
    else:
        nodes = stage.document.nodes(trees.n_added)
        n_common = model.quit_round[task] * stage.n_outputs
        common = nodes
        if nodes is not None:
            code = int(trees.codes_of([task])[0])
            common = NodesByTask(trees, nodes).of(code)
            if trees.pooled.has_values:
                pooled = trees.shares.get(task, 1.0) * nodes.value.astype(np.float64)
    specific = None
    n_specific = model.specific.has_rounds(task) and library.n_rounds(model.specific[task])
    if n_specific:
        specific = model.specific.nodes(task, library)
        n_specific *= stage.n_outputs
    n_trees = n_common + int(n_specific)
    if number >= n_trees:
        raise ParameterError(
            f"tree is {number}, but task {task!r} has {n_trees}, counted from 0."
            if n_trees
            else f"task {task!r} has no trees to draw: its predictions are constant."
        )
    is_common = number < n_common
    found = common if is_common else specific
    if found is None:
        raise UnsupportedError(
            "plot_tree() cannot draw trees that only the library can read: pass "
            f"model.booster({task!r}) to {model.backend}.plot_tree()."
        )
    if is_common:
        return _Tree(
            found, int(found.roots[number]), pooled, model.common_columns, "common"
        ), n_trees
    root = int(found.roots[number - n_common])
    return _Tree(found, root, None, model.task_columns[task], "specific"), n_trees


def _layout(tree: _Tree, max_depth: int) -> tuple[dict[int, tuple[float, int]], int]:
    """Return the place and depth of each node to draw, and the number of splits without children.

    Leaves are at equal distances, other nodes amid their children.
    """
    nodes, places, n_drawn, n_cut = tree.nodes, {}, 0, 0

    def place(node: int, depth: int) -> float:
        nonlocal n_drawn, n_cut
        if nodes.left[node] < 0 or depth == max_depth:
            n_cut += bool(nodes.left[node] >= 0)
            x = float(n_drawn)
            n_drawn += 1
        else:
            children = (int(nodes.left[node]), int(nodes.right[node]))
            x = sum(place(child, depth + 1) for child in children) / 2.0
        places[node] = (x, depth)
        return x

    place(tree.root, 0)
    return places, n_cut


def _font_size(ax: matplotlib.axes.Axes, n_leaves: int) -> float:
    """Return the size at which the texts of neighbouring leaves do not touch."""
    points = 72 * ax.get_window_extent().width / ax.figure.dpi
    return float(np.clip(points / max(1, n_leaves) / 6.0, 4.0, 9.0))


def _condition(tree: _Tree, node: int, *, is_xgboost: bool) -> str:
    """Return the text of a node, which holds for the rows that go to the left."""
    nodes, names = tree.nodes, tree.columns.names
    feature = int(nodes.feature[node])
    name = f"feature {feature}" if names is None else name_of(names[feature], 16)
    codes = nodes.category_nodes.of(node)
    if codes is None:
        return f"{name}\n{'<' if is_xgboost else '≤'} {nodes.threshold[node]:.4g}"
    assert names is not None  # only data frames have categories
    labels = tree.columns.categories[names[feature]]
    listed = ", ".join(str(labels[code]) for code in codes)
    # XGBoost lists those that go to the right.
    return f"{name}\n{'not in' if is_xgboost else 'in'} {name_of(listed, 24)}"


def _draw(
    ax: matplotlib.axes.Axes,
    tree: _Tree,
    places: dict[int, tuple[float, int]],
    size: float,
    backend: str,
) -> None:
    nodes = tree.nodes
    box: dict[str, Any] = {"boxstyle": "round,pad=0.35", "facecolor": paper(), "edgecolor": ink()}
    for node, (x, depth) in places.items():
        left, right = int(nodes.left[node]), int(nodes.right[node])
        if left < 0:
            text = f"{nodes.value[node]:+.3g}"
            if tree.pooled is not None:
                text = f"{text}\n({tree.pooled[node]:+.3g})"
            style = {**box, "edgecolor": COLORS[0], "boxstyle": "square,pad=0.35"}
        elif left not in places:
            text, style = "…", {**box, "edgecolor": MUTED}
        else:
            text, style = _condition(tree, node, is_xgboost=backend == "xgboost"), box
            for child, is_default in (
                (left, bool(nodes.default_left[node])),
                (right, not nodes.default_left[node]),
            ):
                ax.plot(
                    [x, places[child][0]],
                    [-depth, -places[child][1]],
                    color=MUTED,
                    linewidth=2.4 if is_default else 0.8,
                    zorder=1,
                )
        ax.text(x, -depth, text, ha="center", va="center", fontsize=size, bbox=style, zorder=2)
    xs, depths = zip(*places.values(), strict=True)
    ax.set_xlim(min(xs) - 0.6, max(xs) + 0.6)
    ax.set_ylim(-max(depths) - 0.4, 0.4)
    ax.set_axis_off()
