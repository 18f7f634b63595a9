# SPDX-License-Identifier: Apache-2.0
"""skops, scikit-learn's file format without pickle, holds our boosters, models and estimators."""

import pytest
from interop.backends import LABELS, NUMBERS, SHOPS, TASK

skops_io = pytest.importorskip("skops.io", reason="pip install 'mtboost[interop]'")


def loaded(thing, own):
    """What is read after trusting classes of mtboost and of the backend, and no others."""
    raw = skops_io.dumps(thing)
    trusted = skops_io.get_untrusted_types(data=raw)
    # LightGBM's boosters hold their scores in an OrderedDict.
    classes = set(trusted) - {"collections.OrderedDict"}
    assert {name.split(".")[0] for name in classes} == own
    return skops_io.loads(raw, trusted=trusted)


def test_a_booster(example, backend):
    found = loaded(example.booster, {backend.name})
    assert type(found) is type(example.booster)
    expected = backend.predictions(example.booster, example.table)
    assert backend.predictions(found, example.table).tolist() == expected.tolist()


def test_a_model(backend, label):
    model = backend.fit_model(NUMBERS, label)
    found = loaded(model, {"mtboost", backend.name})
    assert found.predict(NUMBERS, task=TASK).tolist() == model.predict(NUMBERS, task=TASK).tolist()
    assert found.report().equals(model.report())


def test_an_estimator(backend):
    estimator = backend.estimator().fit(SHOPS, LABELS["yes or no"])
    found = loaded(estimator, {"mtboost", backend.name})
    assert found.predict_proba(SHOPS).tolist() == estimator.predict_proba(SHOPS).tolist()
    assert found.get_params() == estimator.get_params()
