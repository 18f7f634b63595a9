"""Generated data whose truth is known: the best possible score of every row comes with the rows."""

from mtboost.datasets.fraud_scenes import FraudScenes, make_fraud_scenes
from mtboost.datasets.patterns import FraudConcept, FraudPattern
from mtboost.datasets.regions import Region, RegionalConcept
from mtboost.datasets.related_tasks import RelatedTasks, make_related_tasks

__all__ = [
    "FraudConcept",
    "FraudPattern",
    "FraudScenes",
    "Region",
    "RegionalConcept",
    "RelatedTasks",
    "make_fraud_scenes",
    "make_related_tasks",
]
