# SPDX-License-Identifier: Apache-2.0
"""Our trees as a genuine ``xgboost.Booster``.

A model is assembled around a *frame*: the document of a booster that XGBoost itself initialised
(objective, start score, names, categories of that very version), whose list of trees is replaced.
Rules that XGBoost does not check but relies on: siblings are neighbours (right = left + 1), the
root's parent is 2147483647, and margins are sums of float32 in tree order from the start score.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse
import xgboost

from mtboost.base.checks import check_count, check_type
from mtboost.errors import DataError, ModelFormatError, TrainingError
from mtboost.trees.leaf_gains import Splits, gains_of_values
from mtboost.trees.losses import TaskLoss, check_same_link
from mtboost.trees.steps import StepTree
from mtboost.xgboost.ubjson import decode, encode

Document = dict[str, Any]
Tree = dict[str, npt.NDArray[Any]]

NO_PARENT = 2147483647
#: Boosters of this number of rounds are written in less time than XGBoost takes to slice one.
FEW_ROUNDS = 16
# Arrays of a tree in XGBoost's schema, with the type its UBJSON reader expects.
_TREE_ARRAYS = {
    "base_weights": np.float32,
    "categories": np.int32,
    "categories_nodes": np.int32,
    "categories_segments": np.int64,
    "categories_sizes": np.int64,
    "default_left": np.uint8,
    "left_children": np.int32,
    "loss_changes": np.float32,
    "parents": np.int32,
    "right_children": np.int32,
    "split_conditions": np.float32,
    "split_indices": np.int32,
    "split_type": np.uint8,
    "sum_hessian": np.float32,
}

_EMPTY_TREE: Tree = {
    "left": np.array([-1], np.int32),
    "right": np.array([-1], np.int32),
    "parent": np.array([-1], np.int32),
    "feature": np.zeros(1, np.uint32),
    "threshold": np.zeros(1, np.float32),
    "default_left": np.zeros(1, np.uint8),
    "gain": np.zeros(1),
    "hessian": np.zeros(1),
    "base_weight": np.zeros(1),
    "value": np.zeros(1),
    "categorical_nodes": np.empty(0, np.int32),
    "category_starts": np.zeros(1, np.int64),
    "categories": np.empty(0, np.int32),
}


def read_document(booster: xgboost.Booster) -> Document:
    """Model document of a booster, the arrays of its trees as typed arrays."""
    document = decode(bytes(booster.save_raw("ubj")))
    trees = [*map(_with_types, _model(document).pop("trees"))]
    frame: Document = _with_lists(document)
    _model(frame)["trees"] = trees
    return frame


def trees_to_read(booster: xgboost.Booster) -> list[Document]:
    """Trees of a booster, also of ``booster="dart"``, the arrays of each as typed arrays."""
    gradient_booster = decode(bytes(booster.save_raw("ubj")))["learner"]["gradient_booster"]
    own = gradient_booster.get("gbtree", gradient_booster)  # dart has its trees there
    return [*map(_with_types, own["model"]["trees"])]


def newest_round(booster: xgboost.Booster) -> list[Document]:
    """Trees of the last round, the arrays of each as typed arrays."""
    n_rounds = booster.num_boosted_rounds()
    if n_rounds > FEW_ROUNDS:
        booster = booster[n_rounds - 1 : n_rounds]
    model = _model(decode(bytes(booster.save_raw("ubj"))))
    begin = model["iteration_indptr"][-2]
    return [*map(_with_types, model["trees"][begin:])]


def _with_types(tree: Document) -> Document:
    names = _TREE_ARRAYS.keys() & tree.keys()
    return {**tree, **{name: np.asarray(tree[name], _TREE_ARRAYS[name]) for name in names}}


def _with_lists(value: Any) -> Any:
    """Arrays as lists, in all that is small."""
    if isinstance(value, dict):
        return {key: _with_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_lists(item) for item in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def load_document(document: Document) -> xgboost.Booster:
    """Let XGBoost load an assembled document."""
    booster = xgboost.Booster()
    booster.load_model(encode(document))
    return booster


def trees_of(document: Document) -> list[Document]:
    """Trees of a document, in the order they are added up."""
    trees: list[Document] = _model(document)["trees"]
    return trees


def first_rounds(document: Document, n_rounds: int) -> xgboost.Booster:
    """Booster of the first rounds; see :func:`rounds`."""
    return load_document(rounds(document, 0, n_rounds))


def rounds(document: Document, begin: int, end: int) -> Document:
    """Document of the rounds `begin` to `end` - 1.

    None at all is allowed, which XGBoost's slicing refuses: it then has one round of empty trees,
    because XGBoost 3.2 without trees takes ``base_score`` for a margin.
    """
    n_outputs = outputs_of(document)
    trees = trees_of(document)[begin * n_outputs : end * n_outputs]
    if not trees:
        trees = [tree_document(_EMPTY_TREE, n_features=_n_features(document))] * n_outputs
    return with_trees(document, trees, n_outputs=n_outputs)


def with_trees(frame: Document, trees: Sequence[Document], *, n_outputs: int) -> Document:
    """Document like `frame` with these trees, of which `n_outputs` are a round.

    They are those of one output after another: one of each, or ``num_parallel_tree``.
    """
    if len(trees) % n_outputs:
        raise ModelFormatError(f"{len(trees)} trees do not make whole rounds of {n_outputs} trees.")
    document: Document = {**frame, "learner": {**frame["learner"]}}
    booster = document["learner"]["gradient_booster"] = {**frame["learner"]["gradient_booster"]}
    parameters = booster["model"]["gbtree_model_param"]
    n_parallel = int(parameters["num_parallel_tree"])
    booster["model"] = {
        **booster["model"],
        "gbtree_model_param": {**parameters, "num_trees": str(len(trees))},
        "iteration_indptr": list(range(0, len(trees) + 1, n_outputs)),
        "tree_info": [number % n_outputs // n_parallel for number in range(len(trees))],
        "trees": [{**tree, "id": number} for number, tree in enumerate(trees)],
    }
    return document


def tree_document(tree: Tree, *, n_features: int) -> Document:
    """One grown tree in XGBoost's schema."""
    left = tree["left"]
    is_leaf = left < 0
    parents = tree["parent"].copy()
    parents[0] = NO_PARENT
    nodes, starts = tree["categorical_nodes"], tree["category_starts"]
    split_type = np.zeros(len(left), np.uint8)
    split_type[nodes] = 1
    with np.errstate(over="ignore"):  # infinite, as a gain beyond float32 is in XGBoost
        gains = tree["gain"].astype(np.float32)
    return {
        "base_weights": tree["base_weight"].astype(np.float32),
        "categories": tree["categories"],
        "categories_nodes": nodes,
        "categories_segments": starts[:-1],
        "categories_sizes": np.diff(starts),
        "default_left": tree["default_left"],
        "id": 0,
        "left_children": left,
        "loss_changes": gains,
        "parents": parents,
        "right_children": tree["right"],
        "split_conditions": np.where(is_leaf, tree["value"], tree["threshold"]).astype(np.float32),
        "split_indices": tree["feature"].astype(np.int32),
        "split_type": split_type,
        "sum_hessian": _as_sums(tree["hessian"]),
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(n_features),
            "num_nodes": str(len(left)),
            "size_leaf_vector": "1",
        },
    }


