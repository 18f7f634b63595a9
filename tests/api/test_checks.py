# SPDX-License-Identifier: Apache-2.0
"""Values of parameters are read as what they mean, or refused by name, range and what was found."""

import fractions

import numpy as np
import pytest

from mtboost.base.checks import (
    LARGEST_COUNT,
    check_choice,
    check_count,
    check_number,
    check_seed,
    check_switch,
    check_verbose,
    did_you_mean,
    shown,
)
from mtboost.errors import ParameterError

NO_NUMBERS = ["3", None, True, np.True_, 1j, [3], np.array([3]), np.array(3)]
NO_NUMBERS += [np.datetime64("NaT", "s")]


@pytest.mark.parametrize("value", [3, np.int8(3), np.uint64(3), 3.0, np.float32(3)])
def test_a_whole_number_of_any_type_is_a_count(value):
    found = check_count("n", value, low=3, high=3)
    assert (type(found), found) == (int, 3)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 3.5, np.nan, np.inf, -np.inf])
def test_what_is_no_whole_number_is_no_count(value):
    with pytest.raises(
        ParameterError, match="^n must be None or an integer >= 1, found "
    ) as caught:
        check_count("n", value, low=1, besides="None")
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "n must be an integer >= 0, found -1"),
        (LARGEST_COUNT + 1, "n must be an integer from 0 to 2147483647, found 2147483648"),
        (1e308, "n must be an integer >= 0, found 1e[+]308"),
        (10**400, "n must be an integer from 0 to 2147483647, found 1000.*[.][.][.][.]$"),
        (10**5000, "n must be .*, found a value of type int"),
        (-(10**400), "n must be an integer >= 0, found -1000"),
    ],
    ids=shown,
)
def test_a_count_out_of_range_is_refused(value, message):
    with pytest.raises(ParameterError, match=message) as caught:
        check_count("n", value)
    assert not isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "value", [0.25, np.float16(0.25), np.longdouble(0.25), fractions.Fraction(1, 4)]
)
def test_a_real_number_of_any_type_is_a_number(value):
    found = check_number("x", value, low=0.25, high=0.25)
    assert (type(found), found) == (float, 0.25)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_is_no_real_number_is_no_number(value):
    with pytest.raises(TypeError, match="^x must be a finite number, found "):
        check_number("x", value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, np.float32("nan"), 10**400])
def test_a_number_must_be_finite(value):
    with pytest.raises(ParameterError, match="^x must be a finite number, found "):
        check_number("x", value)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside", "text"),
    [
        ({"low": 0, "high": 1}, [0, 1], [-1e-9, 1.1], r" in \[0, 1\]"),
        ({"above": 0, "below": 1}, [1e-300, 0.9], [0, 1], r" in \(0, 1\)"),
        ({"low": 0, "below": 1}, [0, 0.9], [-1, 1], r" in \[0, 1\)"),
        ({"above": 0, "high": 1}, [1e-9, 1], [0, 2], r" in \(0, 1\]"),
        ({"low": 2}, [2, 1e308], [1.9], " >= 2"),
        ({"above": 2}, [2.1], [2], " > 2"),
    ],
)
def test_bounds_of_a_number_belong_to_it_or_not(bounds, inside, outside, text):
    for value in inside:
        assert check_number("x", value, **bounds) == value
    for value in outside:
        with pytest.raises(
            ParameterError, match=f"^x must be a finite number{text}, found {value}"
        ):
            check_number("x", value, **bounds)


def test_a_seed_has_so_many_bits():
    assert check_seed(2**64 - 1, bits=64) == 2**64 - 1
    for value in (-1, 2**64):
        with pytest.raises(
            ParameterError, match=f"^random_state must be an integer .*found {value}"
        ):
            check_seed(value, name="random_state", bits=64)


def test_a_choice_is_one_of_the_names():
    assert check_choice("kind", "plain", ("plain", "entropy")) == "plain"
    with pytest.raises(
        ParameterError, match="^kind must be None, 'plain' or 'entropy', found 'x'.$"
    ):
        check_choice("kind", "x", ("plain", "entropy"), besides="None")
    with pytest.raises(ParameterError, match="found 'plan'. Did you mean 'plain'"):
        check_choice("kind", "plan", ("plain", "entropy"))
    for value in (np.array(["plain", "entropy"]), ["plain"], None, 3):
        with pytest.raises(TypeError, match="^kind must be 'plain' or 'entropy', found "):
            check_choice("kind", value, ("plain", "entropy"))


def test_a_switch_is_true_or_false():
    assert [check_switch("s", value) for value in (True, np.False_, 1, 0)] == [
        True,
        False,
        True,
        False,
    ]
    for value in ("no", None, 2, 0.0, np.array([True])):
        with pytest.raises(TypeError, match="^s must be True or False, found "):
            check_switch("s", value)


def test_verbose_is_a_switch_or_a_number_of_rounds():
    assert [check_verbose(value) for value in (False, True, 0, 7)] == [0, 1, 0, 7]
    for value in (-1, "yes", None, np.nan):
        with pytest.raises(ParameterError, match="^verbose must be True or False or an integer"):
            check_verbose(value)


def test_what_was_found_is_shown_on_one_short_line():
    class Faulty:
        def __repr__(self):
            raise ZeroDivisionError

    assert shown(np.float32(0.5)) == "0.5"
    assert shown(np.zeros((50, 50))).count("\n") == 0
    assert len(shown("x" * 1000)) == 80
    assert shown(Faulty()) == "a value of type Faulty"


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("chanel", ["country", "channel"], "channel"),
        ("max_dept", ["max_depth"], "max_depth"),
        ("p", ["pp", "q"], "pp"),
        (1, ["1", "2"], "1"),
        ("amount", ["country", "currency", "count"], None),
        ("x", [], None),
    ],
)
def test_only_a_near_name_is_offered(word, known, meant):
    assert did_you_mean(word, known) == ("" if meant is None else f" Did you mean {meant!r}?")
