"""Generated data whose truth is known: the best possible score of every row comes with the rows."""

from mtboost.datasets.fraud_scenes import FraudScenes, make_fraud_scenes
from mtboost.datasets.patterns import FraudConcept, FraudPattern

__all__ = ["FraudConcept", "FraudPattern", "FraudScenes", "make_fraud_scenes"]
