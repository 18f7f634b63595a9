# SPDX-License-Identifier: Apache-2.0
"""The published tables, sentences and chart of committed results: nobody types their figures.

A block of a page between the lines ``<!-- results: NAME -->`` and ``<!-- end -->`` is what the
function NAME of this module or of a module ``*_tables.py`` makes of ``results/*.jsonl``. This
command writes all blocks of README.md and docs/, the chart docs/results.svg and the badges
docs/badges.svg again; tests/benchmarks/test_published.py compares them. It needs pandas.

    python benchmarks/published.py
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import forest_tables
import gain_tables
import kind_tables
import method_tables
import numpy as np
import output_tables
import pandas as pd
import split_tables
from markdown_tables import plain, results, seconds, table
from out_of_the_box import ROWS
from task_comparison import Score, scores_of, verdict
from task_data import FAMILIES
from task_methods import DEFAULTS

ROOT = Path(__file__).parents[1]
CHART = ROOT / "docs" / "results.svg"
BADGES = ROOT / "docs" / "badges.svg"
BLOCK = re.compile(r"(?<=<!-- results: )(\w+)( -->\n)(.*?)(?=^<!-- end -->)", re.M | re.S)

OTHERS = (  # without mtboost's search; tuned on the same held-out rows
    "pooled",
    "one-hot",
    "category",
    "independent",
    "two-stage rounds",
    "MT extra trees",
    "LightGBM category",
    "CatBoost category",
    "two-stage quitting",
    "extra trees one-hot",
)
BOOSTED = ("pooled", "one-hot", "category", "LightGBM category", "CatBoost category")
FEW_ROWS = (
    "one-hot",
    "category",
    "LightGBM category",
    "CatBoost category",
    "linear",
    "XGBoost default",
    "LightGBM default",
    "CatBoost default",
    "GPBoost",
)
METRICS = {
    "auc": "AUC",
    "explained": "explained variance",
    "logloss": "log loss",
    "rmse": "RMSE",
    "calibration": "calibration error",
}
LIBRARIES = ("XGBoost", "LightGBM", "CatBoost", "HistGradientBoosting")


# ---- comparisons ---------------------------------------------------------------------------------


def by_data(file: str, methods: Sequence[str]) -> dict[str, list[Score]]:
    """Return the scores of each data set: generated ones, then the tables of the folder."""
    found = results(file)
    found = found[found["method"].isin(methods)]
    scores = {str(name): scores_of(rows, methods) for name, rows in found.groupby("data")}
    generated = [name for name in (*ROWS, *FAMILIES) if name in scores]
    return {name: scores[name] for name in dict.fromkeys([*generated, *scores])}


def mean_ranks(file: str, methods: Sequence[str], place: int = 0) -> pd.Series:
    """Return the mean rank of each method over the data sets; 1 is best."""
    ranks = {name: scores[place].ranks() for name, scores in by_data(file, methods).items()}
    return pd.DataFrame(ranks).mean(axis=1)


class Rival(NamedTuple):
    """The best of the other methods, picked by its mean after the fact."""

    method: str
    mean: float
    gain: float  # of the reference over it, positive where the reference is better
    error: float


def best_other(score: Score, reference: str, others: Sequence[str]) -> Rival:
    """Return the other method with the best mean, and how it compares over seeds."""
    means = score.by_seed.mean()
    best = str((score.sign * means[list(others)]).idxmax())
    gain, error = score.difference(reference)
    return Rival(best, means[best], score.sign * gain[best], error[best])


# ---- without any setting -------------------------------------------------------------------------


def defaults() -> str:
    """Both scores of each library's defaults; the best ones are bold."""
    methods = list(DEFAULTS)
    found = by_data("out_of_the_box", methods)

    def rows() -> Iterator[list[str]]:
        for name, (first, second, *_) in found.items():
            cells = []
            for method in methods:
                both = []
                for score in (first, second):
                    means = score.by_seed.mean()
                    is_best = method == (score.sign * means).idxmax()
                    both.append(f"**{plain(means[method])}**" if is_best else plain(means[method]))
                cells.append(" / ".join(both))
            yield [name, str(len(first.by_seed)), *cells]
        used = results("out_of_the_box").groupby("method")["seconds"].mean()
        yield ["processor seconds", "", *(seconds(used[method]) for method in methods)]

    return table(["data", "seeds", *map(_breakable, methods)], rows())


def _breakable(name: str) -> str:
    """Let a browser break the longest name, for a narrow column."""
    return name.replace("HistGradientBoosting", "Hist&shy;Gradient&shy;Boosting")


