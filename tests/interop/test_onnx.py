# SPDX-License-Identifier: Apache-2.0
"""Our boosters run in ONNX Runtime."""

import numpy as np
import pytest

onnxmltools = pytest.importorskip("onnxmltools", reason="pip install 'mtboost[interop]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install 'mtboost[interop]'")
FloatTensorType = onnxmltools.convert.common.data_types.FloatTensorType

# ONNX Runtime adds float32 leaf values in another order; predictions are of order 1.
ATOL = 1e-5


def run(example, backend):
    """Outputs by name."""
    # onnxmltools 1.16 refuses names other than f0, f1, ...
    booster = backend.without_feature_names(example.booster)
    convert = getattr(onnxmltools, f"convert_{backend.name}")
    X = FloatTensorType([None, example.values.shape[1]])
    model = convert(booster, initial_types=[("X", X)], **backend.onnx_options)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": example.values}), strict=True))


def assert_same_outputs(example, backend):
    outputs = run(example, backend)
    expected = backend.predictions(example.booster, example.table)
    if example.label == "number":
        found = outputs["variable"][:, 0]
    elif example.label == "yes or no":
        found = outputs["probabilities"][:, 1]
        np.testing.assert_array_equal(outputs["label"], found > 0.5)
    else:
        found = outputs["probabilities"]
        np.testing.assert_array_equal(outputs["label"], found.argmax(axis=1))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ATOL)


def test_predictions_are_the_same(example, backend):
    assert_same_outputs(example, backend)


def test_codes_of_categories_give_the_same_predictions(example_with_categories, backend):
    assert_same_outputs(example_with_categories, backend)
