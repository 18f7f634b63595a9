# SPDX-License-Identifier: Apache-2.0
"""Feature importances of one fitted model, whichever library made it.

Models are recognised by their attributes, so that neither scikit-learn nor LightGBM is imported.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import numpy as np
import xgboost

from mtboost.base.arrays import Float64Array
from mtboost.errors import UnsupportedError
from mtboost.trees.feature_weights import read_importances
from mtboost.xgboost import assemble

Names: TypeAlias = tuple[str, ...] | None
ImportanceType: TypeAlias = Literal["gain", "impurity"]


def importances_of(
    model: Any, importance_type: ImportanceType, argument: str
) -> tuple[Names, Float64Array]:
    """Names of a model's features, if it knows any, and the importance of each.

    ``"gain"`` adds up what the splits of a feature gain, ``"impurity"`` how far they lower the
    impurity of their node, whatever its share of the rows (eruhimov2007, eq. 1 and 2).

    Raises
    ------
    UnsupportedError
        The model does not hold what is needed.
    TypeError
        It is not a fitted model of trees.
    """
    if isinstance(model, xgboost.XGBModel):
        model = model.get_booster()
    elif _is_of_lightgbm(model) and hasattr(model, "booster_"):
        model = model.booster_
    if isinstance(model, xgboost.Booster):
        return _of_xgboost(model, importance_type, argument)
    if _is_of_lightgbm(model) and hasattr(model, "dump_model"):
        return _of_lightgbm(model, importance_type)
    if hasattr(model, "feature_importances_"):
        return _of_sklearn(model, importance_type, argument)
    raise TypeError(
        f"{argument} is a {type(model).__module__}.{type(model).__name__}: give a pair (X, y), "
        "importances, or a fitted booster or estimator of XGBoost, LightGBM or scikit-learn that "
        "knows importances."
    )


def _is_of_lightgbm(model: object) -> bool:
    return any(base.__module__.partition(".")[0] == "lightgbm" for base in type(model).__mro__)


# ---- XGBoost ---------------------------------------------------------------------------------


def _of_xgboost(
    booster: xgboost.Booster, importance_type: ImportanceType, argument: str
) -> tuple[Names, Float64Array]:
    if json.loads(booster.save_config())["learner"]["learner_train_param"]["booster"] == "gblinear":
        raise UnsupportedError(f"{argument} is linear: its features have no gains.")
    importance = np.zeros(booster.num_features())
    for tree in assemble.trees_to_read(booster):
        if "loss_changes" not in tree:
            raise UnsupportedError(
                f"{argument} has vector trees, whose gains XGBoost {xgboost.__version__} does not "
                "keep: run pip install 'xgboost>=3.2' and train again."
            )
        is_split = tree["left_children"] != -1
        gains = tree["loss_changes"][is_split].astype(np.float64)
        if importance_type == "impurity":
            gains /= tree["sum_hessian"][is_split]
        np.add.at(importance, tree["split_indices"][is_split], gains)
    names = booster.feature_names
    return None if names is None else tuple(names), importance


# ---- LightGBM --------------------------------------------------------------------------------


def _of_lightgbm(booster: Any, importance_type: ImportanceType) -> tuple[Names, Float64Array]:
    names = tuple(booster.feature_name())
    if names == tuple(f"Column_{feature}" for feature in range(len(names))):
        own_names = None  # an array, whose columns LightGBM has named
    else:
        own_names = names
    if importance_type == "gain":
        return own_names, np.asarray(booster.feature_importance("gain"), np.float64)
    importance = np.zeros(len(names))
    for tree in booster.dump_model()["tree_info"]:
        _add_drops(tree["tree_structure"], importance)
    return own_names, importance


def _add_drops(node: dict[str, Any], importance: Float64Array) -> float:
    """Add what the splits below a node gain by their weight, which is returned."""
    if "split_feature" not in node:
        return float(node.get("leaf_weight", 0.0))  # a tree without a split has none
    weight = sum(_add_drops(node[child], importance) for child in ("left_child", "right_child"))
    importance[node["split_feature"]] += node["split_gain"] / weight
    return weight


# ---- scikit-learn ----------------------------------------------------------------------------


def _of_sklearn(
    model: Any, importance_type: ImportanceType, argument: str
) -> tuple[Names, Float64Array]:
    names = getattr(model, "feature_names_in_", None)
    own_names = None if names is None else tuple(map(str, names))
    if importance_type == "gain":
        return own_names, read_importances(model.feature_importances_, argument)[1]
    members = np.ravel(getattr(model, "estimators_", model)).tolist()
    if not all(hasattr(getattr(member, "tree_", None), "children_left") for member in members):
        raise UnsupportedError(
            f"{argument} is a {type(model).__name__}, whose trees do not store the impurity of "
            "their nodes: use importance_type='gain'."
        )
    importance = np.zeros(len(model.feature_importances_))
    for member in members:
        tree = member.tree_
        is_split = tree.children_left != -1
        left, right = tree.children_left[is_split], tree.children_right[is_split]
        n_rows = tree.weighted_n_node_samples
        drop = tree.impurity[is_split] - (
            n_rows[left] * tree.impurity[left] + n_rows[right] * tree.impurity[right]
        ) / (n_rows[left] + n_rows[right])
        # By rounding, a split between equal labels may have a slightly negative gain.
        np.add.at(importance, tree.feature[is_split], np.maximum(drop, 0.0))
    return own_names, importance
