# SPDX-License-Identifier: Apache-2.0
"""Settings that :func:`mtboost.tune` tries: ranges by name, or a function of the trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from mtboost.base.checks import as_float, check_type, shown
from mtboost.errors import ParameterError
from mtboost.model.fitting import FIT_ARGUMENTS
from mtboost.model.inputs.arguments import is_zero
from mtboost.model.inputs.keywords import where_it_belongs
from mtboost.model.inputs.making_settings import AUTO_LEARNING_RATE, LEARNING_RATE
from mtboost.trees.backend import Backend

if TYPE_CHECKING:
    import optuna

Range: TypeAlias = tuple[Any, ...] | list[Any]
Space: TypeAlias = Mapping[str, Range | None] | Callable[["optuna.Trial"], Mapping[str, Any]]

# Those that say what is learnt, and from which rows: trials with others could not be compared.
_SAME_IN_ALL_TRIALS = {
    *("X", "y", "task", "weight", "base_margin", "feature_names", "common_features"),
    *("objective", "backend", "params", "specific_params", "eval_metric", "eval_set"),
    *("validation_fraction", "refit", "baselines", "callbacks", "on_round", "verbose"),
    *("intervals", "calibrate", "effort", "n_threads", "seed"),
}
# Those that trials cannot have, and why.
_NOT_OF_TRIALS = {
    "on_round": " It watches the trials by one, to give up those that are behind.",
    "init_model": " New rounds have the settings of the model that they continue, which cannot be "
    "searched: call update(X, y) of that model.",
}
_SPECIFIC = "specific_"
# What fit() does in two stages where the default of an argument is None.
_IF_NONE = {
    "split_score": "entropy",
    "task_splits": False,
    "symmetric_trees": False,
    "random_strength": 0.0,
    "unseen_at_random": False,
}

# Names of the libraries' parameters as the estimators have them. How many rounds is decided by the
# validation rows, and whether a specific model helps: neither is searched.
_DEFAULT_SPACE: dict[str, dict[str, Range]] = {
    "xgboost": {
        "max_depth": (2, 8),
        "learning_rate": (0.02, 0.3, "log"),
        "min_child_weight": (0.1, 30.0, "log"),
        "subsample": (0.5, 1.0),
        "colsample_bytree": (0.5, 1.0),
        "split_score": ["entropy", "variance", "plain"],
        "specific_max_depth": (1, 8),
    },
    "lightgbm": {
        "max_leaves": (4, 64, "log"),
        "learning_rate": (0.02, 0.3, "log"),
        "min_child_samples": (5, 100, "log"),
        "subsample": (0.5, 1.0),
        "colsample_bytree": (0.5, 1.0),
        "split_score": ["entropy", "variance", "plain"],
        "specific_max_leaves": (2, 64, "log"),
    },
}
# Of these, what strategy="auto" finds itself, or (the learning rate) has a different default for.
_FOUND_BY_AUTO = {
    *("max_depth", "max_leaves", "learning_rate", "subsample", "split_score"),
    *("specific_max_depth", "specific_max_leaves"),
}


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """Settings that a trial may choose, made by :func:`make_space`.

    A name is that of an argument of :func:`mtboost.fit`, of a parameter of the library, or with
    ``specific_`` before it of a parameter of the specific models.

    Attributes
    ----------
    library : Backend
    fixed : mapping of str to object
        Arguments of fit() that all trials have.
    ranges : mapping of name to range, or callable
        Or a function of the trial that returns a mapping of name to value.
    """

    library: Backend
    fixed: Mapping[str, Any]
    ranges: Mapping[str, Range] | Callable[[optuna.Trial], Mapping[str, Any]]

    def values(self, trial: Any) -> dict[str, Any]:
        """The settings of a trial by name."""
        if not callable(self.ranges):
            return {name: _suggest(trial, name, own) for name, own in self.ranges.items()}
        found = self.ranges(trial)
        if not isinstance(found, Mapping):
            raise TypeError(
                f"space(trial) returned a {type(found).__name__}: it must be a mapping of names to "
                f"values."
            )
        return dict(found)

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of fit() for these settings.

        Raises
        ------
        TypeError, ParameterError
            A name is unknown, or something that all trials have.
        """
        given = self.given()
        parts: dict[str, dict[str, Any]] = {"": {}, "params": {}, "specific_params": {}}
        for name, value in values.items():
            part, main = self.place(name)
            if (part, main) in given:
                where = f"{name}=" if part == "" else f"{part}={{{main!r}: ...}}"
                raise ParameterError(
                    f"space has {name!r}, and tune() got {where}: leave one of them out."
                )
            own = name.removeprefix(_SPECIFIC) if part == "specific_params" else name
            parts[part][own] = value
        named = {
            part: self.library.named_parameters(parts[part], self.fixed.get(part) or {})
            for part in ("params", "specific_params")
        }
        return {**self.fixed, **parts[""], **named}

    def place(self, name: str) -> tuple[str, str]:
        """The argument of fit() that holds a setting, "" if it is one, and its main name."""
        check_type("a name in space", name, str, "a str")
        if name in _SAME_IN_ALL_TRIALS:
            raise ParameterError(
                f"space has {name!r}, which must be the same in all trials: pass it to tune()."
            )
        if name in FIT_ARGUMENTS:
            return "", name
        if name.startswith(_SPECIFIC):
            own, where = name.removeprefix(_SPECIFIC), f"space, after {_SPECIFIC!r},"
            return "specific_params", self._main_name(own, where)
        return "params", self._main_name(name, "space")

    def start(self) -> dict[str, Any]:
        """Return the defaults of fit() for all settings whose default is in the range."""
        if callable(self.ranges):
            return {}
        library, given, found = self.library, self.given(), {}
        known = {**library.searched_parameters, **library.leaf_parameters, **library.default_size}
        known["learning_rate"] = LEARNING_RATE
        for name, own in self.ranges.items():
            part, main = self.place(name)
            value: object = known.get(main)
            if part == "":
                value = FIT_ARGUMENTS[name]
                if value is None and not _contains(own, None):
                    value = _IF_NONE.get(name)
            if part == "specific_params":  # as the common model, whose value may be given
                value = given.get(("params", main), value)
            if _contains(own, value):
                found[name] = value
        return found

    def learning_rate(self, arguments: Mapping[str, Any]) -> float:
        """Return the learning rate of the common model."""
        params = self.library.parameters(arguments["params"])
        default = AUTO_LEARNING_RATE if arguments["strategy"] == "auto" else LEARNING_RATE
        return float(params.get("learning_rate", default))

    def given(self) -> dict[tuple[str, str], Any]:
        """Return the settings of all trials, by their place."""
        given = {("", name): value for name, value in self.fixed.items()}
        for part in ("params", "specific_params"):
            own = self.library.parameters(self.fixed.get(part) or {}, part)
            given |= {(part, name): value for name, value in own.items()}
        return given

    def _main_name(self, name: str, argument: str) -> str:
        named = self.library.named_parameters({name: None}, {})
        searched = FIT_ARGUMENTS.keys() - _SAME_IN_ALL_TRIALS
        main = self.library.parameters(
            named, argument, elsewhere=self.library.arguments, others=searched
        )
        return next(iter(main))  # others are set beside it, as the frequency of LightGBM's bags


