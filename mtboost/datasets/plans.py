# SPDX-License-Identifier: Apache-2.0
"""Fraud scenes: the sizes and columns of each scene, as in table 2 of zhang2019."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mtboost.base.checks import check_count, check_number
from mtboost.errors import ParameterError


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    kind: str
    n_categories: int = 0


def _columns(
    prefix: str, n_of_kind: Mapping[str, int], n_codes: Mapping[str, int]
) -> list[_Column]:
    """Columns kind by kind, numbered if there are several, then the categories."""
    numeric = [
        _Column(f"{prefix}{kind}_{number}" if n_columns > 1 else f"{prefix}{kind}", kind)
        for kind, n_columns in n_of_kind.items()
        for number in range(n_columns)
    ]
    return numeric + [_Column(f"{prefix}{name}", "category", n) for name, n in n_codes.items()]


@dataclass(frozen=True, slots=True)
class _TaskPlan:
    """Table 2's row of one task, and how its customers differ.

    ``spread`` scales all latent values: in a task of more uniform customers fewer rows reach the
    tails in which fraud can be recognised. ``missing`` is the range of the columns' missing rates.
    """

    n_negative: int
    n_positive: int
    n_columns: int
    spread: float
    missing: tuple[float, float]


@dataclass(frozen=True, slots=True)
class ScenePlan:
    """Tasks of a scene over one list of columns; each task has the first ``n_columns`` of them.

    ``log_odds_sd`` is the standard deviation of the shared concept over rows of all tasks in equal
    parts. It and the tasks' spreads set the difficulty: the Bayes AUC in docs/fraud_scenes.md.
    """

    columns: list[_Column]
    tasks: dict[str, _TaskPlan]
    log_odds_sd: float


SCENES = {
    "scene1": ScenePlan(
        columns=_columns(
            "",
            {"amount": 8, "usual_amount": 8, "count": 22, "days": 11, "share": 11}
            | {"behaviour": 14, "hour": 1},
            {"merchant_category": 40, "country": 30, "currency": 12, "device_type": 6}
            | {"channel": 5, "card_brand": 4},
        )
        + _columns(
            "payee_",
            {"amount": 12, "usual_amount": 12, "count": 34, "days": 15, "share": 20}
            | {"behaviour": 24},
            {"country": 30, "industry": 25, "region": 20, "size": 4},
        ),
        tasks={
            "task1": _TaskPlan(77_000, 2_296, 81, spread=1.0, missing=(0.02, 0.25)),
            "task2": _TaskPlan(25_000, 989, 202, spread=1.1, missing=(0.05, 0.35)),
        },
        log_odds_sd=4.1,
    ),
    "scene2": ScenePlan(
        columns=_columns(
            "",
            {"amount": 5, "usual_amount": 5, "count": 11, "days": 6, "share": 5}
            | {"behaviour": 7, "hour": 1},
            {"merchant_category": 40, "country": 30, "device_type": 6, "channel": 5},
        ),
        tasks={
            "task1": _TaskPlan(187_000, 4_709, 44, spread=1.0, missing=(0.02, 0.2)),
            "task2": _TaskPlan(968_000, 11_850, 44, spread=0.5, missing=(0.15, 0.45)),
        },
        log_odds_sd=1.85,
    ),
}


def plan_rows(plan: ScenePlan, scale: float, imbalance: float | None) -> dict[str, int]:
    """Rows of each task; ``imbalance`` resizes all but the largest."""
    n_rows = {name: float(task.n_negative + task.n_positive) for name, task in plan.tasks.items()}
    if imbalance is not None:
        imbalance = check_number("imbalance", imbalance, low=1.0)
        largest = max(n_rows, key=n_rows.__getitem__)
        n_rows = {
            name: n if name == largest else n_rows[largest] / imbalance
            for name, n in n_rows.items()
        }
    return {
        name: check_count(f"scale times the rows of {name}", np.rint(scale * n))
        for name, n in n_rows.items()
    }


def plan_rates(
    plan: ScenePlan, positive_rate: float | Mapping[str, float] | None
) -> dict[str, float]:
    """Expected share of positives of each task."""
    rates = {
        name: task.n_positive / (task.n_negative + task.n_positive)
        for name, task in plan.tasks.items()
    }
    if positive_rate is None:
        return rates
    wanted = (
        dict(positive_rate)
        if isinstance(positive_rate, Mapping)
        else dict.fromkeys(rates, positive_rate)
    )
    for name, rate in wanted.items():
        if name not in rates:
            raise ParameterError(
                f"positive_rate names {name!r}, but the tasks are {', '.join(rates)}."
            )
        wanted[name] = check_number(f"positive_rate of {name}", rate, low=0.0, high=1.0)
    return rates | wanted
