# SPDX-License-Identifier: Apache-2.0
"""Content of the report: what an auditor, or a colleague in a year, wants to know of a model."""

from __future__ import annotations

import json
import platform
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np

from mtboost.base.archive import digest_of
from mtboost.base.stacked_tables import concat
from mtboost.base.task_tables import is_mapping
from mtboost.base.tasks import TaskName
from mtboost.errors import DataError, MissingDependencyError, ModelFormatError, UnsupportedError
from mtboost.model.contributions import ExplainedTasks
from mtboost.model.evaluation import ALL_TASKS
from mtboost.model.named_objectives import names_of_objectives
from mtboost.model.page.elements import (
    Child,
    Element,
    element,
    page_bytes,
    plots_for_pages,
    svg,
    table,
)
from mtboost.model.page.style import STYLE
from mtboost.model.parts import to_parts
from mtboost.model.plots.calibration import plot_calibration
from mtboost.model.plots.dependence import plot_dependence
from mtboost.model.plots.drawing import full_name
from mtboost.model.plots.gain import plot_gain
from mtboost.model.plots.history import plot_history_grid, plot_search
from mtboost.model.plots.importance import contributions_by_task, draw_contributions
from mtboost.model.plots.intervals import plot_intervals
from mtboost.model.plots.rows import tables_by_task
from mtboost.model.plots.sharing import plot_sharing, way_of
from mtboost.model.plots.shrinkage import plot_shrinkage
from mtboost.model.plots.similarity import plot_task_similarity
from mtboost.model.predictions import FittedTasks
from mtboost.model.reports import report_rows

#: Rows of a table; the largest tasks are shown.
_MOST_ROWS = 1000
_N_NAMED = 10
_N_FEATURES = 3
_GAIN = " gain over "
#: Probability of a normal deviate beyond two standard errors, on one side.
_TAIL = 0.023
#: Tasks and rows whose contributions are computed.
_MOST_TASKS = 25
_ROWS_OF_TASK = 100
_PACKAGES = ("numpy", "scipy", "scikit-learn", "xgboost", "lightgbm", "pandas", "matplotlib")
_WAYS = {
    "common": "the common model alone",
    "common + specific": "the common model, continued by a specific model",
    "averaged": "the average of the common model and an independent model",
    "independent": "trees of the task alone, without the common model",
}


@dataclass(frozen=True, slots=True, eq=False)
class UnseenRows:
    """Rows that the model was not trained on, as the user gave them, and their evaluation.

    Attributes
    ----------
    X, y, task, weight, base_margin : object
    table : pandas.DataFrame
        Result of ``evaluate``.
    """

    X: Any
    y: Any
    task: Any
    weight: Any
    base_margin: Any
    table: Any


def report_page(
    model: ExplainedTasks, parts: Mapping[str, Any], title: str, test: UnseenRows | None
) -> bytes:
    """Return the page.

    Parameters
    ----------
    model : ExplainedTasks
    parts : mapping
        The fields of the model by name.
    title : str
    test : UnseenRows, optional
    """
    with plots_for_pages():
        sections: list[tuple[str, str, Sequence[Child]]] = [
            ("warnings", "Know before use", _warnings(model, test)),
            ("data", "Data", _data(model)),
            ("choices", "What was compared and chosen", _choices(model)),
            ("scores", "Scores", _scores(model, test)),
            ("behaviour", "What predictions depend on", _behaviour(model, test)),
            ("training", "Training", _training(model)),
            ("settings", "Settings and versions", _settings(model, parts)),
        ]
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    header = element(
        "header",
        element("h1", title),
        element("p", f"{_kind(model)}. Written on {now}."),
        element("nav", *(element("a", name, href=f"#{key}") for key, name, _ in sections)),
        _facts(model),
    )
    body = [
        element("section", element("h2", name), *content, id=key) for key, name, content in sections
    ]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content="mtboost"),
        element("title", title),
        element("style", STYLE),
    )
    root = element("html", head, element("body", element("main", header, *body)), lang="en")
    return page_bytes(root)


# ---- header --------------------------------------------------------------------------------------


def _strategy(model: FittedTasks) -> str:
    return "auto" if any(report.sharing for report in model.reports.values()) else "two-stage"


def _kind(model: FittedTasks) -> str:
    objectives = ", ".join(names_of_objectives(model.objective))
    return f"Multi-task model of {model.backend}, {objectives}, strategy {_strategy(model)!r}"