def default_ranks() -> str:
    """Mean ranks of the libraries' defaults by both scores."""
    methods = list(DEFAULTS)
    ranks = [mean_ranks("out_of_the_box", methods, place) for place in (0, 1)]
    titles = ("mean rank by area or explained variance", "by log loss or RMSE")
    rows = (
        [title, *(f"{values[method]:.1f}" for method in methods)]
        for title, values in zip(titles, ranks, strict=True)
    )
    return table(["", *map(_breakable, methods)], rows)


# ---- against tuned methods -----------------------------------------------------------------------


def tuned() -> str:
    """The search of fit with effort="thorough" against the tuned methods."""
    reference, shown = "auto thorough", OTHERS[:8]
    found = by_data("never_worse", [reference, *OTHERS])

    def rows() -> Iterator[list[str]]:
        for name, (score, *_) in found.items():
            rival, means = best_other(score, reference, OTHERS), score.by_seed.mean()
            yield [
                name,
                str(len(score.by_seed)),
                plain(means[reference]),
                rival.method,
                f"{rival.gain:+.4f} ± {rival.error:.4f}",
                *(plain(means[method]) for method in shown),
            ]
        used = results("never_worse").groupby("method")["seconds"].mean()
        by_method = [seconds(used[method]) for method in shown]
        yield ["processor seconds", "", seconds(used[reference]), "", "", *by_method]

    head = ["data", "seeds", "auto", "best of the others", "auto − best", *shown]
    return table(head, rows())


def tuned_summary() -> str:
    """Ranks, comparisons and seconds by effort."""
    shown = ("two-stage rounds", "category", "LightGBM category", "CatBoost category")
    head = ["effort", "mean rank of auto", *(f"of {name}" for name in shown)]
    head += ["better", "tied", "worse", "processor seconds"]
    used = results("never_worse").groupby("method")["seconds"].mean()

    def rows() -> Iterator[list[str]]:
        for effort, reference in (("thorough", "auto thorough"), ("balanced", "auto")):
            ranks = mean_ranks("never_worse", [reference, *OTHERS])
            counts = pd.Series(comparisons(reference)).value_counts()
            yield [
                f'`"{effort}"`',
                f"{ranks[reference]:.1f}",
                *(f"{ranks[name]:.1f}" for name in shown),
                *(str(counts.get(name, 0)) for name in ("better", "tied", "worse")),
                seconds(used[reference]),
            ]

    return table(head, rows())


def comparisons(reference: str) -> list[str]:
    """Return the verdict by two standard errors for each data set and other method."""
    found = []
    for score, *_ in by_data("never_worse", [reference, *OTHERS]).values():
        gain, error = score.difference(reference)
        found += [verdict(score.sign * gain[name], error[name]) for name in OTHERS]
    return found


def calibration() -> str:
    """Calibration error of probabilities, mean over tasks, of the search and of boosted peers."""
    return _against("never_worse", BOOSTED, ["calibration"], "calibration error")


def few_rows() -> str:
    """The search against other methods on 5 and 20 % of the training rows, by both scores."""
    metrics = ["auc", "explained", "logloss", "rmse"]
    return _against("never_worse_few_rows", FEW_ROWS, metrics, "score")


def random_effects() -> str:
    """The search against boosting with random intercepts."""
    methods, metrics = ["GPBoost"], ["auc", "explained", "logloss", "rmse"]
    return _against("never_worse", methods, metrics, "score")


class Comparison(NamedTuple):
    """The default search and the best other method of a data set, by one metric."""

    data: str
    metric: str
    n_seeds: int  # those that every method of the data set has
    mean: float
    rival: Rival

    @property
    def verdict(self) -> str:
        return verdict(self.rival.gain, self.rival.error)


def compared(file: str, others: Sequence[str], metrics: Sequence[str]) -> Iterator[Comparison]:
    """Compare the search with other methods on each data set that both have two seeds of."""
    for name, scores in by_data(file, ["auto", *others]).items():
        for score in scores:
            known = score.by_seed.dropna(axis=1, how="all").dropna()
            present = [method for method in others if method in known]
            is_known = "auto" in known and present and len(known) > 1
            if score.metric in metrics and is_known:
                rival = best_other(score._replace(by_seed=known), "auto", present)
                yield Comparison(name, score.metric, len(known), known["auto"].mean(), rival)


