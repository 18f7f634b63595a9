# SPDX-License-Identifier: Apache-2.0
"""The report in one HTML file: complete, safe with any name, and readable by itself."""

import re
import shutil
import subprocess
import zipfile
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import mtboost
from mtboost.errors import DataError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")

FAST = {"strategy": "two-stage", "num_boost_round": 5, "specific_rounds": 3}
VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = [
    "<script>alert(1)</script>",
    '" onload="x',
    "&amp;]]>",
    "</style><b>",
    "東京",
    "$\\frac$",
]


class Page(HTMLParser):
    """Elements of a page, texts and cells; every tag must be closed in its order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts, self.tables, self.open = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.append((self.open[-1], data))
            if self.open[-1] in ("td", "th"):
                self.tables[-1][-1][-1] += data

    def values(self, name):
        return [value for _, own, value in self.attributes if own == name]

    def table(self, *head):
        """Rows of the table whose head begins so, by their first cell."""
        (found,) = (own for own in self.tables if own[0][: len(head)] == [*head])
        return {row[0]: dict(zip(found[0][1:], row[1:], strict=True)) for row in found[1:]}


def make(names=("a", "b", "c"), n_each=40, *, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.array(names), n_each)
    X = pd.DataFrame(rng.normal(size=(len(task), 2)), columns=["price", "rain"])
    y = X["price"].to_numpy() + (task == names[0]) + rng.normal(size=len(task)) * 0.3
    return X, y, task


def written(model, tmp_path, *args, **options):
    path = tmp_path / "report.html"
    model.report_html(path, *args, **options)
    text = path.read_text("utf-8")
    check_is_self_contained(text)
    return Page(text)


def check_is_self_contained(text):
    """No script, nothing from elsewhere, and ids that are there once."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>\n<html")
    allowed = {"html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3"}
    allowed |= {"p", "nav", "a", "dl", "div", "dt", "dd", "section", "ul", "li", "table", "thead"}
    allowed |= {"tbody", "tr", "th", "td", "figure", "figcaption", "strong"}
    allowed |= {"svg", "g", "path", "text", "tspan", "use", "defs", "clippath", "rect", "image"}
    assert set(page.tags) <= allowed
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name != "src"
        if name == "href":
            assert value.startswith("data:image/png;base64,") or value.removeprefix("#") in ids
        for found in re.findall(r"url\(([^)]*)\)", value or ""):
            assert found.removeprefix("#") in ids
    styles = [text for tag, text in page.texts if tag == "style"]
    assert len(styles) == 1
    assert "url(" not in styles[0]
    assert "@import" not in styles[0]


@pytest.fixture(scope="module")
def fitted():
    X, y, task = make()
    return mtboost.fit(X, y, task=task, **FAST)


@pytest.fixture(scope="module")
def page_of_fitted(fitted, tmp_path_factory):
    return written(fitted, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def searched():
    X, y, task = make()
    options = {"effort": "fast", "validation_fraction": 0.25, "num_boost_round": 20}
    return mtboost.fit(X, y, task=task, **options)


@pytest.fixture(scope="module")
def page_of_test_rows(searched, tmp_path_factory):
    X, y, task = make(seed=1)
    options = {"task": task, "against": {"none": np.zeros(len(y))}, "title": "Stores & more"}
    return written(searched, tmp_path_factory.mktemp("report"), X, y, **options)


def test_a_report_of_test_rows_has_every_section_and_plot(searched, page_of_test_rows):
    page = page_of_test_rows
    titles = [text for tag, text in page.texts if tag == "h2"]
    assert titles == [
        "Know before use",
        "Data",
        "What was compared and chosen",
        "Scores",
        "What predictions depend on",
        "Training",
        "Settings and versions",
    ]
    assert ("h1", "Stores & more") in page.texts
    # search, gain, calibration, importance, two features, similarity, shrinkage, history; sharing
    # where tasks differ in it
    used = {(own.quit_round, own.specific_rounds) for own in searched.reports.values()}
    assert page.tags.count("svg") == 9 + (len(used) > 1)
    texts = " ".join(text for _, text in page.texts)
    assert ("All of them use the same" in texts) == (len(used) == 1)
    assert not any("Not drawn" in text for _, text in page.texts)


def test_a_report_of_a_ranking_takes_the_queries(tmp_path):
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(240, 2)), np.repeat(np.arange(24), 10)
    y, task = (X[:, 0] > 0).astype(int) + (X[:, 1] > 1), np.repeat(["a", "b"], 120)
    model = mtboost.fit(X, y, task=task, qid=qid, objective="rank:ndcg", **FAST)
    page = written(model, tmp_path, X, y, task=task, qid=qid)
    assert sum("have no scale" in text for _, text in page.texts) == 2
    rows = page.table("task", "test rows")
    table = model.evaluate(X, y, task=task, qid=qid)
    assert {name: cells["test rows"] for name, cells in rows.items()} == {
        name: str(n_rows) for name, n_rows in table["rows"].items()
    }