def _facts(model: FittedTasks) -> Element:
    reports = model.reports.values()
    n_features = {columns.n for columns in model.task_columns.values()}
    n_rows, n_valid = (
        sum(getattr(report, name) for report in reports) for name in ("n_rows", "n_valid_rows")
    )
    facts = {
        "tasks": f"{len(model.tasks):,}",
        "training rows": f"{n_rows:,}",
        "validation rows": f"{n_valid:,}",
        "features of a task": _range(n_features),
        "common rounds used": _range(set(model.quit_round.values())),
        "tasks with their own trees": f"{sum(report.specific_rounds > 0 for report in reports):,}",
    }
    pairs = (
        element("div", element("dt", name), element("dd", value)) for name, value in facts.items()
    )
    return element("dl", *pairs, class_="facts")


def _range(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} – {high:,}"


# ---- warnings ------------------------------------------------------------------------------------


def _warnings(model: FittedTasks, test: UnseenRows | None) -> list[Element]:
    found = [*_warnings_of_training(model), *_warnings_of_test(model, test)]
    if not found:
        return [element("p", "There are no warnings.")]
    return [element("ul", *(element("li", text) for text in found), class_="warnings")]


def _warnings_of_training(model: FittedTasks) -> list[str]:
    reports = model.reports
    few = [task for task, report in reports.items() if report.validation_note]
    none = [task for task, report in reports.items() if not report.n_valid_rows]
    one_class = [
        task
        for task, report in reports.items()
        if report.n_positives is not None and report.n_positives in (0, report.n_rows)
    ]
    left_out = [name for name, loss in model.common_losses.items() if np.isnan(loss)]
    found = []
    if one_class:
        found.append(f"The training rows of {_some(one_class)} are all of one class.")
    if few:
        found.append(
            "Few validation rows, or few of a class, so that their validation scores are within "
            f"noise: {_some(few)}."
        )
    if none:
        found.append(f"No validation rows: {_some(none)}.")
    if left_out:
        found.append(
            f"For lack of time the search left out {len(left_out)} of {len(model.common_losses)} "
            "common models."
        )
    return found


def _warnings_of_test(model: FittedTasks, test: UnseenRows | None) -> list[str]:
    if test is None:
        return [
            "No test rows were given. Validation rows, by which rounds and settings were chosen, "
            "make scores too good: pass X and y that the model was not trained on."
        ]
    scores = test.table
    found = []
    missing = [task for task in model.tasks if task not in scores.index]
    if missing:
        found.append(f"No test rows: {_some(missing)}.")
    rows = scores.drop(index=ALL_TASKS, errors="ignore")
    for name in rows.columns:
        if _GAIN not in name or name.endswith(" se"):
            continue
        gain, error = (rows[own].to_numpy(np.float64) for own in (name, f"{name} se"))
        worse = rows.index[gain < -2.0 * error].tolist()
        if worse:
            metric, other = name.split(_GAIN)
            n = int(np.isfinite(gain).sum())
            found.append(
                f"By more than two standard errors worse than {other} in {metric}: {_some(worse)}. "
                f"Were the two equally good for all {n:,} tasks, about {_TAIL * n:.2g} would be so "
                "by chance."
            )
    return found


def _some(tasks: Sequence[TaskName]) -> str:
    """Return the number of tasks and the names of the first."""
    names = ", ".join(full_name(task) for task in tasks[:_N_NAMED])
    more = f", and {len(tasks) - _N_NAMED:,} more" if len(tasks) > _N_NAMED else ""
    count = "task" if len(tasks) == 1 else f"{len(tasks):,} tasks"
    return f"{count} {names}{more}" if len(tasks) == 1 else f"{count} ({names}{more})"


# ---- data and choices ----------------------------------------------------------------------------


def _data(model: FittedTasks) -> list[Child]:
    reports = model.reports
    has_positives = any(report.n_positives is not None for report in reports.values())
    head = ["task", "rows", *["positive"] * has_positives, "validation rows"]
    head += [*["positive among them"] * has_positives, "features"]
    shown, note = _largest(model)
    rows = []
    for task in shown:
        report = reports[task]
        positives = [_share(report.n_positives, report.n_rows)] * has_positives
        valid = [_share(report.n_valid_positives, report.n_valid_rows)] * has_positives
        cells = [f"{report.n_rows:,}", *positives, f"{report.n_valid_rows:,}", *valid]
        rows.append([full_name(task), *cells, f"{model.task_columns[task].n:,}"])
    return [
        element(
            "p",
            "Rows of each task that the model learned from, and those that were held out to choose "
            "rounds and settings. Where each row was held out once, both are all rows.",
        ),
        note,
        table(head, rows),
        element("h3", "Features"),
        element("p", _features(model)),
    ]


