# SPDX-License-Identifier: Apache-2.0
"""Models as the documents XGBoost saves, to be compared to the last bit."""

import json


def document(booster):
    """What ``save_raw`` writes: trees, objective, start score, names, categories, attributes."""
    return json.loads(bytes(booster.save_raw("json")))


def trees(booster):
    return document(booster)["learner"]["gradient_booster"]["model"]["trees"]


def assert_same_model(found, expected):
    """Equal documents; where they differ, the message names the first tree and array."""
    pairs = zip(trees(found), trees(expected), strict=True)
    for number, (tree, expected_tree) in enumerate(pairs):
        for name, values in expected_tree.items():
            assert tree[name] == values, f"{name} of tree {number}"
    assert document(found) == document(expected)