def test_scores_are_those_of_evaluate(searched, page_of_test_rows):
    X, y, task = make(seed=1)
    against = {"none": np.zeros(len(y))}
    rows = page_of_test_rows.table("task", "test rows")
    table = searched.evaluate(X, y, task=task, against=against)
    assert [*rows] == ["all tasks", "a", "b", "c"]
    for name, cells in rows.items():
        assert cells["test rows"] == str(table.loc[name, "rows"])
        for metric in ("rmse", "mae", "rmse gain over none"):
            value, error = cells[metric].removesuffix(" *").split(" ± ")
            se = table.loc[name, f"{metric} se"]
            assert float(error) == pytest.approx(se, rel=0.05)
            assert float(value) == pytest.approx(table.loc[name, metric], abs=0.05 * se)
            is_sure = abs(table.loc[name, metric]) > 2 * se
            assert cells[metric].endswith(" *") == (is_sure and "gain" in metric)


def test_rows_of_tasks_are_those_of_the_report(library, tmp_path):
    X, y, task = make()
    model = mtboost.fit(X, y > 0, task=task, backend=library.name, **FAST)
    rows = written(model, tmp_path).table("task", "rows", "positive")
    assert rows.keys() == set(model.tasks)
    for name, cells in rows.items():
        report = model.reports[name]
        n, positives = report.n_rows, report.n_positives
        assert cells["rows"] == str(n)
        assert cells["positive"] == f"{positives} ({positives / n:.1%})"
        assert cells["validation rows"] == str(report.n_valid_rows)
        assert cells["features"] == "2"


def test_candidates_and_the_choice_are_listed(searched, page_of_test_rows):
    page = page_of_test_rows
    texts = " ".join(text for _, text in page.texts)
    assert f"It chose: {searched.common_choice}." in texts
    ways = searched.report()["sharing"].value_counts()
    assert sum(int(cells["tasks"]) for cells in page.table("a task uses").values()) == ways.sum()


def test_without_test_rows_it_says_that_scores_are_too_good(fitted, page_of_fitted):
    page = page_of_fitted
    assert any("No test rows were given" in text for tag, text in page.texts if tag == "li")
    rows = page.table("task", "metric")
    for name, cells in rows.items():
        assert float(cells["final"]) == pytest.approx(fitted.reports[name].scores["final"], 1e-3)


def test_validation_scores_of_other_metrics_are_those_of_the_report(tmp_path):
    X, y, task = make()
    model = mtboost.fit(X, y, task=task, eval_metric=["mae", "rmse"], **FAST)
    rows = written(model, tmp_path).table("task", "metric")
    report = model.report()
    for name, cells in rows.items():
        for column, score in (("final", "rmse final"), ("mae final", "mae final")):
            assert float(cells[column]) == pytest.approx(report.loc[name, score], 1e-3)


