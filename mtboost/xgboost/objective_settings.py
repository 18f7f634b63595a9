# SPDX-License-Identifier: Apache-2.0
"""Objectives of boosters, as XGBoost's configurations and documents describe them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xgboost

from mtboost.base.checks import refuse

#: Those of survival:aft.
OF_TIMES = ("aft_loss_distribution", "aft_loss_distribution_scale")
RANKING_SWITCHES = (
    "lambdarank_normalization",
    "lambdarank_score_normalization",
    "ndcg_exp_gain",
)
_NO_NUMBER_OF_PAIRS = 2**32 - 1  # how a configuration says that none is given
#: Those that a loss of the core takes, and how they are read.
LOSS_OPTIONS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        ("scale_pos_weight", "huber_slope", "max_delta_step", "tweedie_variance_power"), float
    ),
    "aft_loss_distribution": str,
    "aft_loss_distribution_scale": float,
    "lambdarank_num_pair_per_sample": lambda number: _n_pairs(int(number)),
    **dict.fromkeys(RANKING_SWITCHES, lambda value: str(value).lower() in ("true", "1")),
}


@dataclass(frozen=True, slots=True)
class ObjectiveSettings:
    """Objective of a booster."""

    name: str
    options: dict[str, Any]
    n_classes: int  # 0: labels are no classes
    estimates_start: bool  # the parameters have no base_score


def read_objective(booster: xgboost.Booster) -> ObjectiveSettings:
    """Read what a booster is trained for."""
    learner = json.loads(booster.save_config())["learner"]
    model = learner["learner_model_param"]
    name, options = objective_of(learner)
    return ObjectiveSettings(
        name, options, int(model["num_class"]), model["boost_from_average"] == "1"
    )


def _n_pairs(number: int) -> int:
    """Positions of a query whose pairs count."""
    return 32 if number == _NO_NUMBER_OF_PAIRS else number


def objective_of(learner: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name and the options of the objective in a configuration."""
    objective = dict(learner["objective"])
    name = objective.pop("name")
    given = {key: value for group in objective.values() for key, value in group.items()}
    options = {key: LOSS_OPTIONS[key](value) for key, value in given.items() if key in LOSS_OPTIONS}
    if "quantile_alpha" in given:
        options["quantile_alpha"] = tuple(json.loads(given["quantile_alpha"]))
    return name, options


def read_levels(given: Any, argument: str) -> float | list[float]:
    """Return the levels in ``quantile_alpha``: a number, or a list or text of numbers."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
        levels = [*map(float, np.atleast_1d(np.asarray(found, np.float64)).ravel())]
    except (TypeError, ValueError):
        levels = []
    if not levels or not all(0.0 < level < 1.0 for level in levels):
        refuse(
            f"{argument}['quantile_alpha']", given, "a number between 0 and 1, or a list of them"
        )
    return levels[0] if len(levels) == 1 else levels


@cache
def objective_document(name: str, options: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """Return the entry of a model document for an objective with these parameters."""
    matrix = xgboost.DMatrix(np.zeros((1, 1)), label=[1])
    params = {"objective": name, **dict(options), "verbosity": 0}
    booster = xgboost.Booster(params, cache=[matrix])
    found: dict[str, Any] = json.loads(booster.save_config())["learner"]["objective"]
    return found