def _largest(model: FittedTasks) -> tuple[list[TaskName], Child]:
    """Return the tasks that tables list, and a note on the others."""
    by_size = sorted(model.tasks, key=lambda task: -model.reports[task].n_rows)
    n_more = len(by_size) - _MOST_ROWS
    text = f"The {_MOST_ROWS:,} largest tasks; {n_more:,} more are not listed."
    return by_size[:_MOST_ROWS], element("p", text, class_="quiet") if n_more > 0 else None


def _share(count: int | None, n: int) -> str:
    if count is None:
        return ""
    return f"{count:,} ({count / n:.1%})" if n else f"{count:,}"


def _features(model: FittedTasks) -> str:
    common = model.common_columns
    if common.names is None:
        return f"{common.n:,} columns without names."
    own: set[str] = set().union(*(columns.names or () for columns in model.task_columns.values()))
    further = sorted(own - set(common.names))
    text = f"{common.n:,} in the common model: {', '.join(common.names)}."
    return text + (f" Of single tasks: {', '.join(further)}." if further else "")


def _choices(model: FittedTasks) -> list[Child]:
    found: list[Child] = []
    if model.common_losses:
        text = "The search compared common models by their mean loss over all validation rows."
        if model.common_choice:
            text += f" It chose: {model.common_choice}."
        found.append(element("p", text))
        found.append(
            _figure(
                "search",
                "Common models that were compared.",
                "The filled dot was chosen. A model that shares less must be better by more than "
                "one standard error.",
                lambda: plot_search(model),
            )
        )
    else:
        found.append(element("p", "There was no search: the settings were given."))
    if model.shrinkage_factor is not None:
        found.append(element("p", _shrinkage(model.shrinkage_factor)))
    ways = Counter(way_of(report) for report in model.reports.values())
    rows = [[text, f"{ways[way]:,}"] for way, text in _WAYS.items() if ways[way]]
    found += [element("h3", "What the tasks use"), table(["a task uses", "tasks"], rows)]
    used = {(own.quit_round, own.specific_rounds) for own in model.reports.values()}
    if len(used) == 1 and not any(ways[way] for way in _WAYS if way != "common"):
        n_rounds = model.quit_round[next(iter(model.tasks))]
        found.append(element("p", f"All of them use the same {n_rounds:,} common rounds."))
        return found
    found.append(
        _figure(
            "sharing",
            "Rounds that each task uses.",
            "Grey: the common model. Coloured: trees of the task alone. The largest task is first.",
            lambda: plot_sharing(model),
        )
    )
    return found


def _shrinkage(factor: float) -> str:
    """Return a sentence on how far predictions are shrunk towards a constant."""
    if factor == 1.0:
        return "Predictions are not shrunk towards a constant."
    if factor == 0.0:
        return (
            "All predictions are a constant: on the validation rows the model was worse, by more "
            "than chance."
        )
    return (
        f"All margins are shrunk towards a constant, to {factor:.0%} of their distance from it: "
        "the validation rows do not support more."
    )


# ---- scores --------------------------------------------------------------------------------------


def _scores(model: FittedTasks, test: UnseenRows | None) -> list[Child]:
    return _validation_scores(model) if test is None else _test_scores(model, test)


def _validation_scores(model: FittedTasks) -> list[Child]:
    shown, note = _largest(model)
    rows = report_rows(model.reports, model.objective, model.metric)
    scored = {name: None for task in shown for name in model.reports[task].scores}
    head = ["task", "metric", *scored]
    cells = []
    for task in shown:
        metric = model._metric_of(task)
        own = rows[task]
        of_metric = f"{metric} " if isinstance(model.metric, str) else ""
        values = [own.get(f"{of_metric}{name}", np.nan) for name in scored]
        cells.append([full_name(task), metric, *map(_number, values)])
    if not scored:
        return [element("p", "There are no scores: no validation rows were held out.")]
    return [
        element(
            "p",
            "Validation scores, by which rounds and settings were chosen: they are too good. "
            "“final” is that of what the task uses, the others are those of what it could use.",
        ),
        note,
        table(head, cells),
    ]


