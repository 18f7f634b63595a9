# SPDX-License-Identifier: Apache-2.0
"""Model documents in UBJSON: what is read is XGBoost's own JSON, what is written XGBoost reads."""

import numpy as np
import pandas as pd
import pytest
import ubjson_twin
import xgboost
from model_documents import document as json_document
from numpy.testing import assert_array_equal

from mtboost.base.checked_tables import as_table
from mtboost.errors import ModelFormatError
from mtboost.xgboost.assemble import load_document, read_document
from mtboost.xgboost.library import check_readable
from mtboost.xgboost.ubjson import decode, encode

RNG = np.random.default_rng(4)
X = RNG.normal(size=(300, 5)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
Y = np.nan_to_num(X[:, 0]) + RNG.normal(size=300)
COLORS = pd.Categorical.from_codes(RNG.integers(0, 12, 300), [f"color {n}" for n in range(12)])
TABLE = pd.DataFrame(X, columns=[*"abcd", "größe"]).assign(color=COLORS)

MODELS = {
    "regression": ({}, X, Y),
    "several classes": (
        {"objective": "multi:softprob", "num_class": 3},
        X,
        np.digitize(Y, [-1, 1]),
    ),
    "vector leaves": ({"multi_strategy": "multi_output_tree"}, X, np.column_stack([Y, -Y])),
    "names of categories": ({"max_cat_to_onehot": 2}, TABLE, Y),
    "parallel trees": ({"num_parallel_tree": 3, "subsample": 0.5}, X, Y),
    "no cuts": ({"gamma": 1e9}, X, Y),
}


FLOATS = {"base_weights", "leaf_weights", "loss_changes", "split_conditions", "sum_hessian"}


def train(name):
    params, table, labels = MODELS[name]
    check_readable(as_table(table))
    matrix = xgboost.DMatrix(table, labels, enable_categorical=True)
    booster = xgboost.train({"max_depth": 4, "nthread": 1, **params}, matrix, 7)
    booster.set_attr(note="Größe", empty="")
    return booster, matrix


@pytest.fixture(params=MODELS)
def model(request):
    return train(request.param)


def with_lists(value):
    """Arrays as JSON has them."""
    if isinstance(value, dict):
        return {key: with_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_lists(item) for item in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value


def test_what_is_read_is_what_xgboost_writes_as_text(model):
    booster, _ = model
    expected = json_document(booster)
    for tree in expected["learner"]["gradient_booster"]["model"]["trees"]:
        for name in FLOATS.intersection(tree):  # as text in as few digits as float32 needs
            tree[name] = np.float32(tree[name]).tolist()
    assert with_lists(decode(bytes(booster.save_raw("ubj")))) == expected


def test_what_is_written_is_the_same_model(model):
    booster, matrix = model
    loaded = load_document(read_document(booster))
    assert json_document(loaded) == json_document(booster)
    assert_array_equal(loaded.predict(matrix), booster.predict(matrix))


def test_all_that_json_has():
    document = {
        "text": "größer",
        "yes": True,
        "no": False,
        "nothing": None,
        "integer": -(2**40),
        "number": 0.5,
        "list": [1, "two", [], {}],
        **{
            str(np.dtype(kind)): np.array([0, 1, 100], kind)
            for kind in ("int8", "uint8", "int16", "int32", "int64", "float32", "float64")
        },
    }
    found = decode(bytes(encode(document)))
    assert list(found) == list(document)
    for name, value in document.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
            assert_array_equal(found[name], value)
            assert found[name].flags.writeable
        else:
            assert found[name] == value
            assert type(found[name]) is type(value)


def test_the_bytes_are_those_of_the_twin(model):
    content = bytes(model[0].save_raw("ubj"))
    document = decode(content)
    assert with_lists(document) == with_lists(ubjson_twin.decode(content))
    assert encode(document) == ubjson_twin.encode(document)
    strided = {"every second": np.arange(9, dtype=np.float32)[::2]}
    assert encode(strided) == ubjson_twin.encode(strided)


def test_damaged_bytes_are_an_error_and_no_crash(model):
    content = bytes(model[0].save_raw("ubj"))
    content = content[: content.index(b"trees") + 3000]
    for end in range(0, len(content), 7):
        with pytest.raises(ModelFormatError, match="ends too early|lacks the mark"):
            decode(content[:end])
    for place in RNG.integers(0, len(content), 500):
        changed = bytearray(content)
        changed[place] ^= 1 << RNG.integers(8)
        with pytest.raises(ModelFormatError):
            decode(changed)
    with pytest.raises(ModelFormatError, match="nested too deeply"):
        decode(b"[#L" + bytes(7) + b"\x01" + b"".join([b"[#L" + bytes(7) + b"\x01"] * 200))
    length = b"L" + bytes([127]) + bytes(7)
    with pytest.raises(ModelFormatError, match="ends too early"):
        decode(b"{" + length)
    with pytest.raises(ModelFormatError, match="ends too early"):
        decode(b"[$d#" + length)


def test_short_integers_are_read():
    # XGBoost writes an integer in as few bytes as it needs.
    content = b"{L" + bytes(7) + b"\x01ai\xff" + b"L" + bytes(7) + b"\x01bI\x01\x00}"
    assert decode(content) == {"a": -1, "b": 256}


def test_what_has_no_place_in_a_document():
    with pytest.raises(ModelFormatError, match="cannot hold a set"):
        encode({"a": {1}})
    with pytest.raises(ModelFormatError, match="unknown mark 'x'"):
        decode(b"{L" + bytes(7) + b"\x01ax}")
    with pytest.raises(ModelFormatError, match="must be an object"):
        decode(b"T")
