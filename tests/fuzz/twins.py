# SPDX-License-Identifier: Apache-2.0
"""The fast code and its slow twins, on random problems that no test has seen.

Runs the property tests of tests/oracle, tests/property and tests/parity that draw a problem, by
Hypothesis or by a parameter ``seed``, on one new problem per case. Their twins are the naive
implementations, and XGBoost and LightGBM themselves.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import threadpoolctl
from fuzz.protocol import Case, SkipCase
from hypothesis import strategies

TIME_LIMIT = 120.0
TEST_CALLS = 30

_FOLDERS = ("oracle", "parity", "property")
_TESTS = Path(__file__).parents[1]
_MAX_BYTES = 4096  # that a problem is drawn from

hypothesis.settings.register_profile("fuzz", database=None)


@dataclass(frozen=True, slots=True)
class _Property:
    """A test with its parameters, as a function of a seed."""

    name: str
    run: Callable[[int], object]


def case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    test = _tests()[rng.integers(len(_tests()))]
    found = test[rng.integers(len(test))]

    def run() -> None:
        with threadpoolctl.threadpool_limits(1, "openmp"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.run(int(rng.integers(2**31)))

    return Case(run, found.name)


@functools.cache
def _tests() -> list[list[_Property]]:
    """Of each test, a property for each set of its parameters."""
    hypothesis.settings.load_profile("fuzz")  # of tests that are imported from here on
    found = []
    for folder in _FOLDERS:
        for path in sorted((_TESTS / folder).glob("test_*.py")):
            module = importlib.import_module(f"{folder}.{path.stem}")
            for name, test in inspect.getmembers(module, inspect.isfunction):
                if name.startswith("test_") and test.__module__ == module.__name__:
                    found.append(_of_test(f"{folder}/{path.name}::{name}", test))
    return [properties for properties in found if properties]


def _of_test(name: str, test: Callable[..., Any]) -> list[_Property]:
    """A property for each set of parameters, if the test draws its problems; else none."""
    handle = getattr(test, "hypothesis", None)
    is_drawn = handle is not None
    parameters = _parameters(test)
    is_seeded = any("seed" in names for names, _ in parameters)
    known = {name for names, _ in parameters for name in names}
    arguments = inspect.signature(test).parameters.values()
    wanted = {each.name for each in arguments if each.kind is not each.VAR_KEYWORD}
    if not (is_drawn or is_seeded) or wanted != known:  # what is not known is a fixture
        return []
    properties = []
    choices = [
        [dict(zip(names, values, strict=True)) for values in rows]
        for names, rows in parameters
        if names != ("seed",)
    ]
    for chosen in itertools.product(*choices):
        given = functools.reduce(lambda a, b: a | b, chosen, {})
        text = f"{name}[{', '.join(f'{k}={v!r}'[:60] for k, v in given.items())}]"
        if is_drawn:
            run = functools.partial(_run_drawn, _fuzz_target(handle, given))
        else:
            run = functools.partial(_run_seeded, test, given)
        properties.append(_Property(text, run))
    return properties


def _parameters(test: Callable[..., Any]) -> list[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """Names and values of each ``pytest.mark.parametrize``."""
    found = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name != "parametrize":
            continue
        names = mark.args[0]
        if isinstance(names, str):
            names = tuple(name.strip() for name in names.split(","))
        rows = []
        for row in mark.args[1]:
            values = row.values if isinstance(row, type(pytest.param())) else row
            if len(names) == 1 and values is row:
                values = (row,)
            rows.append(tuple(values))
        found.append((tuple(names), rows))
    return found


def _fuzz_target(handle: Any, given: dict[str, Any]) -> Callable[[bytes], bytes | None]:
    """Hypothesis' own way to run one example, with the parameters filled in."""
    fixed = {name: strategies.just(value) for name, value in given.items()}
    # Hypothesis has no public name for the strategies of a test.
    test = hypothesis.given(**handle._given_kwargs, **fixed)(handle.inner_test)
    return test.hypothesis.fuzz_one_input


def _run_drawn(fuzz_one_input: Callable[[bytes], bytes | None], seed: int) -> None:
    if fuzz_one_input(np.random.default_rng(seed).bytes(_MAX_BYTES)) is None:
        raise SkipCase


def _run_seeded(test: Callable[..., Any], given: dict[str, Any], seed: int) -> None:
    test(seed=seed, **given)
