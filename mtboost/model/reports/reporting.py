# SPDX-License-Identifier: Apache-2.0
"""Reports of a fitted model: tables, scores on new rows, plots and pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mtboost.base.atomic_file import PathName, replacing
from mtboost.base.checks import check_type
from mtboost.base.frames import table_of_rows
from mtboost.base.renamed import renamed
from mtboost.base.row_order import reading_rows
from mtboost.errors import DataError
from mtboost.model.inputs.keywords import where_in_a_method
from mtboost.model.inputs.named_objectives import names_of_objectives
from mtboost.model.parts.task_report import report_rows, trained_strategy
from mtboost.model.plots.history import plot_history
from mtboost.model.prediction.contributions import ExplainedTasks
from mtboost.model.prediction.evaluation import EvaluatedTasks
from mtboost.model.reports.html import model_html
from mtboost.model.reports.page.report import report_page
from mtboost.model.reports.page.rows import UnseenRows

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas as pd


class ReportedTasks(ExplainedTasks, EvaluatedTasks):
    """A :class:`mtboost.MultiTaskModel` that reports on itself."""

    __slots__ = ()

    def report(self) -> pd.DataFrame:
        """One row per task: rows, positives, rounds of both stages and validation scores.

        Returns
        -------
        pandas.DataFrame
            Columns ``objective``, ``rows``, ``valid_rows``, ``positives`` and ``valid_positives``
            (classifiers), ``validation_note`` (why the scores are unreliable, and what to do, where
            a task has few validation rows or few of a class), ``quit_round``, ``specific_rounds``,
            ``why_no_specific``, and the validation metric of ``common`` and ``final``, the
            standard error of the latter, ``final se`` (of metrics that are means over rows, and of
            the area under the ROC curve), and the metric of each baseline where
            ``fit(baselines=True)`` trained them. Where each task has its objective, ``metric``
            names the metric. ``strategy="auto"`` adds ``sharing``, the metric of each way, and
            ``shrinkage_factor``, which is the same for all tasks
            (`MultiTaskModel.shrinkage_factor`).
            ``rows`` are those beside the validation rows; where each row is held out once, both
            are all rows. ``attrs["left_out"]`` lists the common models that a limit of time
            (`effort` of :func:`mtboost.fit`) left out, and ``attrs["has_task_levels"]`` is that of
            the model.
        """
        rows = report_rows(self.reports, self.objective, self.metric)
        table = table_of_rows(rows, "task", "report()")
        if self.shrinkage_factor is not None:
            # Tasks that joined later have no way to share.
            has_ways = "sharing" in table.columns
            place = table.columns.get_loc("sharing") + 1 if has_ways else table.shape[1]
            table.insert(place, "shrinkage_factor", self.shrinkage_factor)
        table.attrs["left_out"] = [
            name for name, loss in self.common_losses.items() if math.isnan(loss)
        ]
        table.attrs["has_task_levels"] = self.has_task_levels
        return table

    def _repr_html_(self) -> str:
        strategy = trained_strategy(self.reports)
        objectives = names_of_objectives(self.objective)
        n_rounds = self._library.n_rounds(self.common)
        title = (
            f"MultiTaskModel of {self.backend}: {', '.join(objectives)}, {len(self.tasks)} tasks, "
            f"strategy {strategy!r}, {n_rounds} common rounds{self._shrinkage_note}"
        )
        return model_html(title, self.reports, self.metric)

    def plot_history(self, *, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Plot the :attr:`history` of the largest tasks: :func:`mtboost.plotting.plot_history`.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default new ones.

        Returns
        -------
        matplotlib.axes.Axes
            The axes with the curves.

        Raises
        ------
        MissingDependencyError
            matplotlib is not installed.
        DataError
            No task has a validation curve.
        """
        return plot_history(self, ax=ax)

    @renamed(where_in_a_method)
    @reading_rows
    def report_html(
        self,
        path: PathName,
        X: Any = None,
        y: Any = None,
        *,
        task: Any = None,
        weight: Any = None,
        base_margin: Any = None,
        qid: Any = None,
        against: Mapping[str, Any] | None = None,
        title: str = "Model report",
    ) -> None:
        """Write a report of the model to one HTML file, which needs nothing else to be read.

        It has the rows of each task, what ``strategy="auto"`` compared and chose, scores with their
        standard errors, the plots of :mod:`mtboost.plotting`, warnings, settings and versions. It
        has no scripts, loads nothing, follows the reader's light or dark mode, and prints.

        Parameters
        ----------
        path : str, bytes or path-like
            An existing file is replaced in one step.
        X : table of shape (n_rows, n_features), or mapping of task name to table, optional
            Rows that the model was not trained on, as in :meth:`evaluate`. Without them the report
            has validation scores, and no plots of what predictions depend on.
        y : array-like of shape (n_rows,), or mapping of task name to array-like, optional
            Their labels.
        task : array-like of shape (n_rows,), or str or int, optional
            Task of each row, or the column of `X` that holds it; by default as in training.
        weight : like `y`, optional
            Row weights >= 0.
        base_margin : like `y`, optional
            Margin that each row starts from.
        qid : like `y`, optional
            Query of each row, which scores of rankings need.
        against : mapping of str to model, optional
            Models to compare with, as in :meth:`evaluate`.
        title : str, default="Model report"
            Heading of the report.

        Raises
        ------
        DataError, ParameterError, TypeError
            Rows do not fit the model, or only one of `X` and `y` is given.
        MissingDependencyError
            matplotlib, or with `X` pandas, is not installed.
        OSError
            The file cannot be written.

        Examples
        --------
        >>> import numpy as np
        >>> import mtboost
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> shop = np.repeat(["a", "b", "c"], 100)
        >>> y = X[:, 0] + (shop == "b")
        >>> even = np.arange(300) % 2 == 0
        >>> model = mtboost.fit(X[even], y[even], task=shop[even], effort="fast")
        >>> model.report_html("report.html", X[~even], y[~even], task=shop[~even])  # doctest: +SKIP
        """
        if (X is None) != (y is None):
            missing = "X" if X is None else "y"
            raise DataError(f"{missing} is missing: pass test rows with their labels, or neither.")
        check_type("title", title, str, "a str")
        test = None
        if X is not None:
            rows = {"task": task, "weight": weight, "base_margin": base_margin}
            has_intervals = self.conformity_scores and not self.losses
            alpha = 0.1 if has_intervals else None
            table = self.evaluate(X, y, **rows, qid=qid, against=against, alpha=alpha)
            test = UnseenRows(X, y, **rows, table=table)
        elif against is not None:
            raise DataError("against is given without test rows: pass X and y.")
        page = report_page(self, self.__getstate__(), title, test)
        with replacing(path) as file:
            file.write(page)
