# SPDX-License-Identifier: Apache-2.0
"""Generated data whose truth is known, a small set to try things on, and public data sets.

The functions ``make_*`` generate rows that come with their best possible score, ``load_stores``
reads a file that is part of mtboost, and the functions ``fetch_*`` download public data sets.
"""

from mtboost.datasets.cosine_sums import CosineSum
from mtboost.datasets.fraud_scenes import FraudScenes, make_fraud_scenes
from mtboost.datasets.friedman1 import (
    ManyOutputs,
    make_friedman1_chain,
    make_friedman1_group,
    make_friedman1_ind,
)
from mtboost.datasets.patterns import FraudConcept, FraudPattern
from mtboost.datasets.public_sets import fetch_landmine, fetch_mulan, fetch_school
from mtboost.datasets.regions import Region, RegionalConcept
from mtboost.datasets.related_tasks import RelatedTasks, make_related_tasks
from mtboost.datasets.remote import get_data_home
from mtboost.datasets.shared_linear import SharedLinear, make_shared_linear
from mtboost.datasets.signum import Signum, make_signum
from mtboost.datasets.stores import load_stores
from mtboost.datasets.task_family import TaskFamily, make_task_family

__all__ = [
    "CosineSum",
    "FraudConcept",
    "FraudPattern",
    "FraudScenes",
    "ManyOutputs",
    "Region",
    "RegionalConcept",
    "RelatedTasks",
    "SharedLinear",
    "Signum",
    "TaskFamily",
    "fetch_landmine",
    "fetch_mulan",
    "fetch_school",
    "get_data_home",
    "load_stores",
    "make_fraud_scenes",
    "make_friedman1_chain",
    "make_friedman1_group",
    "make_friedman1_ind",
    "make_related_tasks",
    "make_shared_linear",
    "make_signum",
    "make_task_family",
]
