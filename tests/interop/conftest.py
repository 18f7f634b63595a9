# SPDX-License-Identifier: Apache-2.0
"""The boosters that other libraries load: of each backend, way of training and kind of label."""

from functools import cache

import pytest
from interop.backends import BACKENDS, CATEGORIES, LABELS, NUMBERS, Example


@pytest.fixture(params=BACKENDS)
def backend(request):
    return BACKENDS[request.param]


@pytest.fixture(params=["fit", "train"])
def way(request):
    return request.param


@pytest.fixture(params=LABELS)
def label(request):
    return request.param


@pytest.fixture
def example(backend, way, label):
    """Numbers with missing ones."""
    return make_example(backend, way, label, has_categories=False)


@pytest.fixture
def example_with_categories(backend, way, label):
    return make_example(backend, way, label, has_categories=True)


@cache  # not fixtures of the session: pytest would mix the tests of all files to sort them by those
def make_example(backend, way, label, has_categories):
    table = CATEGORIES if has_categories else NUMBERS
    return Example(getattr(backend, way)(table, label), label, table)
