# SPDX-License-Identifier: Apache-2.0
"""Plots: what is drawn equals the model's numbers, for a few tasks and for many."""

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse
from processes import run_script
from sklearn.exceptions import NotFittedError

import mtboost
from mtboost import plotting
from mtboost.errors import DataError, ParameterError, UnsupportedError
from mtboost.model.plots import drawing
from mtboost.model.plots.calibration import reliability

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")

FAST = {"strategy": "two-stage", "num_boost_round": 8, "specific_rounds": 4}
ONE_SPLIT = {"effort": "fast", "validation_fraction": 0.25}
SEARCHED = {"effort": "fast", "num_boost_round": 8, "validation_fraction": 0.25}
ODD = [
    "$x^2$",
    "_hidden",
    "<script>alert(1)</script>",
    "two\nlines",
    "",
    "x" * 60,
    "50 $",
    "\\frac",
]


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def make(names, n_each=40, *, seed=0, kind="numbers"):
    """Return a table of two features that tasks use differently, labels, and the tasks."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.array(names), n_each)
    X = pd.DataFrame(rng.normal(size=(len(task), 2)), columns=["price", "rain"])
    level = np.repeat(rng.normal(size=len(names)), n_each)
    y = level + X["price"].to_numpy() + rng.normal(size=len(task)) * 0.3
    if kind == "classes":
        y = (y > 0).astype(float)
    return X, y, task


def fitted(names=("a", "b", "c"), library=None, kind="numbers", **options):
    X, y, task = make(names, kind=kind)
    backend = library.name if library else "xgboost"
    model = mtboost.fit(X, y, task=task, backend=backend, **{**FAST, **options})
    return model, X, y, task


@pytest.fixture(scope="module")
def three():
    """A model of three tasks, and new rows."""
    model, *_ = fitted(pooling=5.0)
    return model, *make(("a", "b", "c"), seed=1)


@pytest.fixture(scope="module")
def searched():
    X, y, task = make(("a", "b", "c"))
    return mtboost.fit(X, y, task=task, num_boost_round=20, **ONE_SPLIT)


def evaluated(model, X, y, task, **against):
    other = against or {"none": np.zeros(len(y))}
    return model.evaluate(X, y, task=task, against=other)


def all_plots(model, X, y, task):
    """Functions of ax that draw all plots on one axes."""
    table = evaluated(model, X, y, task)
    return {
        "gain": lambda ax: plotting.plot_gain(table, ax=ax),
        "sharing": lambda ax: plotting.plot_sharing(model, ax=ax),
        "similarity": lambda ax: plotting.plot_task_similarity(model, X, ax=ax),
        "shrinkage": lambda ax: plotting.plot_shrinkage(model, X, y, task=task, ax=ax),
        "importance": lambda ax: plotting.plot_importance(model, X, task=task, ax=ax),
        "history": lambda ax: plotting.plot_history(model, ax=ax),
        "dependence": lambda ax: plotting.plot_dependence(model, X, "price", ax=ax),
        "tree": lambda ax: plotting.plot_tree(model, model.tasks[0], ax=ax),
    }


def texts(ax):
    """All that the legend, the ticks and the title of axes say."""
    legend = ax.get_legend()
    found = [text.get_text() for text in (legend.get_texts() if legend else [])]
    found += [text.get_text() for text in [*ax.get_yticklabels(), *ax.get_xticklabels()]]
    return [*found, *(ax.get_title(loc=place) for place in ("left", "center"))]


# ---- all plots -----------------------------------------------------------------------------------


def test_every_public_plot_is_tested_here(three):
    names = {f"plot_{name}" for name in all_plots(*three)} - {"plot_similarity"}
    others = {"plot_task_similarity", "plot_search", "plot_history_grid", "plot_calibration"}
    others |= {"plot_intervals"}
    assert names | others == set(plotting.__all__)


def test_plots_are_drawn_on_the_given_axes_and_open_no_figure(three):
    for draw in all_plots(*three).values():
        figure = matplotlib.figure.Figure()
        ax = figure.subplots()
        assert draw(ax) is ax
        figure.canvas.draw()
    assert not plt.get_fignums()


def test_plots_without_axes_make_their_own(three):
    for number, draw in enumerate(all_plots(*three).values(), 1):
        draw(None).figure.canvas.draw()
        assert len(plt.get_fignums()) == number


def test_names_of_tasks_are_no_formulas_and_all_are_in_legends():
    model, X, y, task = fitted(ODD)
    for name, draw in all_plots(model, X, y, task).items():
        ax = draw(None)
        ax.figure.canvas.draw()  # raises for a formula that is none
        if name in ("history", "dependence"):
            assert len(ax.get_legend().get_texts()) >= len(ODD)
    for panels in (
        plotting.plot_history_grid(model),
        plotting.plot_calibration(model, X, y, task=task),
    ):
        panels[0].figure.canvas.draw()
    assert all("\n" not in drawing.name_of(name) for name in ODD)


def test_long_names_that_differ_at_an_end_stay_distinct():
    names = [f"{first} of a very long name / {last}" for first in "ab" for last in "cd"]
    assert len({drawing.name_of(name) for name in names}) == len(names)
    assert all(len(drawing.name_of(name)) <= 24 for name in names)


def test_of_many_tasks_every_plot_says_what_it_omits():
    names = [f"store {number:02d}" for number in range(45)]
    model, X, y, task = fitted(names)
    table = evaluated(model, X, y, task)
    assert "30 largest of 45 tasks" in plotting.plot_gain(table).get_title(loc="left")
    ax = plotting.plot_importance(model, X, task=task, max_rows=5)
    assert "25 largest of 45 tasks" in ax.get_title(loc="left")
    assert "10 largest of 45 tasks" in plotting.plot_history(model).get_title(loc="left")
    panels = plotting.plot_history_grid(model)
    assert len(panels) == 12
    assert panels[0].figure.get_suptitle() == "12 largest of 45 tasks"
    panels = plotting.plot_calibration(model, X, y, task=task)
    assert len(panels) == 1 + 11
    assert panels[0].figure.get_suptitle() == "11 largest of 45 tasks"
    # These draw all tasks, and have no room for their names.
    assert plotting.plot_task_similarity(model, X).images[0].get_array().shape == (45, 45)
    assert "45 tasks" in plotting.plot_shrinkage(model, X, y, task=task).get_ylabel()
    common = plotting.plot_sharing(model).patches[0].get_data().values
    sizes = [model.reports[name].n_rows for name in names]
    in_order = [names[place] for place in np.argsort(-np.array(sizes), kind="stable")]
    assert common.tolist() == [model.quit_round[name] for name in in_order]
    ax = plotting.plot_dependence(model, X, "price", max_rows=5)
    assert len(ax.lines) == 45 + 2  # the pooled line and the deciles
    assert "45 tasks, named are the 5" in ax.get_title(loc="left")


def test_named_tasks_are_drawn(three):
    model, X, y, task = three
    chosen = {"tasks": ["c", "a"]}
    ax = plotting.plot_gain(evaluated(model, X, y, task), **chosen)
    assert "2 of 3 tasks" in ax.get_title(loc="left")
    assert [text.get_text() for text in plotting.plot_history(model, **chosen).get_legend().texts]
    ax = plotting.plot_task_similarity(model, X, **chosen)
    assert {text.get_text() for text in ax.get_yticklabels()} == {"a", "c"}
    panels = plotting.plot_calibration(model, X, y, task=task, **chosen)
    assert [panel.get_title() for panel in panels] == ["all tasks", "c", "a"]
    with pytest.raises(DataError, match="tasks has 'd', of which there is nothing to draw. Known"):
        plotting.plot_sharing(model, tasks=["d"])
    with pytest.raises(DataError, match="tasks is empty"):
        plotting.plot_sharing(model, tasks=[])
    with pytest.raises(TypeError, match=r"tasks is 'a': pass a list of names, \['a'\]"):
        plotting.plot_sharing(model, tasks="a")


def test_an_estimator_is_plotted_as_its_model():
    X, y, task = make(("a", "b"))
    estimator = mtboost.MultiTaskRegressor(task="shop", strategy="two-stage", n_estimators=5)
    with pytest.raises(NotFittedError):
        plotting.plot_sharing(estimator)
    estimator.fit(X.assign(shop=task), y)
    own = plotting.plot_dependence(estimator, X.assign(shop=task), "price")
    same = plotting.plot_dependence(estimator.model_, X, "price")
    for line, other in zip(own.lines, same.lines, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


def test_labels_of_an_estimator_are_its_classes():
    X, y, task = make(("a", "b"), kind="classes")
    words = np.array(["no", "yes"])[y.astype(int)]
    estimator = mtboost.MultiTaskClassifier(task="shop", strategy="two-stage", n_estimators=5)
    table = X.assign(shop=task)
    estimator.fit(table, words)
    own = plotting.plot_calibration(estimator, table, words)
    same = plotting.plot_calibration(estimator.model_, table, y)
    for panel, other in zip(own, same, strict=True):
        np.testing.assert_array_equal(panel.lines[-1].get_xydata(), other.lines[-1].get_xydata())
    own = plotting.plot_shrinkage(estimator, table, words)
    same = plotting.plot_shrinkage(estimator.model_, table, y)
    np.testing.assert_array_equal(own.lines[1].get_xydata(), same.lines[1].get_xydata())


def test_effects_of_bools_with_missing_values_are_drawn():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=200), "b": pd.array(rng.random(200) < 0.5, "boolean")})
    X.loc[:5, "b"] = pd.NA
    options = {"strategy": "two-stage", "num_boost_round": 5}
    model = mtboost.fit(X, X["a"], task=np.arange(200) % 2, **options)
    assert plotting.plot_dependence(model, X, "b").get_lines()


def test_arrays_with_and_without_the_task_column_are_the_same_rows():
    X, y, task = make((3, 7))
    with_task = np.column_stack([X["price"], task, X["rain"]])
    model = mtboost.fit(with_task, y, task=1, **FAST)
    for draw in (plotting.plot_task_similarity, lambda *own: plotting.plot_dependence(*own, 1)):
        found = [draw(model, own) for own in (with_task, X.to_numpy())]
        own, same = ([*ax.images, *ax.lines] for ax in found)
        for one, other in zip(own, same, strict=True):
            get = "get_array" if hasattr(one, "get_array") else "get_xydata"
            np.testing.assert_array_equal(getattr(one, get)(), getattr(other, get)())


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match="model is a dict: pass a MultiTaskModel"):
        plotting.plot_sharing({})


def test_what_is_no_axes_or_figure_is_refused(three):
    for draw in all_plots(*three).values():
        with pytest.raises(TypeError, match="ax must be axes of matplotlib, such as .*, found 3"):
            draw(3)
    with pytest.raises(TypeError, match="figure must be a figure of matplotlib, or None, found"):
        plotting.plot_history_grid(three[0], figure=plt.figure().subplots())


def test_without_matplotlib_the_message_says_what_to_install():
    script = (
        "import sys; sys.modules['matplotlib'] = None; import numpy as np, mtboost\n"
        "X = np.arange(20.0)[:, None]\n"
        "model = mtboost.fit(X, X[:, 0], strategy='two-stage', num_boost_round=1)\n"
        "mtboost.plotting.plot_sharing(model)"
    )
    found = run_script(script, check=False)
    assert found.stderr.splitlines()[-1] == (
        "mtboost.errors.MissingDependencyError: Plots need matplotlib: pip install 'mtboost[plot]'."
    )


def test_importing_mtboost_does_not_import_matplotlib():
    found = run_script("import sys, mtboost; print('matplotlib' in sys.modules)")
    assert found.stdout == "False\n"


def test_colours_of_maps_are_ordered_in_grey():
    colors = matplotlib.colormaps[drawing.COLOR_MAP](np.linspace(0, 1, 50))[:, :3]
    grey = colors @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) > 0).all()


def test_ways_to_share_are_ordered_in_grey():
    colors = map(matplotlib.colors.to_rgb, (drawing.FAINT, *drawing.WAY_COLORS))
    grey = np.array([*colors]) @ [0.299, 0.587, 0.114]
    assert (np.diff(grey) < -0.1).all()


def test_the_first_24_lines_have_different_styles():
    styles = [drawing.style_of(number) for number in range(24)]
    assert len({tuple(style.items()) for style in styles}) == 24
    # In grey the first lines differ by their style alone.
    assert len({style["linestyle"] for style in styles[:4]}) == 4


NESTED = [("north", 1), ("north", 2), ("south", 1)]


def test_nested_tasks_have_the_labels_of_all_levels():
    X, y, number = make([0, 1, 2])
    task = [NESTED[own] for own in number]
    model = mtboost.fit(X, y, task=task, pooling=(3.0, 6.0), split_score="plain", **FAST)
    for name, draw in all_plots(model, X, y, task).items():
        ax = draw(None)
        ax.figure.canvas.draw()
        if name not in ("tree", "dependence"):
            assert any(text.startswith("north / 1") for text in texts(ax)), name
    panels = plotting.plot_calibration(model, X, y, task=task)
    assert [panel.get_title() for panel in panels[1:]] == ["north / 1", "north / 2", "south / 1"]


def test_arrays_with_columns_of_nested_tasks_are_drawn():
    X, y, number = make([0, 1, 2])
    rows = X.assign(region=number // 2, store=number % 2)[["region", "store", *X.columns]]
    model = mtboost.fit(rows, y, task=["region", "store"], **FAST)
    own = plotting.plot_dependence(model, rows.to_numpy(), 0)
    same = plotting.plot_dependence(model, X.to_numpy(), 0)
    for line, other in zip(own.lines, same.lines, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), other.get_xydata())


def test_means_of_models_are_drawn():
    model, X, y, task = fitted(n_ensemble=2)
    for name, draw in all_plots(model, X, y, task).items():
        if name != "history":
            draw(None).figure.canvas.draw()
    ax = plotting.plot_sharing(model)
    assert "rounds of the task alone, without the common model (3 tasks)" in texts(ax)
    assert "common rounds" not in texts(ax)
    X, y, task = make(("a", "b"))
    model = mtboost.fit(X, y, task=task, num_boost_round=10, n_ensemble=2, **ONE_SPLIT)
    assert len(plotting.plot_search(model).lines) == 1  # each model has another choice


# ---- gain ----------------------------------------------------------------------------------------


def test_dumbbells_have_the_scores_and_errors_of_the_table(three):
    model, X, y, task = three
    noisy = y + np.random.default_rng(0).normal(size=len(y)) * (task == "b") * 0.1
    table = evaluated(model, X, y, task, zero=np.zeros(len(y)), noisy=noisy)
    for metric, sign in (("rmse", -1), ("mae", -1)):
        ax = plotting.plot_gain(table, metric)
        names = [text.get_text() for text in ax.get_yticklabels()]
        by_gain = table.drop(index="all tasks")[f"{metric} gain over zero"]
        assert names == ["all tasks", *by_gain.sort_values(ascending=False).index]
        own = next(line for line in ax.lines if line.get_label() == "this model")
        np.testing.assert_array_equal(own.get_xdata(), table.loc[names, metric])
        for container, other in zip(ax.containers, ("zero", "noisy"), strict=True):
            gain = table.loc[names, f"{metric} gain over {other}"]
            scores, _, (bars,) = container
            expected = table.loc[names, metric] - sign * gain
            np.testing.assert_allclose(scores.get_xdata(), expected)
            lengths = [np.ptp(segment[:, 0]) for segment in bars.get_segments()]
            errors = table.loc[names, f"{metric} gain over {other} se"]
            np.testing.assert_allclose(lengths, 2 * errors)


def test_greater_scores_are_better_where_the_table_says_so():
    model, X, y, task = fitted(("a", "b"), kind="classes")
    table = evaluated(model, X, y, task, none=np.full(len(y), 0.5))
    assert table.attrs["greater_is_better"]["auc"]
    ax = plotting.plot_gain(table, "auc")
    assert ax.get_xlabel() == "auc (greater is better)"
    np.testing.assert_allclose(ax.containers[0][0].get_xdata(), 0.5)


def test_the_direction_of_a_metric_is_known_by_its_name_or_asked_for(three):
    model, X, y, task = three

    def goodness(y, prediction):
        return -float(np.abs(y - prediction).mean())

    against = {"none": np.zeros(len(y))}
    table = model.evaluate(X, y, task=task, metrics=["rmse", goodness], against=against)
    assert plotting.plot_gain(table, "goodness").get_xlabel() == "goodness (greater is better)"
    table.attrs.clear()
    assert plotting.plot_gain(table).get_xlabel() == "rmse (less is better)"
    with pytest.raises(DataError, match="whether a greater goodness is better"):
        plotting.plot_gain(table, "goodness")


def test_tables_without_gains_or_metrics_are_refused(three):
    model, X, y, task = three
    with pytest.raises(DataError, match="no gains over other models: pass the result of model.eva"):
        plotting.plot_gain(model.evaluate(X, y, task=task))
    with pytest.raises(DataError, match="no gains"):
        plotting.plot_gain(model)
    with pytest.raises(ParameterError, match="metric must be"):
        plotting.plot_gain(evaluated(model, X, y, task), "auc")


def test_tasks_without_a_score_are_counted():
    model, X, y, task = fitted(("a", "b", "c"), kind="classes")
    one_class = np.where(task == "b", 1.0, y)
    ax = plotting.plot_gain(evaluated(model, X, one_class, task, none=np.full(len(y), 0.5)), "auc")
    assert "auc is undefined for 1 more" in ax.get_title(loc="left")
    assert "b" not in texts(ax)


# ---- sharing -------------------------------------------------------------------------------------


def test_bars_are_the_rounds_of_each_task(three, library):
    model, *_ = fitted(library=library)
    ax = plotting.plot_sharing(model)
    common, *own = ax.containers
    by_size = sorted(model.tasks, key=lambda task: -model.reports[task].n_rows)
    rounds = [model.quit_round[task] for task in by_size]
    assert [bar.get_width() for bar in common] == [own for own in rounds if own]
    total = sum(bar.get_width() for container in own for bar in container)
    assert total == sum(report.specific_rounds for report in model.reports.values())


def test_tasks_without_rounds_have_no_bars_and_no_legend():
    X, _, task = make(("a", "b"))
    noise = np.random.default_rng(0).normal(size=len(X))
    options = {"strategy": "two-stage", "specific_rounds": 0, "params": {"learning_rate": 9.0}}
    ax = plotting.plot_sharing(mtboost.fit(X, noise, task=task, num_boost_round=2, **options))
    assert not ax.containers
    assert ax.get_legend() is None


@pytest.mark.parametrize("way", ["common + specific", "averaged", "independent"])
def test_what_auto_chose_has_its_colour(way, monkeypatch):
    monkeypatch.setattr(
        "mtboost.model.sharing.evidence.Evidence.ways",
        lambda self: dict.fromkeys(("a", "b", "c"), way),
    )
    X, y, task = make(("a", "b", "c"))
    model = mtboost.fit(X, y, task=task, **SEARCHED)
    n_tasks = sum(
        report.sharing == way and report.specific_rounds > 0 for report in model.reports.values()
    )
    ax = plotting.plot_sharing(model)
    plural = "task" if n_tasks == 1 else "tasks"
    assert any(f"({n_tasks} {plural})" in text for text in texts(ax)) == (n_tasks > 0)


# ---- similarity ----------------------------------------------------------------------------------


def test_similarity_is_the_correlation_of_predictions_for_the_same_rows(three, library):
    model, X, *_ = fitted(library=library, specific_rounds=10)
    ax = plotting.plot_task_similarity(model, X, max_rows=len(X))
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert sorted(names) == sorted(model.tasks)
    margins = [model.predict_margin({name: X})[name].astype(float) for name in names]
    np.testing.assert_allclose(ax.images[0].get_array(), np.corrcoef(margins), atol=1e-6)


def test_tasks_of_opposite_effects_are_put_apart():
    names = ["a", "b", "c", "d"]
    X, _, task = make(names, 100)
    y = X["price"].to_numpy() * np.where(np.isin(task, ["a", "c"]), 1.0, -1.0)
    model = mtboost.fit(X, y, task=task, **{**FAST, "specific_rounds": 50})
    ax = plotting.plot_task_similarity(model, X)
    order = [text.get_text() for text in ax.get_yticklabels()]
    assert {*order[:2]} in ({"a", "c"}, {"b", "d"})


def test_constant_predictions_have_no_correlation():
    X, _, task = make(("a", "b"))
    model = mtboost.fit(X, np.ones(len(X)), task=task, **FAST)
    found = plotting.plot_task_similarity(model, X).images[0].get_array()
    np.testing.assert_array_equal(found, np.eye(2))


def test_tasks_that_are_the_same_have_no_dendrogram():
    model, X, *_ = fitted(("a", "b"), specific_rounds=0, validation_fraction=0)
    ax = plotting.plot_task_similarity(model, X)
    np.testing.assert_allclose(ax.images[0].get_array(), 1.0)
    assert len(ax.child_axes) == 1  # that of the colours


def test_one_task_is_like_no_other():
    model, X, *_ = fitted(("a",))
    with pytest.raises(DataError, match="one task only"):
        plotting.plot_task_similarity(model, X)
    with pytest.raises(UnsupportedError, match="X is a mapping"):
        plotting.plot_task_similarity(fitted()[0], {"a": X})


# ---- shrinkage -----------------------------------------------------------------------------------


def test_effects_are_differences_from_the_pooled_prediction(library):
    X, y, task = make(("a", "b", "c"))
    options = {**FAST, "specific_rounds": 0, "pooling": 20.0}
    model = mtboost.fit(X, y, task=task, backend=library.name, **options)
    weight = np.random.default_rng(0).random(len(y))
    ax = plotting.plot_shrinkage(model, X, y, task=task, weight=weight)
    names = [text.get_text().split("  ")[0] for text in ax.get_yticklabels()]
    drawn = {line.get_label(): line.get_xdata() for line in ax.lines}
    pooled = model.predict(X, task=np.full(len(X), "new"), unknown_task="common")
    found = model.predict(X, task=task)
    for place, name in enumerate(names):
        own = task == name
        parts = weight[own] / weight[own].sum()
        effects = parts @ (y - pooled)[own], parts @ (found - pooled)[own]
        keys = "mean label ± standard error", "mean prediction"
        np.testing.assert_allclose([drawn[key][place] for key in keys], effects, rtol=1e-5)
        assert abs(effects[1]) < abs(effects[0])  # shrunk
    assert (np.diff(drawn["mean prediction"]) >= 0).all()


def test_bars_of_effects_are_standard_errors_of_means():
    model, X, y, task = fitted(("a", "b"), specific_rounds=0)
    ax = plotting.plot_shrinkage(model, X, y, task=task)
    names = [text.get_text().split("  ")[0] for text in ax.get_yticklabels()]
    lengths = [np.ptp(segment[:, 0]) for segment in ax.collections[0].get_segments()]
    residuals = y - model.predict(X, task=np.full(len(X), "new"), unknown_task="common")
    expected = [residuals[task == name].std(ddof=1) / np.sqrt(40) for name in names]
    np.testing.assert_allclose(lengths, 2 * np.array(expected), rtol=1e-6)


def test_models_without_a_pooled_prediction_are_refused():
    X, y, task = make(("a", "b"))
    objective = {"a": "reg:squarederror", "b": "reg:squarederror"}
    model = mtboost.fit(X, y, task=task, objective=objective, **SEARCHED)
    with pytest.raises(UnsupportedError, match="a pooled prediction, which a model with an object"):
        plotting.plot_shrinkage(model, X, y, task=task)
    classes = np.digitize(y, [-0.5, 0.5]).astype(float)
    several = mtboost.fit(X, classes, task=task, objective="multi:softprob", **FAST)
    with pytest.raises(UnsupportedError, match=r"plot_shrinkage\(\) draws one prediction a row"):
        plotting.plot_shrinkage(several, X, classes, task=task)


# ---- importance ----------------------------------------------------------------------------------


def test_cells_are_the_mean_absolute_contributions(library):
    model, X, _, task = fitted(library=library)
    ax = plotting.plot_importance(model, X, task=task)
    features = [text.get_text() for text in ax.get_xticklabels()]
    for row, name in zip(ax.images[0].get_array(), model.tasks, strict=True):
        expected = model.importance(name, X=X[task == name])
        np.testing.assert_allclose(row, [expected.get(name, 0.0) for name in features])
    shares = plotting.plot_importance(model, X, task=task, normalize=True).images[0].get_array()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)


def test_features_that_a_task_lacks_have_empty_cells():
    X, y, _ = make(("a",), 80)
    tables = {"a": X, "b": X[["price"]]}
    model = mtboost.fit(tables, {"a": y, "b": y}, **FAST)
    ax = plotting.plot_importance(model, tables)
    rain = [text.get_text() for text in ax.get_xticklabels()].index("rain")
    assert np.ma.getmaskarray(ax.images[0].get_array())[:, rain].tolist() == [False, True]


def test_further_features_are_counted():
    model, X, _, task = fitted()
    ax = plotting.plot_importance(model, X, task=task, max_features=1)
    assert "1 more feature, " in ax.get_title(loc="left")
    assert [text.get_text() for text in ax.get_xticklabels()] == ["price"]


# ---- calibration ---------------------------------------------------------------------------------


def test_reliability_has_means_of_bins_of_equal_counts():
    predicted = np.linspace(0.0, 1.0, 100)
    y = predicted**2
    curve = reliability(predicted, y, np.ones(100), 4, False)
    parts = np.split(np.arange(100), 4)
    np.testing.assert_allclose(curve.predicted, [predicted[part].mean() for part in parts])
    np.testing.assert_allclose(curve.observed, [y[part].mean() for part in parts])
    errors = np.array([y[part].std(ddof=1) / 5 for part in parts])
    np.testing.assert_allclose(curve.high - curve.observed, 1.96 * errors)


def test_intervals_of_classes_are_those_of_wilson():
    y = np.repeat([0.0, 1.0], [18, 2])
    curve = reliability(np.full(20, 0.1), y, np.ones(20), 10, True)
    z, p, n = 1.96, 2 / 20, 20
    center = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    np.testing.assert_allclose([curve.low[0], curve.high[0]], [center - half, center + half])


def test_weights_count_as_rows():
    rng = np.random.default_rng(0)
    predicted, y = rng.random(40), rng.random(40)
    twice = np.repeat(np.arange(40), 2)
    one = reliability(predicted, y, np.full(40, 7.0), 1, False)
    same = reliability(predicted, y, np.ones(40), 1, False)
    np.testing.assert_allclose(one.high, same.high)
    weighted = reliability(predicted, y, np.where(np.arange(40) < 20, 2.0, 1.0), 1, False)
    rows = np.concatenate([twice[:40], np.arange(20, 40)])
    repeated = reliability(predicted[rows], y[rows], np.ones(60), 1, False)
    np.testing.assert_allclose(weighted.observed, repeated.observed)


def test_panels_have_the_reliability_of_their_task():
    model, X, y, task = fitted(kind="classes")
    panels = plotting.plot_calibration(model, X, y, task=task, n_bins=2)
    predicted = model.predict(X, task=task)
    for panel in panels[1:]:
        own = task == panel.get_title()
        curve = reliability(predicted[own].astype(float), y[own], np.ones(own.sum()), 2, True)
        line = panel.lines[-1]
        np.testing.assert_allclose(line.get_xdata(), curve.predicted, rtol=1e-6)
        np.testing.assert_allclose(line.get_ydata(), curve.observed)
    together = reliability(predicted.astype(float), y, np.ones(len(y)), 2, True)
    np.testing.assert_allclose(panels[0].lines[-1].get_ydata(), together.observed)


def test_rows_without_weight_do_not_count():
    model, X, y, task = fitted()
    weight = (task != "b").astype(float)
    panels = plotting.plot_calibration(model, X, y, task=task, weight=weight)
    assert [panel.get_title() for panel in panels] == ["all tasks", "a", "c"]
    with pytest.raises(DataError, match="weight"):
        plotting.plot_calibration(model, X, y, task=task, weight=np.zeros(len(y)))


# ---- intervals -----------------------------------------------------------------------------------


def with_intervals(names=("a", "b"), n_each=60):
    X, y, task = make(names, n_each)
    options = {**FAST, "intervals": True}
    return mtboost.fit(X, y, task=task, **options), *make(names, n_each, seed=1)


def test_dots_are_the_coverages_of_all_tasks():
    names = [f"store {number:02d}" for number in range(20)]
    model, X, y, task = with_intervals(names, 30)
    panels = plotting.plot_intervals(model, X, y, task=task, alpha=0.2, max_tasks=3)
    assert len(panels) == 4
    assert "3 largest of 20 tasks" in panels[0].figure.get_suptitle()
    low, high = model.predict_interval(X, task=task, alpha=0.2).T
    is_in = (low <= y) & (y <= high)
    n_rows, coverages = panels[0].lines[0].get_data()
    np.testing.assert_allclose(coverages, [is_in[task == name].mean() for name in names])
    assert n_rows.tolist() == [30] * 20
    bounds = [line.get_ydata()[-1] for line in panels[0].lines[2:]]
    half = 1.96 * np.sqrt(0.2 * 0.8 / 30)
    np.testing.assert_allclose(bounds, [0.8 - half, 0.8 + half])


def test_bands_are_the_intervals_and_crosses_the_labels_outside(library):
    X, y, task = make(("a", "b"), 60)
    model = mtboost.fit(X, y, task=task, backend=library.name, intervals=True, **FAST)
    X, y, task = make(("a", "b"), 60, seed=1)
    panels = plotting.plot_intervals(model, X, y, task=task)
    low, high = model.predict_interval(X, task=task).T
    predicted = model.predict(X, task=task)
    for panel, name in zip(panels[1:], model.tasks, strict=True):
        own = task == name
        is_in = ((low <= y) & (y <= high))[own]
        assert panel.get_title() == f"{name}\n{is_in.mean():.0%} inside"
        _, inside, outside = panel.lines
        assert sorted(inside.get_ydata()) == sorted(y[own][is_in])
        assert sorted(outside.get_ydata()) == sorted(y[own][~is_in])
        edges = panel.collections[0].get_paths()[0].vertices
        np.testing.assert_allclose(edges[:, 1].min(), low[own].min(), rtol=1e-5)
        np.testing.assert_allclose(edges[:, 0].max(), predicted[own].max(), rtol=1e-5)


def test_a_panel_has_some_rows_and_the_coverage_of_all():
    model, X, y, task = with_intervals()
    panels = plotting.plot_intervals(model, X, y, task=task, max_rows=10)
    assert [sum(len(line.get_xdata()) for line in p.lines[1:]) for p in panels[1:]] == [10, 10]
    everything = plotting.plot_intervals(model, X, y, task=task)
    assert [p.get_title() for p in panels] == [p.get_title() for p in everything]


def test_models_without_conformity_scores_have_no_intervals_to_draw(three):
    model, X, y, task = three
    with pytest.raises(DataError, match="no conformity scores"):
        plotting.plot_intervals(model, X, y, task=task)


# ---- history and search --------------------------------------------------------------------------


def test_curves_that_end_before_the_last_round_used_have_no_mark():
    X, y, task = make(("a", "b", "c"))
    params = {"learning_rate": 0.1, "max_depth": 2}
    options = {"params": params, "early_stopping_rounds": 1, "linear_effects": False}
    for refit in (False, True):
        model = mtboost.fit(X, y, task=task, effort="fast", refit=refit, **options)
        ends_early = [model.quit_round[t] >= len(model.history[t]["common"]) for t in model.tasks]
        assert ends_early == [refit] * 3  # all rows are worth more rounds than were watched
        axes = plotting.plot_history(model)
        axes.figure.canvas.draw()
        assert [not line.get_markevery() for line in axes.lines] == ends_early
        panels = list(plotting.plot_history_grid(model).flat)[: len(model.tasks)]
        panels[0].figure.canvas.draw()
        has_mark = ["o" in [line.get_marker() for line in panel.lines] for panel in panels]
        assert has_mark == [not early for early in ends_early]


def test_panels_have_the_validation_curves_of_their_task(three):
    model = three[0]
    panels = plotting.plot_history_grid(model)
    for panel in panels:
        report = model.reports[panel.get_title()]
        start = report.common_history[0]
        lines = {line.get_label(): line for line in panel.lines}
        np.testing.assert_allclose(lines["common"].get_ydata(), report.common_history / start)
        assert lines["last used"].get_xdata()[0] == report.quit_round
        if report.specific_history.size:
            own = lines["its own"]
            np.testing.assert_allclose(own.get_ydata(), report.specific_history / start)
            assert own.get_xdata()[0] == report.quit_round


def test_histories_of_auto_have_the_chosen_model(searched):
    panels = plotting.plot_history_grid(searched)
    for panel in panels:
        report = searched.reports[panel.get_title()]
        known = np.isfinite(report.common_history)
        start = report.common_history[known][0]
        np.testing.assert_allclose(
            panel.lines[0].get_ydata()[known], report.common_history[known] / start
        )


def test_losses_of_the_search_are_drawn_and_the_chosen_one_is_marked(searched):
    ax = plotting.plot_search(searched)
    names = [text.get_text().replace("\n", " ") for text in ax.get_yticklabels()]
    losses = searched.common_losses
    assert names == sorted(losses, key=losses.__getitem__)
    compared, chosen = ax.lines
    assert [names[int(place)] for place in chosen.get_ydata()] == [searched.common_choice]
    assert chosen.get_xdata() == [losses[searched.common_choice]]
    drawn = dict(zip(compared.get_ydata().astype(int), compared.get_xdata(), strict=True))
    assert all(losses[names[place]] == loss for place, loss in drawn.items())
    bold = [text for text in ax.get_yticklabels() if text.get_fontweight() == "bold"]
    assert len(bold) == 1


def test_models_that_had_no_time_are_counted(searched):
    left_out = dict.fromkeys(["one", "two"], np.nan)
    model = searched._copy(common_losses=searched.common_losses | left_out)
    assert "2 more were left out" in plotting.plot_search(model).get_title(loc="left")


def test_the_chosen_model_is_drawn_though_others_are_better(searched):
    losses = {f"setting {number}": float(number) for number in range(40)}
    model = searched._copy(common_losses=losses, common_choice="setting 39")
    ax = plotting.plot_search(model, max_models=5)
    assert ax.lines[1].get_xdata() == [39.0]
    assert "5 best of 40 common models" in ax.get_title(loc="left")


def test_there_is_no_search_to_draw_where_there_was_none(three):
    with pytest.raises(DataError, match="no search to draw"):
        plotting.plot_search(three[0])


# ---- dependence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy"])
def test_lines_are_mean_predictions_with_the_feature_replaced(library, kind):
    model, X, _, task = fitted(library=library)
    native = {"pandas": X, "polars": polars.from_pandas(X), "numpy": X.to_numpy()}[kind]
    feature = 0 if kind == "numpy" else "price"
    if kind == "numpy":
        y = X["price"].to_numpy()
        model = mtboost.fit(native, y, task=task, backend=library.name, **FAST)
    before = native.copy() if kind != "polars" else native.clone()
    ax = plotting.plot_dependence(model, native, feature, max_rows=len(X), n_points=6)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == [*model.tasks, "pooled"]
    for name, line in zip(names, ax.lines, strict=False):
        for x, mean in zip(*line.get_data(), strict=True):
            rows = X.assign(price=x)
            rows = rows if kind != "numpy" else rows.to_numpy()
            options = {"unknown_task": "common"} if name == "pooled" else {}
            found = model.predict(rows, task=np.full(len(X), name), **options)
            np.testing.assert_allclose(mean, found.astype(float).mean(), rtol=1e-5)
    same = (before == native).all() if kind == "numpy" else before.equals(native)
    assert same  # the user's table


def test_categories_are_points_of_the_axis():
    X, y, task = make(("a", "b"))
    X["kind"] = pd.Categorical(np.array(["new", "old"])[np.arange(len(X)) % 2])
    y = y + (X["kind"] == "new") * 2.0
    model = mtboost.fit(X, y, task=task, **FAST)
    ax = plotting.plot_dependence(model, X, "kind", max_rows=10)
    assert [text.get_text() for text in ax.get_xticklabels()] == ["new", "old"]
    for line in ax.lines[:2]:
        assert np.ptp(line.get_ydata()) > 0


def test_features_and_tables_that_cannot_be_drawn_are_refused(three):
    model, X, *_ = three
    with pytest.raises(DataError, match="feature 'prise' is not a column of X.* Did you mean"):
        plotting.plot_dependence(model, X, "prise")
    empty = X.assign(price=np.nan)
    with pytest.raises(DataError, match="feature 'shop' is not a column"):
        plotting.plot_dependence(model, X.assign(shop=1.0), "shop")
    with pytest.raises(DataError, match="missing in every row"):
        plotting.plot_dependence(model, empty, "price")
    of_arrays = mtboost.fit(X.to_numpy(), X["price"], **FAST)
    with pytest.raises(UnsupportedError, match="X is a table of scipy: pass a NumPy array"):
        plotting.plot_dependence(of_arrays, scipy.sparse.csr_array(X.to_numpy()), 0)


# ---- trees ---------------------------------------------------------------------------------------


def leaf_values(ax):
    """Numbers of the leaves, left to right: of the task, and of all tasks."""
    found = []
    for text in ax.texts:
        lines = text.get_text().split("\n")
        if lines[0][0] in "+-":
            found.append((text.get_position()[0], [float(line.strip("()")) for line in lines]))
    return [values for _, values in sorted(found)]


@pytest.mark.parametrize("task", ["a", "c"])
def test_leaves_are_those_of_the_tasks_booster(library, task):
    X, y, of_rows = make(("a", "b", "c"), 200)
    options = {**FAST, "pooling": 5.0, "num_boost_round": 3, "params": {"max_depth": 2}}
    model = mtboost.fit(X, y, task=of_rows, backend=library.name, **options)
    booster = model.booster(task)
    n_common = model.quit_round[task]
    n_trees = library.n_rounds(booster)
    assert n_trees > n_common > 0
    for number in (0, n_common - 1, n_trees - 1):
        drawn = leaf_values(plotting.plot_tree(model, task, number))
        document = model._library.document(booster)
        nodes = document.nodes()
        expected = []

        def walk(node, nodes=nodes, expected=expected):
            if nodes.left[node] < 0:
                expected.append(float(nodes.value[node]))
            else:
                walk(nodes.left[node])
                walk(nodes.right[node])

        walk(nodes.roots[number])
        np.testing.assert_allclose([values[0] for values in drawn], expected, rtol=6e-3)
        assert len(drawn[0]) == (2 if number < n_common else 1)


def test_pooled_values_are_those_of_the_common_booster():
    model, *_ = fitted(pooling=5.0, params={"max_depth": 2})
    by_task = [leaf_values(plotting.plot_tree(model, task)) for task in model.tasks]
    pooled = [[values[1] for values in found] for found in by_task]
    assert pooled[0] == pooled[1] == pooled[2]
    own = [[values[0] for values in found] for found in by_task]
    assert own[0] != own[1]


def test_deep_trees_are_cut_and_say_so():
    model, *_ = fitted(params={"max_depth": 6}, specific_rounds=0)
    ax = plotting.plot_tree(model, "a", max_depth=1)
    assert "splits below depth 1 are not drawn" in ax.get_title(loc="left")
    assert [text.get_text() for text in ax.texts].count("…") == 2


def test_trees_that_are_not_there_are_refused(three):
    model = three[0]
    with pytest.raises(ParameterError, match="tree is 1000, but task 'a' has"):
        plotting.plot_tree(model, "a", 1000)
    with pytest.raises(DataError, match="task 'd' is unknown"):
        plotting.plot_tree(model, "d")


def test_nodes_show_the_categories_that_they_list(library):
    X, y, task = make(("a", "b"))
    X["kind"] = pd.Categorical(np.array(["new", "old", "odd"])[np.arange(len(X)) % 3])
    y = y + (X["kind"] == "new") * 9.0
    params = {"min_data_per_group": 1} if library.name == "lightgbm" else {}
    model = mtboost.fit(X, y, task=task, backend=library.name, params=params, **FAST)
    drawn = [text.get_text() for text in plotting.plot_tree(model, "a").texts]
    first = next(text for text in drawn if "kind" in text)
    # The left side of the first node with categories has no "new", or only "new".
    shown = {"xgboost": {"kind\nnot in new", "kind\nnot in old, odd"}}
    shown["lightgbm"] = {"kind\nin new", "kind\nin old, odd", "kind\nin odd, old"}
    assert first in shown[library.name]


def test_trees_that_only_the_library_reads_are_left_to_it():
    X, y, task = make(("a", "b"))
    params = {"zero_as_missing": True}
    model = mtboost.fit(X, y, task=task, backend="lightgbm", params=params, **FAST)
    with pytest.raises(UnsupportedError, match=r"pass model.booster\('a'\) to lightgbm.plot_tree"):
        plotting.plot_tree(model, "a")


def test_trees_of_tasks_with_different_objectives_are_drawn():
    X, y, task = make(("a", "b"))
    objective = {"a": "reg:squarederror", "b": "binary:logistic"}
    y = np.where(task == "b", y > 0, y)
    model = mtboost.fit(X, y, task=task, objective=objective, **SEARCHED)
    assert leaf_values(plotting.plot_tree(model, "b"))