def test_names_are_text_wherever_they_are(tmp_path):
    X, y, task = make(HOSTILE)
    X.columns = ['">&lt;b>', "a & b"]
    model = mtboost.fit(X, y, task=task, **FAST)
    against = {"<i>other</i>": np.zeros(len(y))}
    page = written(model, tmp_path, X, y, task=task, against=against, title="<b>title</b>")
    assert not {"script", "img", "b", "i"} & set(page.tags)
    assert set(page.table("task", "rows")) == set(HOSTILE)
    texts = [text for _, text in page.texts]
    assert "<b>title</b>" in texts
    for name in ("<script>alert(1)</script>", '">&lt;b>'):
        assert any(name in text for text in texts)


def test_the_digest_is_that_of_the_model_file(searched, tmp_path):
    searched.save(tmp_path / "model.mtb")
    with zipfile.ZipFile(tmp_path / "model.mtb") as archive:
        digest = archive.read("mtboost.sha256").decode().split()[0]
    for model in (searched, mtboost.load_model(tmp_path / "model.mtb")):
        rows = written(model, tmp_path).table("setting")
        assert rows["SHA-256 of mtboost.json in the model file"]["value"] == digest


def test_settings_and_versions_are_listed(fitted, page_of_fitted):
    page = page_of_fitted
    parameters = {name: cells["value"] for name, cells in page.table("parameter").items()}
    assert parameters == {name: str(value) for name, value in fitted.params.items()}
    versions = page.table("package")
    assert versions["mtboost"]["version"] == mtboost.__version__
    assert versions["numpy"]["version"] == np.__version__


def test_what_is_doubtful_is_a_warning(tmp_path):
    X, y, task = make()
    labels = np.where(task == "a", 1.0, y > 0)
    model = mtboost.fit(X, labels, task=task, **FAST)
    rows = task != "b"
    perfect = {"truth": np.clip(labels[rows], 0.01, 0.99)}
    page = written(model, tmp_path, X[rows], labels[rows], task=task[rows], against=perfect)
    found = "\n".join(text for tag, text in page.texts if tag == "li")
    assert "The training rows of task a are all of one class." in found
    assert "Few validation rows" in found
    assert "No test rows: task b." in found
    assert "worse than truth in logloss: task c" in found or "in logloss: 2 tasks (a, c)" in found


def test_models_of_every_kind_have_a_report(library, tmp_path):
    X, y, task = make()
    options = {"backend": library.name, **FAST}
    one = mtboost.fit(X, y, **options)
    written(one, tmp_path, X, y)
    unvalidated = mtboost.fit(X, y, task=task, validation_fraction=0, **options)
    page = written(unvalidated, tmp_path)
    assert any("no validation curves to draw" in text for _, text in page.texts)
    classes = np.digitize(y, [-0.5, 0.5]).astype(float)
    several = mtboost.fit(X, classes, task=task, objective=library.multiclass, **options)
    page = written(several, tmp_path, X, classes, task=task)
    assert any("Not drawn" in text for _, text in page.texts)
    mixed = mtboost.fit(
        X,
        np.where(task == "b", y > 0, y),
        task=task,
        objective={"a": library.squared_error, "b": library.own("binary:logistic")}
        | {"c": library.squared_error},
        backend=library.name,
        effort="fast",
        validation_fraction=0.25,
        num_boost_round=5,
    )
    written(mixed, tmp_path, X, np.where(task == "b", y > 0, y), task=task)


def test_intervals_are_shown_where_the_model_has_them(tmp_path):
    X, y, task = make()
    model = mtboost.fit(X, y, task=task, intervals=True, **FAST)
    page = written(model, tmp_path, X, y, task=task)
    table = model.evaluate(X, y, task=task, alpha=0.1)
    for name, cells in page.table("task", "test rows").items():
        coverage = cells["coverage"].split(" ± ")[0]
        assert float(coverage) == pytest.approx(table.loc[name, "coverage"], abs=0.01)
    assert any("Prediction intervals." in text for _, text in page.texts)


