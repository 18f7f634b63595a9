# SPDX-License-Identifier: Apache-2.0
"""How notebooks show a model."""

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import mtboost

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
FAST = {"strategy": "two-stage", "num_boost_round": 5, "specific_rounds": 2}


def is_estimator(item):
    return isinstance(item, type) and issubclass(item, BaseEstimator)


class Cells(HTMLParser):
    """The text of each cell, row by row, and all tags; every tag must be closed in its order."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.open = [], set(), []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


def test_each_task_has_a_row_with_what_it_uses(library):
    task = np.array(["a", "<b>&"])[np.arange(120) % 2]
    model = mtboost.fit(X, X[:, 0], task=task, backend=library.name, **FAST)
    text = model._repr_html_()
    found = Cells(text)
    head, *rows = found.rows
    assert head == ["task", "rows", "common rounds", "specific rounds", "validation"]
    for name, row in zip(model.tasks, rows, strict=True):
        report = model.reports[name]
        assert row[:4] == [
            name,
            *map(str, (report.n_rows, report.quit_round, report.specific_rounds)),
        ]
        assert row[4] == f"rmse {report.scores['final']:.4g}"
    assert f"MultiTaskModel of {library.name}" in text
    # No scripts, and no colours but those of the page, light or dark.
    assert found.tags == {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}
    assert "color" not in text
    assert "background" not in text


def test_what_tasks_share_is_shown_where_it_was_searched():
    options = {"effort": "fast", "validation_fraction": 0.25, "num_boost_round": 20}
    model = mtboost.fit(X, X[:, 0], task=np.arange(120) % 2, **options)
    head, *rows = Cells(model._repr_html_()).rows
    assert [row[head.index("sharing")] for row in rows] == model.report()["sharing"].tolist()


def test_of_many_tasks_the_largest_are_shown():
    task = np.minimum(np.arange(120) // 4, 25)  # task 25 has 20 rows, the others 4
    model = mtboost.fit(X, X[:, 0], task=task, validation_fraction=0, **FAST)
    text = model._repr_html_()
    shown = [row[0] for row in Cells(text).rows[1:]]
    assert len(shown) == 20
    assert shown[-1] == "25"
    assert "6 smaller tasks are not shown" in text


def test_models_with_an_objective_for_each_task_name_each_metric():
    task = np.array(["amount", "class"])[np.arange(120) % 2]
    y = np.where(task == "class", X[:, 0] > 0, X[:, 0])
    objective = {"amount": "reg:squarederror", "class": "binary:logistic"}
    model = mtboost.fit(X, y, task=task, objective=objective, num_boost_round=5)
    rows = Cells(model._repr_html_()).rows[1:]
    assert [row[-1].split()[0] for row in rows] == ["rmse", "logloss"]
    assert "reg:squarederror, binary:logistic" in model._repr_html_()


@pytest.mark.parametrize(
    "estimator", [item for name in mtboost.__all__ if is_estimator(item := getattr(mtboost, name))]
)
def test_estimators_show_their_parameters(estimator):
    shown = estimator()
    assert estimator.__name__ in shown._repr_html_()
    assert all(name in shown._repr_html_() for name in shown.get_params())