def make_space(library: Backend, given: Space | None, fixed: Mapping[str, Any]) -> SearchSpace:
    """Search space of the default and of what the user gave.

    A mapping replaces settings of the default space, adds to it, and by None takes away; a function
    replaces all of it. Settings that are fixed are not searched by default.

    Raises
    ------
    TypeError, ParameterError
        A name is unknown or cannot be searched, a range is none, or nothing is left to search.
    """
    if callable(given):
        return SearchSpace(library, fixed, given)
    if not isinstance(given, Mapping | None):
        raise TypeError(
            f"space is a {type(given).__name__}: it must be a mapping of names to ranges, or a "
            f"function of an optuna.Trial."
        )
    empty = SearchSpace(library, fixed, {})
    taken = empty.given().keys()
    has_no_specific = is_zero(fixed.get("specific_rounds")) or fixed.get("validation") == "tasks"
    by_place = {
        place: (name, own)
        for name, own in _DEFAULT_SPACE[library.name].items()
        if (place := empty.place(name)) not in taken
        and not (fixed["strategy"] == "auto" and name in _FOUND_BY_AUTO)
        and not (place[0] == "specific_params" and has_no_specific)
    }
    for name, own in (given or {}).items():
        place = empty.place(name)
        by_place.pop(place, None)
        if own is not None:
            _check_range(name, own)
            by_place[place] = name, own
    space = SearchSpace(library, fixed, dict(by_place.values()))
    if not by_place:
        raise ParameterError("space is empty: there is nothing to search.")
    space.arguments(dict.fromkeys(name for name, _ in by_place.values()))
    return space


def check_fit_arguments(given: Mapping[str, Any], of_tune: Collection[str] = ()) -> None:
    """Demand names of arguments that tune() hands on to fit(); `of_tune` are its other ones."""
    for name in given:
        if name in _NOT_OF_TRIALS or name not in FIT_ARGUMENTS:
            hint = _NOT_OF_TRIALS.get(name) or where_it_belongs(
                name, given, [*of_tune, *FIT_ARGUMENTS]
            )
            raise TypeError(f"tune() got an unknown argument {name!r}.{hint}")


def _check_range(name: str, given: object) -> None:
    plain = (bool, int, float, str, type(None))
    if isinstance(given, list) and given and all(isinstance(each, plain) for each in given):
        return
    if isinstance(given, tuple) and given[2:] in ((), ("log",)) and len(given) >= 2:
        low, high = given[:2]
        are_numbers = all(isinstance(end, int | float) for end in (low, high))
        # Optuna draws float64 numbers, and cannot where the width of the range overflows.
        is_range = are_numbers and low < high and as_float(high) - as_float(low) < math.inf
        if is_range and (len(given) == 2 or low > 0):
            return
    raise ParameterError(
        f"space[{name!r}] is {shown(given)}: it must be a tuple (low, high) or (low, high, 'log') "
        f"of finite numbers, low < high and for 'log' above 0, or a list of numbers, strings, "
        f"booleans or None."
    )


def _suggest(trial: Any, name: str, own: Range) -> Any:
    if isinstance(own, list):
        return trial.suggest_categorical(name, own)
    low, high = own[:2]
    kind = trial.suggest_int if _are_integers(own) else trial.suggest_float
    return kind(name, low, high, log=len(own) == 3)


def _contains(own: Range, value: object) -> bool:
    if isinstance(own, list):
        return value in own
    is_number = isinstance(value, int) or (isinstance(value, float) and not _are_integers(own))
    return is_number and bool(own[0] <= value <= own[1])


def _are_integers(own: Range) -> bool:
    return all(isinstance(end, int) for end in own[:2])