def _test_scores(model: FittedTasks, test: UnseenRows) -> list[Child]:
    scores = test.table
    metrics = [name for name in scores.columns if f"{name} se" in scores.columns]
    has_positives = "positives" in scores.columns
    by_size = scores["rows"].drop(index=ALL_TASKS, errors="ignore")
    order = by_size.sort_values(ascending=False, kind="stable").index.tolist()
    shown = [ALL_TASKS] * (ALL_TASKS in scores.index) + order[:_MOST_ROWS]
    rows = []
    for task in shown:
        own = scores.iloc[scores.index.get_loc(task)]  # loc would take a nested task apart
        counts = [f"{int(own['rows']):,}"]
        if has_positives:
            n = own["positives"]
            counts.append("" if np.isnan(n) else f"{int(n):,}")
        rows.append([full_name(task), *counts, *(_score(own, name) for name in metrics)])
    found: list[Child] = [
        element(
            "p",
            "Scores of the test rows, ± one standard error. Errors treat rows as independent "
            "draws. A gain over another model is positive where this model is better, and its "
            "error is that of the difference on the same rows; * marks more than two of them.",
        )
    ]
    if len(order) > _MOST_ROWS:
        text = f"The {_MOST_ROWS:,} largest tasks; {len(order) - _MOST_ROWS:,} more are not listed."
        found.append(element("p", text, class_="quiet"))
    head = ["task", "test rows", *["positive"] * has_positives, *metrics]
    found.append(table(head, rows))
    if any(_GAIN in name for name in metrics):
        found.append(
            _figure(
                "gain",
                "This model beside others.",
                "One row a task: the filled dot is this model. A bar that reaches the dot is a "
                "difference within one standard error.",
                lambda: plot_gain(scores),
            )
        )
    rows_of_test = {"task": test.task, "weight": test.weight, "base_margin": test.base_margin}
    found.append(
        _figure(
            "calibration",
            "Calibration.",
            "On the diagonal predictions mean what they say; bars are 95 % intervals.",
            lambda: plot_calibration(model, test.X, test.y, **rows_of_test),
        )
    )
    if model.conformity_scores:
        found.append(
            _figure(
                "intervals",
                "Prediction intervals.",
                "First panel: the fraction of labels inside, a dot for each task; 95 % of them "
                "should be between the dashed lines. Others: labels, crosses are outside.",
                lambda: plot_intervals(
                    model, test.X, test.y, task=test.task, base_margin=test.base_margin
                ),
            )
        )
    return found


def _score(row: Any, name: str) -> str:
    """Return a score with its error; a star marks a gain that is more than noise."""
    value, error = row[name], row[f"{name} se"]
    is_sure = _GAIN in name and abs(value) > 2.0 * error
    return f"{_with_error(value, error)} *" if is_sure else _with_error(value, error)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _with_error(value: float, error: float) -> str:
    """Return a number and its error to two digits of the error."""
    if not np.isfinite(value) or not np.isfinite(error) or error <= 0:
        return _number(value)
    digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 8))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


# ---- behaviour -----------------------------------------------------------------------------------


def _behaviour(model: ExplainedTasks, test: UnseenRows | None) -> list[Child]:
    if test is None:
        return [element("p", "This needs rows: pass X and y.", class_="quiet")]
    tables = tables_by_task(model, test.X, test.task)
    largest = sorted(tables, key=lambda task: -tables[task].n_rows)[:_MOST_TASKS]
    found = contributions_by_task(model, tables, largest, _ROWS_OF_TASK, bool(model.losses))
    omitted = f" The {len(largest)} largest of {len(tables):,} tasks." * (
        len(tables) > len(largest)
    )
    X = _one_table(model, test.X)
    n_features = _N_FEATURES if model._stage.n_outputs == 1 else 1  # says why it is not drawn
    pictures = [
        _figure(
            "importance",
            "Importance of features, task by task.",
            "Mean absolute contribution (SHAP value) to the margin." + omitted,
            lambda: draw_contributions(found, 15, None),
        ),
        *(
            _figure(
                f"dependence{number}",
                f"Dependence on {name}.",
                "Mean prediction with the feature set to each value; one line a task.",
                lambda name=name: plot_dependence(model, X, _feature(model, name)),  # type: ignore[misc]
            )
            for number, name in enumerate(found.features[:n_features])
        ),
    ]
    if len(model.tasks) > 1:
        pictures.append(
            _figure(
                "similarity",
                "How alike the tasks are.",
                "Correlation of their predictions for the same rows, in the order of a clustering.",
                lambda: plot_task_similarity(model, X),
            )
        )
        own = {"task": test.task, "weight": test.weight, "base_margin": test.base_margin}
        pictures.append(
            _figure(
                "shrinkage",
                "Levels of the tasks.",
                "Differences from the pooled prediction: of the labels, and of the predictions.",
                lambda: plot_shrinkage(model, test.X, test.y, **own),
            )
        )
    return [element("p", "Computed from the test rows."), *pictures]