def _as_sums(hessians: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Sums of hessians as XGBoost stores them; infinite ones would make contributions NaN."""
    with np.errstate(over="ignore"):
        stored = hessians.astype(np.float32)
    if np.isinf(stored).any():
        raise TrainingError(
            f"The hessians of the rows of a node add up to {hessians.max():g}, but models of "
            f"XGBoost hold numbers up to {np.finfo(np.float32).max:g}. Rescale weight."
        )
    return stored


def start_margins(document: Document) -> npt.NDArray[np.float32]:
    """Margins before the first tree, shape (n_outputs,)."""
    row = scipy.sparse.csr_array((1, _n_features(document)), dtype=np.float32)
    booster = first_rounds(document, 0)
    booster.set_param({"nthread": 1})  # waking others takes longer than one row
    matrix = xgboost.DMatrix(row, nthread=1)
    return np.ravel(booster.predict(matrix, output_margin=True, validate_features=False))


def with_first_round(
    document: Document, values: npt.NDArray[np.float32], n_rounds: int
) -> Document:
    """A round with a constant for each output, and the first rounds."""
    n_features, n_outputs = _n_features(document), outputs_of(document)
    constants = [constant_tree(value, n_features=n_features) for value in values.tolist()]
    trees = [*constants, *trees_of(document)[: n_rounds * n_outputs]]
    return with_trees(document, trees, n_outputs=n_outputs)


def constant_tree(value: float, *, n_features: int) -> Document:
    """A tree of one leaf."""
    return tree_document({**_EMPTY_TREE, "value": np.array([value])}, n_features=n_features)


def with_first_trees(document: Document, steps: Sequence[StepTree]) -> Document:
    """The trees of a document of one output after others of one column each."""
    n_features = _n_features(document)
    first = [_step_tree(own, n_features) for own in steps]
    return with_trees(document, [*first, *trees_of(document)], n_outputs=1)


def _step_tree(steps: StepTree, n_features: int) -> Document:
    nodes = steps.nodes
    # Rounded upwards: above the smaller of two neighbours, and not above the larger one.
    thresholds = nodes.threshold.astype(np.float32)
    is_below = thresholds < nodes.threshold
    thresholds[is_below] = np.nextafter(thresholds[is_below], np.float32(np.inf))
    tree: Tree = {
        "left": nodes.left,
        "right": nodes.right,
        "parent": nodes.parent,
        "feature": np.where(nodes.left < 0, 0, steps.feature),
        "threshold": thresholds,
        "default_left": nodes.default_left.astype(np.uint8),
        "gain": nodes.gain,
        "hessian": nodes.hessian,
        "base_weight": nodes.value,
        "value": nodes.value,
    }
    return tree_document({**_EMPTY_TREE, **tree}, n_features=n_features)


def without_deleted_nodes(tree: Document) -> tuple[Document, npt.NDArray[np.int32]]:
    """A tree of the nodes that can be reached, and their new numbers; -1 of the others.

    ``tree_method="exact"`` prunes trees, and leaves the nodes that it has cut off in the arrays.
    """
    left, right = tree["left_children"], tree["right_children"]
    n_nodes = len(left)
    if tree["tree_param"]["num_deleted"] == "0":
        return tree, np.arange(n_nodes, dtype=np.int32)
    is_reached = np.zeros(n_nodes, bool)
    level = np.zeros(1, np.int32)
    while len(level):
        is_reached[level] = True
        inner = level[left[level] >= 0]
        level = np.concatenate([left[inner], right[inner]])
    numbers = np.where(is_reached, np.cumsum(is_reached) - 1, -1).astype(np.int32)
    kept: Document = {
        name: tree[name][is_reached]
        for name in _TREE_ARRAYS
        if name in tree and not name.startswith("categories")
    }
    for name in ("left_children", "right_children"):
        kept[name] = np.where(kept["left_children"] < 0, -1, numbers[kept[name]]).astype(np.int32)
    kept["parents"][1:] = numbers[kept["parents"][1:]]
    is_kept = is_reached[tree["categories_nodes"]]
    sizes = tree["categories_sizes"][is_kept]
    kept |= {
        "categories": tree["categories"][np.repeat(is_kept, tree["categories_sizes"])],
        "categories_nodes": numbers[tree["categories_nodes"][is_kept]],
        "categories_segments": np.cumsum(sizes) - sizes,
        "categories_sizes": sizes,
    }
    parameters = {
        **tree["tree_param"],
        "num_deleted": "0",
        "num_nodes": str(np.count_nonzero(is_reached)),
    }
    return {**tree, **kept, "tree_param": parameters}, numbers


def with_leaf_numbers(tree: Document) -> Document:
    """The tree with each leaf's number for its value."""
    is_leaf = tree["left_children"] < 0
    numbers = np.arange(len(is_leaf), dtype=np.float32)
    return {**tree, "split_conditions": np.where(is_leaf, numbers, tree["split_conditions"])}


def with_leaf_values(document: Document, values: Sequence[npt.NDArray[Any]]) -> Document:
    """The document with other leaf values, and with the gains of its splits by these.

    `values` has an array with one value a node for each tree.
    """
    before = trees_of(document)
    trees = [_with_values(tree, own) for tree, own in zip(before, values, strict=True)]
    return with_trees(document, with_gains(trees, before), n_outputs=outputs_of(document))


def _with_values(tree: Document, values: npt.NDArray[Any]) -> Document:
    is_leaf = tree["left_children"] < 0
    values = values.astype(np.float32)
    return {
        **tree,
        "base_weights": np.where(is_leaf, values, tree["base_weights"]),
        "split_conditions": np.where(is_leaf, values, tree["split_conditions"]),
    }


def with_gains(trees: Sequence[Document], before: Sequence[Document]) -> list[Document]:
    """Changed trees with the gains of their splits by the leaf values (leaf_gains.py)."""
    gains = gains_of_values([*map(_splits, before)], [*map(_splits, trees)])
    with np.errstate(over="ignore"):  # infinite, as a gain beyond float32 is in XGBoost
        return [
            {**tree, "loss_changes": own.astype(np.float32)}
            for tree, own in zip(trees, gains, strict=True)
        ]


def _splits(tree: Document) -> Splits:
    return Splits(
        left=tree["left_children"],
        right=tree["right_children"],
        cover=tree["sum_hessian"].astype(np.float64),
        value=tree["split_conditions"].astype(np.float64),
        gain=tree["loss_changes"].astype(np.float64),
    )


def as_own(document: Document, n_rounds: int, objective: Document, loss: TaskLoss) -> Document:
    """The first rounds of a document with a task's own objective, and its margins in that unit."""
    learner = {
        **document["learner"],
        "objective": objective,
        "learner_model_param": {
            **document["learner"]["learner_model_param"],
            # In as few digits as a float needs: XGBoost 3.0 reads long numbers as 0.5.
            "base_score": str(np.float32(loss.start)),
        },
    }
    trees = [_in_unit(tree, loss.unit, loss.dispersion) for tree in trees_of(document)[:n_rounds]]
    return with_trees({**document, "learner": learner}, trees, n_outputs=1)


def _in_unit(tree: Document, unit: float, dispersion: float) -> Document:
    def scaled(values: npt.NDArray[np.float32], factor: float) -> npt.NDArray[np.float32]:
        return (values * np.float64(factor)).astype(np.float32)

    is_leaf = tree["left_children"] < 0
    conditions = tree["split_conditions"]
    return {
        **tree,
        "split_conditions": np.where(is_leaf, scaled(conditions, unit), conditions),
        "base_weights": scaled(tree["base_weights"], unit),
        "loss_changes": scaled(tree["loss_changes"], dispersion),
        "sum_hessian": scaled(tree["sum_hessian"], dispersion / unit**2),
    }


def combine(
    common: xgboost.Booster, specific: xgboost.Booster | None, n_common_rounds: int
) -> xgboost.Booster:
    """Combine the first rounds of a common model and a model continued from them in one booster.

    `specific` must have been trained with the margins of those rounds as ``base_margin``
    (:func:`residual_margin`); the sum (zhang2019, eq. 7) then is bitwise identical to the margins
    of that training, because trees are added in the same order to the same start score.

    Parameters
    ----------
    common : xgboost.Booster
        The common model.
    specific : xgboost.Booster or None
        The model that continues it for a task; None for none. Features are matched by name: those
        of `specific` come first, in its order, then common features that it lacks.
    n_common_rounds : int
        Number of rounds of `common` that the task uses.

    Returns
    -------
    xgboost.Booster
        An ordinary booster, whose predictions need neither of the two.

    Raises
    ------
    DataError
        The two boosters have objectives with different links, different numbers of outputs or
        ``num_parallel_tree``, or only one of them has names.
    ModelFormatError
        A booster is not one of ``booster="gbtree"``.

    Examples
    --------
    >>> import numpy as np
    >>> import xgboost
    >>> from mtboost.xgboost import combine, residual_margin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> task = np.repeat(["a", "b"], 100)
    >>> y = X[:, 0] + (task == "a") * X[:, 1]
    >>> common = xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, y), 10)
    >>> rows = xgboost.DMatrix(X[:100], y[:100])  # of task a
    >>> rows.set_base_margin(residual_margin(common, rows, 5))
    >>> specific = xgboost.train({"max_depth": 3}, rows, 20)
    >>> booster = combine(common, specific, 5)
    >>> booster.num_boosted_rounds()
    25

    References
    ----------
    zhang2019, section 3.4, eq. 7 (key in docs/papers.md).
    """
    check_type("common", common, xgboost.Booster, "an xgboost.Booster")
    if specific is not None:
        check_type("specific", specific, xgboost.Booster, "None or an xgboost.Booster")
    n_rounds = check_count("n_common_rounds", n_common_rounds, high=common.num_boosted_rounds())
    first = read_document(common)
    second = None if specific is None else read_document(specific)
    both = combined(first, second, n_rounds)
    if second is not None:
        check_same_link(*(own["learner"]["objective"]["name"] for own in (first, second)))
    return load_document(both)


def combined(common: Document, specific: Document | None, n_common_rounds: int) -> Document:
    """Document of :func:`combine`."""
    if specific is None:
        return rounds(common, 0, n_common_rounds)
    per_round = outputs_of(common)
    if outputs_of(specific) != per_round:
        raise DataError(
            f"The common model has {per_round} trees a round, the specific one "
            f"{outputs_of(specific)}: they must have the same outputs and num_parallel_tree."
        )
    frame, (own, moved) = over_same_features(common, [specific, common])
    trees = moved[: n_common_rounds * per_round] + own
    return with_trees(frame, trees, n_outputs=per_round)


def followed_by_rounds(document: Document, n_rounds: int, other: Document) -> Document:
    """The first rounds, then all of a document whose features are the first of this one."""
    n_features, n_outputs = _n_features(document), outputs_of(document)
    same = np.empty(0, np.int32)
    after = [_over_features(tree, same, n_features) for tree in trees_of(other)]
    return with_trees(
        document, trees_of(document)[: n_rounds * n_outputs] + after, n_outputs=n_outputs
    )


def in_order(document: Document, names: Sequence[str]) -> Document:
    """Document with its features in the order of `names`, which may be more."""
    own = document["learner"]["feature_names"]
    known = set(own)
    order = [name for name in names if name in known]
    if not own or order == own:
        return document
    frame, (trees,) = over_same_features(document, [document], order)
    return with_trees(frame, trees, n_outputs=outputs_of(document))


def over_same_features(
    frame: Document, documents: Sequence[Document], order: Sequence[str] = ()
) -> tuple[Document, list[list[Document]]]:
    """`frame` over the features of several documents, and the trees of each over the same ones.

    Features are matched by name: those of `order` come first, then others as the documents have
    them.
    """
    names = [document["learner"]["feature_names"] for document in documents]
    if len({bool(own) for own in names}) > 1:
        raise DataError(
            "One booster has feature names and the other has none: name both or neither."
        )
    sizes = sorted({_n_features(document) for document in documents})
    if not names[0] and len(sizes) > 1:
        raise DataError(
            f"The boosters have {' and '.join(map(str, sizes))} features and no names to match "
            "them by: train with feature names."
        )
    union = list(dict.fromkeys([*order, *(name for own in names for name in own)]))
    n_features = len(union) or sizes[0]
    position = {name: place for place, name in enumerate(union)}
    trees = []
    for own, document in zip(names, documents, strict=True):
        places = np.array([position[name] for name in own], np.int32)
        trees.append([_over_features(tree, places, n_features) for tree in trees_of(document)])
    learner = {
        **frame["learner"],
        "feature_names": union,
        "feature_types": _union_of_types(documents, union),
        "learner_model_param": {
            **frame["learner"]["learner_model_param"],
            "num_feature": str(n_features),
        },
    }
    model = {**_model(frame)}
    if "cats" in model and union:
        model["cats"] = _union_of_categories(documents, union)
    learner["gradient_booster"] = {**learner["gradient_booster"], "model": model}
    return {**frame, "learner": learner}, trees


def _over_features(tree: Document, places: npt.NDArray[np.int32], n_features: int) -> Document:
    """Copy of a tree that counts features otherwise; `places` is empty where they have no names."""
    moved = {**tree, "tree_param": {**tree["tree_param"], "num_feature": str(n_features)}}
    if places.size:
        moved["split_indices"] = places[tree["split_indices"]]
    return moved


def _union_of_types(documents: Sequence[Document], union: Sequence[str]) -> list[str]:
    types: dict[str, str] = {}
    for document in documents:
        learner = document["learner"]
        types |= dict(zip(learner["feature_names"], learner["feature_types"] or [], strict=False))
    return [types[name] for name in union] if types else []


def _union_of_categories(documents: Sequence[Document], union: Sequence[str]) -> Document:
    """Category names of the union's features (XGBoost 3.1+ stores them with the model).

    ``enc`` has one list of names per feature, empty for numbers; ``sorted_idx`` holds, feature
    after feature, the order of the names, and ``feature_segments`` where each feature starts.
    """
    by_name: dict[str, tuple[Document, list[int]]] = {}
    for document in documents:
        categories = _model(document)["cats"]
        starts = categories["feature_segments"]
        for place, (name, names) in enumerate(
            zip(document["learner"]["feature_names"], categories["enc"], strict=False)
        ):
            order = list(categories["sorted_idx"][starts[place] : starts[place + 1]])
            first, _ = by_name.setdefault(name, (names, order))
            if names not in (first, _of_pandas(first)) and _of_pandas(names) != first:
                raise DataError(
                    f"Feature {name!r} has other categories in one booster than in another: give "
                    "all tasks the same category dtype."
                )
    if not by_name:
        return {"enc": [], "feature_segments": [], "sorted_idx": []}
    number: tuple[Document, list[int]] = ({"offsets": [], "values": []}, [])
    parts = [by_name.get(name, number) for name in union]
    return {
        "enc": [names for names, _ in parts],
        "feature_segments": np.cumsum([0] + [len(order) for _, order in parts]).tolist(),
        "sorted_idx": [place for _, order in parts for place in order],
    }


def n_categories_of(document: Document) -> npt.NDArray[np.uint32]:
    """Number of categories of each feature, whether rows have them or not; none before 3.1."""
    starts = _model(document).get("cats", {}).get("feature_segments", [])
    return np.diff(np.asarray(starts, np.int64)).astype(np.uint32)


def _of_pandas(names: Document) -> Document:
    """Names of categories as XGBoost before 3.4 stores those of a DataFrame of pandas.

    It takes as many bytes of each as the name has letters, from where the last one ended.
    """
    offsets, values = names.get("offsets", []), names["values"]
    text = np.asarray(values, np.int8).tobytes() if len(offsets) else b""
    try:
        found = [text[begin:end].decode() for begin, end in pairwise(offsets)]
    except UnicodeDecodeError:  # they are so stored
        return names
    ends = np.cumsum([0, *map(len, found)]).tolist()
    return {**names, "offsets": ends, "values": values[: ends[-1]]} if found else names


def _model(document: Document) -> Document:
    booster: Document = document["learner"]["gradient_booster"]
    if booster["name"] != "gbtree":
        raise ModelFormatError(
            f"The model was trained with booster={booster['name']!r}, whose rounds cannot be taken "
            "apart: use booster='gbtree'."
        )
    model: Document = booster["model"]
    return model


def _n_features(document: Document) -> int:
    return int(document["learner"]["learner_model_param"]["num_feature"])


def outputs_of(document: Document) -> int:
    """Trees of one boosting round: one per output, or ``num_parallel_tree``."""
    pointers = _model(document)["iteration_indptr"]
    if len(pointers) > 1:
        return int(pointers[1] - pointers[0])
    parameters = document["learner"]["learner_model_param"]
    return max(1, int(parameters["num_class"]), int(parameters.get("num_target", "1")))
