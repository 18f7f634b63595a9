# SPDX-License-Identifier: Apache-2.0
"""Data sets of the comparisons of methods: rows to train on, and what scores a model on test rows.

A quarter of the rows is for testing: the last in time where rows have a time, whole groups where
rows belong together (the outputs of one original row), else a quarter of each task and class.
"""

from task_data.folder import names_in, read_rows, read_task_set
from task_data.generated import (
    FAMILIES,
    make_family,
    make_fraud_scene,
    make_fraud_weeks,
    make_retail_weeks,
)
from task_data.scores import IS_HIGHER_BETTER, Judge, Scores
from task_data.task_set import MakeRows, TaskSet, task_set

__all__ = [
    "FAMILIES",
    "IS_HIGHER_BETTER",
    "Judge",
    "MakeRows",
    "Scores",
    "TaskSet",
    "make_family",
    "make_fraud_scene",
    "make_fraud_weeks",
    "make_retail_weeks",
    "names_in",
    "read_rows",
    "read_task_set",
    "task_set",
]