def _against(file: str, others: Sequence[str], metrics: Sequence[str], title: str) -> str:
    rows = (
        [
            each.data,
            METRICS[each.metric],
            str(each.n_seeds),
            plain(each.mean),
            *([each.rival.method] if len(others) > 1 else []),
            plain(each.rival.mean),
            f"{each.rival.gain:+.4f} ± {each.rival.error:.4f}",
            each.verdict,
        ]
        for each in compared(file, others, metrics)
    )
    names = ["best of the others", "its " + title] if len(others) > 1 else list(others)
    head = ["data", "metric", "seeds", "auto", *names, "gain of auto", "by two standard errors"]
    return table(head, rows)


# ---- README --------------------------------------------------------------------------------------


def summary() -> str:
    """The sentences of the README."""
    methods = list(DEFAULTS)
    area, loss = (mean_ranks("out_of_the_box", methods, place) for place in (0, 1))
    next_best = area[list(LIBRARIES)].min()
    auto, thorough = (
        mean_ranks("never_worse", [name, *OTHERS]) for name in ("auto", "auto thorough")
    )
    n_sets = len(by_data("never_worse", ["auto", *OTHERS]))
    counts = pd.Series(comparisons("auto")).value_counts()
    return (
        f"With nothing set, on {len(by_data('out_of_the_box', methods))} data sets, `fit` has a "
        f"mean rank of {area['mtboost']:.1f} among {len(methods)} (by log loss or RMSE "
        f"{loss['mtboost']:.1f}; the next library\n{next_best:.1f}). Against {len(OTHERS)} tuned "
        f"methods on School, Landmine and {n_sets - 2} generated sets of tasks it is "
        f'{auto["auto"]:.1f} (with `effort="thorough"`\n{thorough["auto thorough"]:.1f}; '
        f"the next best {thorough[list(OTHERS)].min():.1f}). By two standard errors it is better "
        f"in {counts['better']} of these {counts.sum()} comparisons and worse in "
        f"{counts.get('worse', 0)}.\n{_grouped()}\n{_losses()}"
    )


def _grouped() -> str:
    """A sentence on grouped tables."""
    means = gain_tables.grouped_means()
    n_worse = (means.lt(means["auto"], axis=0)).sum()
    return (
        f"On {len(means)} grouped tables of R packages, by which no default was chosen, its mean "
        f"rank is {means.rank(axis=1)['auto'].mean():.1f} among {means.shape[1]}: CatBoost's\n"
        f"defaults are ahead on {n_worse['CatBoost default']}, LightGBM's on "
        f"{n_worse['LightGBM default']}, tuned XGBoost with one-hot tasks on {n_worse['one-hot']}, "
        f"tuned linear models on {n_worse['linear']} (log loss or\nRMSE, three splits)."
    )


def _losses() -> str:
    """Sentences on what the search loses by other scores."""
    errors = list(compared("never_worse", BOOSTED, ["calibration"]))
    n_worse = sum(each.verdict == "worse" for each in errors)
    few = list(compared("never_worse_few_rows", FEW_ROWS, list(METRICS)[:4]))
    counts = pd.Series([each.verdict for each in few]).value_counts()
    return (
        f"With 5 or 20 % of the training rows (two or three seeds) it is tied with the best other "
        f"method in {counts.get('tied', 0)} of {len(few)} comparisons,\nbetter in "
        f"{counts.get('better', 0)} and worse in {counts.get('worse', 0)}. The calibration error "
        f"of its probabilities is larger than that of the best boosted method\non {n_worse} of "
        f"{len(errors)} sets with classes.\n"
    )


# ---- chart ---------------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, TOP, LINE = 860, 190, 40, 100, 24
BLUE, ORANGE, GREY = "#2a6fbb", "#c8641b", "#9a9a9a"


