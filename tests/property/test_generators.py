# SPDX-License-Identifier: Apache-2.0
"""Generators of data sets refuse wrong arguments by name."""

import pytest

from mtboost.datasets import (
    make_fraud_scenes,
    make_friedman1_chain,
    make_friedman1_group,
    make_friedman1_ind,
    make_related_tasks,
    make_shared_linear,
    make_signum,
    make_task_family,
)
from mtboost.errors import ParameterError

_FRIEDMAN1 = [
    ({"n_samples": 0}, "n_samples must be an integer >= .*found 0"),
    ({"n_outputs": 0}, "n_outputs must be an integer >= .*found 0"),
    ({"n_noise_outputs": -1}, "n_noise_outputs must be an integer >= .*found -1"),
    ({"n_noise_outputs": 17}, "n_noise_outputs=17 is more than n_outputs=16"),
    ({"noise": -1}, "noise must be a finite number .*found -1"),
    ({"noise": float("inf")}, "noise must be a finite number .*found inf"),
    ({"seed": -1}, "seed must be an integer >= .*found -1"),
]
OUT_OF_RANGE = {
    make_related_tasks: [
        ({"n_rows": 0}, "n_rows must be an integer >= .*found 0"),
        ({"n_rows": (10, 10, 10)}, "one number for each task: there are 3 and 2"),
        ({"n_labels": ()}, "one number for each task"),
        ({"n_labels": (3, 1)}, "n_labels must be an integer >= 2.*found 1"),
        ({"n_labels": (3, 9)}, "9 labels in one task, but n_regions=4 has 8 parts"),
        ({"n_regions": 0}, "n_regions must be an integer >= .*found 0"),
        ({"relatedness": 1.1}, "relatedness must be a finite number .*found 1.1"),
        ({"label_noise": -0.1}, "label_noise must be a finite number .*found -0.1"),
        ({"label_noise": float("nan")}, "label_noise must be a finite number .*found nan"),
        ({"seed": -1}, "seed must be an integer >= .*found -1"),
    ],
    make_friedman1_chain: _FRIEDMAN1,
    make_friedman1_group: _FRIEDMAN1,
    make_friedman1_ind: _FRIEDMAN1,
    make_task_family: [
        ({"kind": "alike"}, "kind must be 'same', .*found 'alike'"),
        ({"kind": "same", "own_share": 0.5}, "own_share=0.5 means nothing for kind='same'"),
        ({"own_share": 1.5}, "own_share must be a finite number .*found 1.5"),
        ({"n_tasks": 3}, "n_tasks must be an integer >= 4.*found 3"),
        ({"n_rows": 19}, "n_rows must be an integer >= 20.*found 19"),
        ({"n_rows": 20, "sizes": "zipf"}, "n_rows=20 leave task20 without a row"),
        ({"sizes": "equal"}, "sizes must be 'balanced' or 'zipf', found 'equal'"),
        ({"noise": -1.0}, "noise must be a finite number .*found -1.0"),
        ({"seed": -1}, "seed must be an integer >= .*found -1"),
    ],
    make_fraud_scenes: [
        ({"scene": "scene3"}, "scene must be .*found 'scene3'"),
        ({"scale": -1.0}, "scale must be .*found -1.0"),
        ({"scale": float("nan")}, "scale must be .*found nan"),
        ({"scale": 0}, "task1 would have 0 rows"),
        ({"scale": 1e-4}, "raise scale"),
        ({"relatedness": 1.01}, "relatedness must be .*found 1.01"),
        ({"relatedness": -0.01}, "relatedness must be .*found -0.01"),
        ({"imbalance": 0.5}, "imbalance must be .*found 0.5"),
        ({"imbalance": 1e6}, "lower imbalance"),
        ({"positive_rate": 0.0}, "positive_rate"),
        ({"positive_rate": 1.0}, "positive_rate"),
        ({"positive_rate": {"task2": 1.5}}, "positive_rate of task2 must be .*found 1.5"),
        ({"positive_rate": {"task3": 0.1}}, "'task3'.*task1, task2"),
        ({"missing": 2.5}, "missing must be .*found 2.5"),
        ({"seed": -1}, "seed must be .*found -1"),
    ],
    make_signum: [
        ({"n_samples": 0}, "n_samples must be .*found 0"),
        ({"n_groups": 0}, "n_groups must be .*found 0"),
        ({"beta": 1.5}, "beta must be .*found 1.5"),
        ({"gamma": -1.0}, "gamma must be .*found -1.0"),
        ({"seed": -1}, "seed must be .*found -1"),
    ],
    make_shared_linear: [
        ({"n_problems": 0}, "n_problems must be .*found 0"),
        ({"n_informative": 0}, "n_informative must be .*found 0"),
        ({"n_noise": -1}, "n_noise must be .*found -1"),
        ({"seed": -1}, "seed must be .*found -1"),
    ],
}
_TYPES_OF_FRIEDMAN1 = [
    ({"n_samples": 10.5}, "n_samples must be an integer >= .*found 10.5"),
    ({"n_outputs": True}, "n_outputs must be an integer >= .*found True"),
    ({"n_noise_outputs": None}, "n_noise_outputs must be an integer >= .*found None"),
    ({"noise": "1"}, "noise must be a finite number"),
    ({"seed": 1.5}, "seed must be an integer"),
]
OF_A_WRONG_TYPE = {
    make_related_tasks: [
        ({"n_rows": 10.0}, "n_rows must be one number for each task, not 10.0"),
        ({"n_rows": (10.5, 10)}, "n_rows must be an integer >= .*found 10.5"),
        ({"n_labels": 3}, "n_labels must be one number for each task, not 3"),
        ({"n_labels": "32"}, "n_labels must be one number for each task, not '32'"),
        ({"n_regions": True}, "n_regions must be an integer >= .*found True"),
        ({"relatedness": "all"}, "relatedness must be a finite number"),
        ({"seed": 1.5}, "seed must be an integer"),
    ],
    make_friedman1_chain: _TYPES_OF_FRIEDMAN1,
    make_friedman1_group: _TYPES_OF_FRIEDMAN1,
    make_friedman1_ind: _TYPES_OF_FRIEDMAN1,
    make_task_family: [
        ({"n_tasks": 4.5}, "n_tasks must be an integer"),
        ({"n_rows": True}, "n_rows must be an integer"),
        ({"noise": "low"}, "noise must be a finite number"),
        ({"own_share": "half"}, "own_share must be a finite number"),
    ],
    make_fraud_scenes: [
        ({"scale": "1"}, "scale"),
        ({"relatedness": True}, "relatedness"),
        ({"missing": None}, "missing"),
        ({"seed": 1.5}, "seed"),
        ({"imbalance": "2"}, "imbalance"),
    ],
    make_signum: [({"group_size": 2.5}, "group_size")],
    make_shared_linear: [({"n_rows": 1.5}, "n_rows")],
}


@pytest.mark.parametrize(
    ("make", "wrong", "message", "error"),
    [
        pytest.param(make, *case, error, id=f"{make.__name__}-{case[0]}")
        for table, error in ((OUT_OF_RANGE, ParameterError), (OF_A_WRONG_TYPE, TypeError))
        for make, cases in table.items()
        for case in cases
    ],
)
def test_wrong_arguments_are_refused_by_name(make, wrong, message, error):
    if make is make_task_family:
        wrong = {"kind": "related", **wrong}
    with pytest.raises(error, match=message):
        make(**wrong)
