# SPDX-License-Identifier: Apache-2.0
"""Task labels of any kind become names and codes, or one clear error."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtboost.base.tasks import TaskSet, as_tasks
from mtboost.errors import DataError, ParameterError

LABELS = st.one_of(
    st.lists(st.integers(-5, 5), min_size=1, max_size=40),
    st.lists(st.integers(), min_size=1, max_size=10),  # beyond 64 bits too
    st.lists(st.text(max_size=3), min_size=1, max_size=40),
    st.lists(st.booleans(), min_size=1, max_size=10),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(labels=LABELS)
def test_names_are_the_sorted_labels_and_codes_give_each_row_its_label_back(labels):
    tasks = TaskSet.from_labels(labels, len(labels))
    assert list(tasks.names) == sorted(set(labels))
    assert {type(name) for name in tasks} == {type(labels[0])}
    assert [tasks.names[code] for code in tasks.codes] == labels
    assert tasks.codes.dtype == np.int32


@settings(max_examples=100, deadline=None, derandomize=True)
@given(labels=LABELS)
def test_the_rows_of_all_tasks_are_all_rows(labels):
    tasks = TaskSet.from_labels(labels, len(labels))
    assert len(tasks) == tasks.n_tasks == len(tasks.counts)
    for name, count in zip(tasks, tasks.counts, strict=True):
        assert tasks.rows(name).tolist() == [row for row, x in enumerate(labels) if x == name]
        assert len(tasks.rows(name)) == count


@settings(max_examples=100, deadline=None, derandomize=True)
@given(labels=LABELS)
def test_encoding_the_same_labels_again_gives_the_same_codes(labels):
    tasks = TaskSet.from_labels(labels, len(labels))
    np.testing.assert_array_equal(tasks.encode(labels, len(labels)), tasks.codes)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("spread", ["all of the type", "few"])
def test_an_array_of_integers_is_read_as_the_list_of_them(dtype, spread):
    limits = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    low, high = (limits.min, limits.max) if spread != "few" else (limits.max - 9, limits.max)
    labels = rng.integers(low, high, 100, dtype=dtype, endpoint=True)
    tasks, expected = (TaskSet.from_labels(x, 100) for x in (labels, labels.tolist()))
    assert tasks.names == expected.names
    assert {type(name) for name in tasks} == {int}
    np.testing.assert_array_equal(tasks.codes, expected.codes)


TEXT = ["b", "a", "b", "c"]
WHOLE = [3, 1, 3, 2]
CODES = {("a", "b", "c"): [1, 0, 1, 2], (1, 2, 3): [2, 0, 2, 1], (False, True): [1, 0, 1, 0]}


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (tuple(TEXT), ("a", "b", "c")),
        (np.array(TEXT), ("a", "b", "c")),
        (np.array(TEXT, dtype=object), ("a", "b", "c")),
        (np.array(TEXT)[:, None], ("a", "b", "c")),
        (np.array(TEXT, dtype=np.dtypes.StringDType()), ("a", "b", "c")),
        ([np.str_(label) for label in TEXT], ("a", "b", "c")),
        (pd.Series(TEXT, index=[9, 9, 9, 9]), ("a", "b", "c")),
        (pd.Series(TEXT, dtype="category"), ("a", "b", "c")),
        (pd.Categorical(TEXT, categories=["unused", "c", "b", "a"]), ("a", "b", "c")),
        (pd.DataFrame({"task": TEXT}), ("a", "b", "c")),
        (pl.Series(TEXT), ("a", "b", "c")),
        (pl.Series(TEXT, dtype=pl.Categorical), ("a", "b", "c")),
        (pl.Series(TEXT, dtype=pl.Enum(["c", "b", "a", "unused"])), ("a", "b", "c")),
        (pa.array(TEXT), ("a", "b", "c")),
        (pa.array(TEXT).dictionary_encode(), ("a", "b", "c")),
        (pa.chunked_array([TEXT[:1], TEXT[1:]]), ("a", "b", "c")),
        (np.array(WHOLE, dtype=np.uint8), (1, 2, 3)),
        (np.array(WHOLE, dtype=">i4"), (1, 2, 3)),
        (np.array(WHOLE, dtype=float), (1, 2, 3)),
        ([3.0, 1, 3, np.float32(2)], (1, 2, 3)),
        ([np.int64(label) for label in WHOLE], (1, 2, 3)),
        (np.repeat(WHOLE, 2)[::2], (1, 2, 3)),
        (pd.Series(WHOLE, dtype="Int64"), (1, 2, 3)),
        (pd.Series(WHOLE, dtype="category"), (1, 2, 3)),
        (pl.Series(WHOLE), (1, 2, 3)),
        (pa.array(WHOLE), (1, 2, 3)),
        (np.array([True, False, True, False]), (False, True)),
        (pl.Series([True, False, True, False]), (False, True)),
    ],
)
def test_every_container_gives_names_of_python_types(labels, names):
    tasks = TaskSet.from_labels(labels, 4)
    assert tasks.names == names
    assert [type(name) for name in tasks] == [type(name) for name in names]
    assert tasks.codes.tolist() == CODES[names]


def test_a_read_only_array_is_accepted_and_the_codes_are_read_only():
    labels = np.array(WHOLE)
    labels.setflags(write=False)
    tasks = TaskSet.from_labels(labels, 4)
    for array in (tasks.codes, tasks.counts, tasks.rows(3)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_one_task_and_no_task_are_ordinary():
    assert TaskSet.from_labels(["x", "x"], 2).names == ("x",)
    tasks = TaskSet.from_labels(None, 3)
    assert tasks.names == ("all",)
    assert tasks.rows("all").tolist() == [0, 1, 2]
    assert tasks.encode(None, 2).tolist() == [0, 0]


@pytest.mark.parametrize(
    "labels",
    [
        ["a", "b", None, "c"],
        ["a", "b", float("nan"), "c"],
        [1.0, 2.0, float("nan"), 3.0],
        [True, False, None, True],
        np.array([1.0, 2.0, np.nan, 3.0]),
        np.ma.array([1, 2, 9, 3], mask=[0, 0, 1, 0]),
        pd.Series(["a", "b", None, "c"]),
        pd.Series(["a", "b", None, "c"], dtype="category"),
        pd.Series([1, 2, None, 3], dtype="Int64"),
        pd.Series([True, False, None, True], dtype="boolean"),
        pl.Series(["a", "b", None, "c"]),
        pl.Series([1, 2, None, 3]),
        pa.array(["a", "b", None, "c"]),
        pa.array([1, 2, None, 3]),
        pa.array(["a", "b", None, "c"]).dictionary_encode(),
        pa.table({"task": pa.array(["a", "b", None, "c"]).dictionary_encode()}),
    ],
)
def test_a_missing_label_is_refused_with_its_row(labels):
    with pytest.raises(DataError, match="no label at row 2"):
        TaskSet.from_labels(labels, 4)


def test_labels_of_several_types_are_refused_with_a_row_of_each():
    with pytest.raises(DataError, match=r"found int \(row 0: 1\) and str \(row 2: 'a'\)"):
        TaskSet.from_labels([1, 2, "a"], 3)
    with pytest.raises(DataError, match=r"found bool \(row 0: True\) and int \(row 1: 1\)"):
        TaskSet.from_labels([True, 1], 2)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, 2.5], "2.5 at row 1 is not a whole number"),
        ([1.0, float("inf")], "inf at row 1 is not a whole number"),
        ([b"a", b"b"], "found bytes"),
        (np.array([b"a", b"b"]), r"dtype \|S1"),
        (np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"), "datetime64"),
        (np.zeros((2, 2)), r"found ndarray of shape \(2, 2\)"),
        ("scene", "found str"),
        ([["a"], ["b"]], "found list"),
        (["a"], "task has 1 labels, but X has 2 rows"),
        ([], "task has 0 labels, but X has 2 rows"),
    ],
)
def test_what_is_no_label_a_row_is_refused(labels, message):
    with pytest.raises(DataError, match=message):
        TaskSet.from_labels(labels, 2)


@pytest.mark.parametrize("labels", [None, 3, np.array(3), (name for name in "ab")])
def test_what_has_no_length_is_refused(labels):
    with pytest.raises(DataError, match=f"one label a row, found {type(labels).__name__} of shape"):
        as_tasks(labels)


def test_an_unknown_task_is_refused_with_the_known_ones_and_the_nearest():
    tasks = TaskSet.from_labels(["scene1", "scene2"], 2)
    with pytest.raises(DataError) as caught:
        tasks.encode(["scene2", "sceen1"], 2)
    message = str(caught.value)
    assert "'sceen1' at row 1 is unknown" in message
    assert "tasks 'scene1', 'scene2'. Did you mean 'scene1'?" in message
    for call in (tasks.code, tasks.rows):
        with pytest.raises(DataError, match=r"task 'scene3' is unknown\. Known: tasks 'scene1'"):
            call("scene3")
    assert "scene3" not in tasks


@pytest.mark.parametrize("unknown", ["error", "keep", "group"])
def test_a_number_in_quotes_is_a_mistake(unknown):
    tasks = TaskSet.from_labels([3, 4], 2)
    with pytest.raises(DataError, match="label '3' is unknown, but there is a task 3: convert"):
        tasks.encode(["3", "9"], 2, unknown=unknown)
    nested = TaskSet.from_labels([("n", 3), ("s", 4)], 2)
    with pytest.raises(DataError, match=r"there is a task \('s', 4\): .* str, str, to str, int"):
        nested.encode([("n", "9"), ("s", "4")], 2, unknown=unknown)
    if unknown != "error":
        assert tasks.encode(["new", "9"], 2, unknown=unknown).tolist() == [-1, -1]


def test_at_most_ten_of_many_known_tasks_are_listed():
    tasks = TaskSet.from_labels(range(1000), 1000)
    with pytest.raises(
        DataError, match=r"tasks 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\. \(1000 in all\)"
    ):
        tasks.encode([-7], 1)


def test_unknown_tasks_are_kept_as_minus_one_on_request():
    tasks = TaskSet.from_labels(["a", "b"], 2)
    assert tasks.encode(["z", "b", "a"], 3, unknown="keep").tolist() == [-1, 1, 0]
    with pytest.raises(ParameterError, match="unknown is 'ignore'"):
        tasks.encode(["a"], 1, unknown="ignore")


def test_labels_to_predict_for_are_checked_as_those_to_fit():
    tasks = TaskSet.from_labels(["a", "b"], 2)
    with pytest.raises(DataError, match="no label at row 1"):
        tasks.encode(["a", None], 2, unknown="keep")
    with pytest.raises(DataError, match="task has 1 labels, but X has 2 rows"):
        tasks.encode(["a"], 2)
    with pytest.raises(DataError, match="task is missing"):
        tasks.encode(None, 2)
    assert tasks.encode([], 0).tolist() == []


NESTED = [("b", 2), ("a", 1), ("b", 2), ("b", 1)]


@pytest.mark.parametrize(
    "labels",
    [
        NESTED,
        tuple(NESTED),
        pd.Series(NESTED),
        pd.MultiIndex.from_tuples(NESTED),
        [(region, float(store)) for region, store in NESTED],
        [(np.str_(region), np.int64(store)) for region, store in NESTED],
    ],
)
def test_tuples_name_nested_tasks(labels):
    tasks = TaskSet.from_labels(labels, 4)
    assert tasks.names == (("a", 1), ("b", 1), ("b", 2))
    assert {tuple(map(type, name)) for name in tasks} == {(str, int)}
    assert tasks.codes.tolist() == [2, 0, 2, 1]
    assert tasks.n_levels == 2
    assert tasks.encode([("b", 1), ("b", 9), ("z", 1)], 3, unknown="keep").tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([("a", 1), ("b",)], r"\('b',\) at row 1 has 1 levels"),
        ([("a",), ("b",)], "at row 0 has 1 levels"),
        ([("a", 1), ("b", None)], "no label at row 1"),
        ([("a", 1), ("b", "x")], r"found int \(row 0: 1\) and str \(row 1: 'x'\)"),
        ([("a", 1), "b"], "found tuple .* and str"),
        ([("a", ("b", 1)), ("a", 2)], "labels of nested tasks must be"),
        ([("a", ("b", 1)), ("a", ("c", 1))], "labels of nested tasks must be"),
    ],
)
def test_labels_that_are_not_tuples_of_labels_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        TaskSet.from_labels(labels, 2)