def chart() -> str:
    """Draw mtboost.fit and the best other method of each data set; the largest gain is on top."""
    methods = ["auto", *OTHERS]
    found = {name: scores[0] for name, scores in by_data("never_worse", methods).items()}
    rivals = {name: best_other(score, "auto", OTHERS) for name, score in found.items()}
    order = sorted(found, key=lambda name: -rivals[name].gain)
    bottom = TOP + LINE * len(order)

    def x(value: float) -> str:
        return f"{LEFT + (WIDTH - LEFT - RIGHT) * min(max(value, 0), 1):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 52}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13">',
        "<title>mtboost.fit and the best of ten tuned methods on eighteen data sets</title>",
        f'<rect width="{WIDTH}" height="{bottom + 52}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-weight="bold" font-size="15" fill="#222">'
        "mtboost.fit against ten tuned methods</text>",
    ]
    legend = (
        (LEFT, 48, "mtboost.fit, 2 standard errors of the difference", BLUE, True),
        (LEFT, 70, "best of the ten, picked afterwards", ORANGE, False),
        (LEFT + 310, 70, "pooled; one model per task", GREY, None),
    )
    for x_place, y_place, text, color, is_filled in legend:
        parts.append(_mark(f"{x_place + 6}", y_place, color, is_filled))
        parts.append(_text(x_place + 18, y_place + 4, text))
    for tick in np.arange(0, 1.01, 0.2):
        parts.append(
            f'<line x1="{x(tick)}" y1="{TOP - 8}" x2="{x(tick)}" y2="{bottom}" stroke="#e4e4e4"/>'
        )
        parts.append(_text(float(x(tick)), bottom + 18, f"{tick:.1f}", "middle"))
    for place, name in enumerate(order):
        y, rival, means = TOP + LINE * place + 6, rivals[name], found[name].by_seed.mean()
        ours = means["auto"]
        parts.append(_text(LEFT - 12, y + 4, name, "end"))
        parts += [_mark(x(means[other]), y, GREY, None) for other in ("pooled", "independent")]
        parts.append(
            f'<line x1="{x(rival.mean)}" y1="{y}" x2="{x(ours)}" y2="{y}" stroke="#444" '
            'stroke-width="2"/>'
        )
        ends = x(ours - 2 * rival.error), x(ours + 2 * rival.error)
        parts.append(
            f'<line x1="{ends[0]}" y1="{y}" x2="{ends[1]}" y2="{y}" stroke="{BLUE}" '
            'stroke-width="6" stroke-opacity="0.35"/>'
        )
        parts += [_mark(x(rival.mean), y, ORANGE, False), _mark(x(ours), y, BLUE, True)]
    axis = "explained variance, or area under the ROC curve (landmine, binary); below 0 drawn at 0"
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, bottom + 40, axis, "middle"))
    return "\n".join(parts) + "\n</svg>\n"


def _mark(x: str, y: float, color: str, is_filled: bool | None) -> str:
    if is_filled is None:
        return (
            f'<line x1="{x}" y1="{y - 5}" x2="{x}" y2="{y + 5}" stroke="{color}" stroke-width="2"/>'
        )
    fill = color if is_filled else "white"
    return f'<circle cx="{x}" cy="{y}" r="5" fill="{fill}" stroke="{color}" stroke-width="2"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="#333">{escape(text)}</text>'


# ---- badges --------------------------------------------------------------------------------------


def badges() -> str:
    """Draw what pyproject.toml says of the package: version, Python, host libraries, licence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    libraries = {"XGBoost": project["dependencies"], "LightGBM": extras["lightgbm"]}
    shown = {"mtboost": project["version"], "Python": f"{pythons[0]} to {pythons[-1]}"}
    for title, needed in libraries.items():
        found = re.search(rf"{title.lower()}>=([\d.]+)", " ".join(needed))
        assert found is not None
        shown[title] = f"{found[1]} or later"
    shown["licence"] = project["license"]
    parts, left = [], 0.0
    for title, value in shown.items():
        widths = [7.2 * len(text) + 14 for text in (title, value)]
        for place, (text, width) in enumerate(zip((title, value), widths, strict=True)):
            color = BLUE if place else "#444"
            parts += [
                f'<rect x="{left:g}" width="{width:g}" height="22" fill="{color}"/>',
                f'<text x="{left + width / 2:g}" y="15" text-anchor="middle">{escape(text)}</text>',
            ]
            left += width
        left += 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left - 8:g}" height="22" fill="white" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">'
    )
    return "\n".join([head, *parts]) + "\n</svg>\n"


# ---- pages ---------------------------------------------------------------------------------------

BLOCKS: dict[str, Callable[[], str]] = {
    make.__name__: make
    for make in (
        defaults,
        default_ranks,
        tuned,
        tuned_summary,
        summary,
        calibration,
        few_rows,
        random_effects,
        *method_tables.TABLES,
        *forest_tables.TABLES,
        *gain_tables.TABLES,
        *kind_tables.TABLES,
        *output_tables.TABLES,
        *split_tables.TABLES,
    )
}


def pages() -> Iterator[Path]:
    """Yield the pages with blocks."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if BLOCK.search(path.read_text("utf-8")):
            yield path


def written(text: str) -> str:
    """Return a page with its blocks written again."""
    return BLOCK.sub(lambda found: found[1] + found[2] + BLOCKS[found[1]](), text)


def main() -> None:
    """Write all pages, the chart and the badges."""
    for path in pages():
        path.write_text(written(path.read_text("utf-8")), "utf-8")
    CHART.write_text(chart(), "utf-8")
    BADGES.write_text(badges(), "utf-8")


if __name__ == "__main__":
    main()