def test_nested_tasks_are_listed_by_all_levels(tmp_path):
    X, y, number = make([0, 1, 2])
    names = [("north", 1), ("north", 2), ("south", 1)]
    task = [names[own] for own in number]
    model = mtboost.fit(X, y, task=task, pooling=(3.0, 6.0), split_score="plain", **FAST)
    page = written(model, tmp_path, X, y, task=task)
    assert [*page.table("task", "rows")] == ["north / 1", "north / 2", "south / 1"]
    assert page.table("setting")["pooling of leaf values (κ)"]["value"] == "3, 6"


def test_means_of_models_have_a_report(tmp_path):
    X, y, task = make()
    model = mtboost.fit(X, y, task=task, n_ensemble=2, **FAST)
    page = written(model, tmp_path, X, y, task=task)
    rows = page.table("a task uses")
    assert rows == {"trees of the task alone, without the common model": {"tasks": "3"}}


@pytest.mark.parametrize("other", [["price", "rain"], ["price"]])
def test_tables_of_tasks_are_test_rows(other, tmp_path):
    X, y, _ = make(("a",), 80)
    tables, labels = {"a": X, "b": X[other]}, {"a": y, "b": y}
    model = mtboost.fit(tables, labels, **FAST)
    page = written(model, tmp_path, tables, labels)
    is_one_table = len(other) == 2
    assert any("X is a mapping" in text for _, text in page.texts) != is_one_table


def test_arrays_have_features_without_names(library, tmp_path):
    X, y, task = make()
    model = mtboost.fit(X.to_numpy(), y, task=task, backend=library.name, **FAST)
    page = written(model, tmp_path, X.to_numpy(), y, task=task)
    assert any("2 columns without names" in text for _, text in page.texts)
    assert not any("Not drawn" in text for _, text in page.texts)


def test_estimators_have_a_report_with_their_classes(tmp_path):
    X, y, task = make()
    table, words = X.assign(shop=task), np.where(y > 0, "yes", "no")
    estimator = mtboost.MultiTaskClassifier(task="shop", strategy="two-stage", n_estimators=5)
    with pytest.raises(NotFittedError):
        estimator.report_html(tmp_path / "report.html")
    estimator.fit(table, words)
    page = written(estimator, tmp_path, table, words)
    assert "all tasks" in page.table("task", "test rows")


def test_rows_without_labels_are_refused(fitted, tmp_path):
    X, y, task = make()
    for given in ((X, None), (None, y)):
        with pytest.raises(DataError, match="is missing: pass test rows with their labels"):
            fitted.report_html(tmp_path / "report.html", *given, task=task)
    with pytest.raises(DataError, match="against is given without test rows"):
        fitted.report_html(tmp_path / "report.html", against={"none": y})
    with pytest.raises(TypeError, match="title must be a str"):
        fitted.report_html(tmp_path / "report.html", title=3)
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_replaced_stays(fitted, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        fitted.report_html(path)
    assert [own.name for own in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_the_users_figures_and_style_stay(fitted, tmp_path):
    X, y, task = make()
    figures = plt.get_fignums()
    with plt.style.context("dark_background"):
        before = dict(matplotlib.rcParams)
        written(fitted, tmp_path, X, y, task=task)
        assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == figures


def test_colours_are_those_of_the_page(fitted, tmp_path):
    X, y, task = make()
    page = written(fitted, tmp_path, X, y, task=task)
    styles = " ".join(page.values("style"))
    assert "currentColor" in styles
    assert "var(--color0)" in styles
    assert "#010203" not in styles
    (rules,) = (text for tag, text in page.texts if tag == "style")
    light, dark = rules.split("@media (prefers-color-scheme: dark)")
    for name in set(re.findall(r"var\((--\w+)\)", styles)):
        assert f"{name}:" in light
        assert f"{name}:" in dark


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which .ci/browser installs")
def test_a_browser_draws_the_page_as_it_is_written(fitted, tmp_path):
    X, y, task = make()
    page = written(fitted, tmp_path, X, y, task=task)
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    found = subprocess.run(
        [*command, (tmp_path / "report.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "CONSOLE" not in found.stderr
    drawn = Page(found.stdout.replace("<!DOCTYPE html>", ""))
    assert drawn.tags == page.tags