def _one_table(model: FittedTasks, X: Any) -> Any:
    """Return one table of all rows where tables of the tasks have the same columns."""
    if not is_mapping(X):
        return X
    tables = list(tables_by_task(model, X, None).values())
    same = all(each.feature_names == tables[0].feature_names for each in tables)
    return concat(tables).native if same else X


def _feature(model: FittedTasks, name: str) -> str | int:
    """Return what the plot of dependence calls a feature."""
    columns = model.common_columns
    if columns.names is not None:
        return name
    return model._library.feature_names(columns).index(name)


# ---- training and settings -----------------------------------------------------------------------


def _training(model: FittedTasks) -> list[Child]:
    return [
        _figure(
            "history",
            "Validation curves.",
            "The vertical line is the last common round that the task uses; dashed: its own model.",
            lambda: plot_history_grid(model),
        )
    ]


def _settings(model: FittedTasks, parts: Mapping[str, Any]) -> list[Child]:
    trees = model.common_trees
    metrics = [model.metric] if isinstance(model.metric, str) else model.metric.values()
    facts = {
        "strategy": _strategy(model),
        "objective": ", ".join(names_of_objectives(model.objective)),
        "validation metric": ", ".join(dict.fromkeys(metrics)),
        "task column": "none" if model.task_column is None else str(model.task_column),
        "rounds of the common model": f"{trees.n_rounds:,}",
        "linear effects before them": f"{trees.n_linear:,} rounds" if trees.n_linear else "no",
        "pooling of leaf values (κ)": _pooling(trees.pooled.pooling),
        "nodes that separate tasks": _task_nodes(model),
        "SHA-256 of mtboost.json in the model file": _digest(parts),
    }
    own = Counter(
        json.dumps(params, default=str, sort_keys=True)
        for task, params in model.specific_params.items()
        if model.reports[task].specific_rounds
    )
    found: list[Child] = [
        table(["setting", "value"], [[*fact] for fact in facts.items()], class_="words"),
        element("h3", "Parameters of the common model"),
        _parameters(model.params),
    ]
    for text, n_tasks in own.most_common(3):
        different = {
            name: value
            for name, value in json.loads(text).items()
            if model.params.get(name) != value
        }
        if different:
            tasks = "1 task" if n_tasks == 1 else f"{n_tasks:,} tasks"
            found.append(element("h3", f"What differs in the specific trees of {tasks}"))
            found.append(_parameters(different))
    found += [
        element("h3", "Versions"),
        element("p", "Those with which this report was written.", class_="quiet"),
        table(["package", "version"], _versions(), class_="words"),
    ]
    return found


def _pooling(pooling: object) -> str:
    """Return κ, of nested tasks at each level."""
    levels = pooling if isinstance(pooling, tuple) else (pooling,)
    return ", ".join(f"{kappa:.6g}" for kappa in levels if isinstance(kappa, float)) or "none"


def _task_nodes(model: FittedTasks) -> str:
    trees = model.common_trees
    if trees.descriptors is not None:
        return f"by {trees.descriptors.n} descriptors of the tasks"
    return "by the task" if trees.has_task_column else "none"


def _digest(parts: Mapping[str, Any]) -> str:
    try:
        return digest_of(*to_parts(parts))
    except ModelFormatError as error:
        return f"none: {error}"


def _parameters(params: Mapping[str, Any]) -> Element:
    if not params:
        return element("p", "Not known: the model comes from an early file.", class_="quiet")
    rows = [[name, _shown(value)] for name, value in sorted(params.items())]
    return table(["parameter", "value"], rows, class_="words")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 500 else f"{text[:500]}…"


def _versions() -> list[list[str]]:
    import mtboost

    rows = [["mtboost", mtboost.__version__], ["Python", platform.python_version()]]
    for name in _PACKAGES:
        try:
            rows.append([name, metadata.version(name)])
        except metadata.PackageNotFoundError:
            continue
    return [*rows, ["system", f"{platform.system()} {platform.machine()}, {sys.byteorder} endian"]]


# ---- figures -------------------------------------------------------------------------------------


def _figure(key: str, title: str, caption: str, draw: Callable[[], Any]) -> Element:
    """Return a plot with its caption, or why there is none."""
    try:
        drawn = draw()
    except MissingDependencyError:
        raise
    except (DataError, UnsupportedError) as error:
        return element("p", f"{title} Not drawn: {error}", class_="quiet")
    figure = drawn[0].figure if isinstance(drawn, np.ndarray) else drawn.figure
    text = element("figcaption", element("strong", title), f" {caption}")
    return element("figure", text, svg(figure, key, f"{title} {caption}"))
