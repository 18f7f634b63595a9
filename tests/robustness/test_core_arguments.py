# SPDX-License-Identifier: Apache-2.0
"""The extension raises where a number or an array would lead a kernel out of its memory.

mtboost's Python modules check what users pass, with more to say; this is the last line of defence.
Each call runs in a child, since what it looks for ends the process.
"""

import pytest

TIMEOUT = 60.0

SETUP = """
import numpy as np
from mtboost import _core
nan, inf = float("nan"), float("inf")
def u32(*values): return np.array(values, np.uint32)
def f32(*values): return np.array(values, np.float32)
rng = np.random.default_rng(0)
X = rng.integers(0, 4, (30, 3)).astype(np.float32)
def builder(n_rows=30, edges=4, n_features=3):
    return _core.BinnedMatrixBuilder(
        offsets=np.arange(n_features + 1, dtype=np.uint32) * edges,
        values=np.tile(np.arange(1, edges + 1, dtype=np.float32), n_features),
        min_values=np.full(n_features, -1, np.float32),
        is_categorical=np.zeros(n_features, np.uint8),
        n_rows=n_rows, may_be_missing=np.ones(n_features, np.uint8), storage_order=u32(),
    )
def matrix(**options):
    own = builder(**options)
    own.add(np.zeros((30, options.get("n_features", 3)), np.float32) if options else X, n_threads=1)
    return own.build()
table = matrix()
pairs = np.stack([rng.normal(size=30), np.ones(30)], axis=1).astype(np.float32)
def grow(params, **options): return _core.TreeGrower(table).grow(params, pairs, **options)
def lightgbm_bins(n_bins=4, **options):
    arguments = dict(
        n_bins=u32(n_bins), missing_bins=u32(n_bins), frequent_bins=u32(0),
        missing_types=np.zeros(1, np.uint8), is_categorical=np.zeros(1, np.uint8),
        columns=[rng.integers(0, 4, 30).astype(np.uint8)], bits=[8], steps=[None],
        column_of_feature=[0], first_entries=[1], n_rows=30, storage_order=u32(),
        is_sparse=False, n_threads=1,
    )
    return _core.lightgbm_matrix(**arguments | options)
def grow_lightgbm(params): return _core.TreeGrower(lightgbm_bins()).grow(params, pairs)
y = rng.normal(size=(30, 2))
columns = _core.FeatureColumns(X)
def forest(params=None, y=y, n_trees=2, **options):
    own = _core.Forest(params or _core.ForestParams(), n_features=3)
    own.grow(columns, n_trees=n_trees, y=y, **options)
    return own
grown = forest()
labels = y.astype(np.float32)
loss = _core.OutputLoss("squared", 2)
softmax = _core.OutputLoss("softmax", 3)
def boost(loss=loss, labels=labels, learning_rate=0.1, projection=None, **tree):
    own = _core.ProjectedBoosting(
        table, loss, labels, learning_rate=learning_rate, projection=projection,
        tree=_core.ComponentTreeParams(**tree),
    )
    own.update()
    return own
sorted_columns = _core.SortedColumns(X)
classes = rng.integers(0, 4, 30).astype(np.uint32)
def mt_tree(class_starts=u32(0, 2, 4), labels=classes, **params):
    return _core.MTDecisionTree(
        sorted_columns, _core.MTTreeParams(**params), class_starts=class_starts, labels=labels
    )
def i32(*values): return np.array(values, np.int32)
def small_models(params=None, **arrays):
    own = dict(
        cells=X, first_rows=u32(0, 10, 30), valid_cells=X[:4], first_valid_rows=u32(0, 0, 4),
        params=params or _core.XgboostParams(),
    )
    return _core.SmallModels(**own | arrays)
def grow_small(models=u32(0, 1), n_rows=30, n_valid_rows=4, n_pairs=30):
    zeros = np.zeros(n_rows, np.float32)
    valid = np.zeros(n_valid_rows, np.float32)
    small_models().grow(models, pairs[:n_pairs], zeros, valid)
    return True
assert grow_small()
def margin_trees(**arrays):
    own = dict(
        roots=i32(0), left=i32(1, -1, -1), right=i32(2, -1, -1), feature=u32(2, 0, 0),
        threshold=f32(0, 0, 0), default_left=np.zeros(3, np.uint8), value=f32(0, 1, 2),
        n_features=3, n_outputs=1,
        category_nodes=np.zeros(0, np.int64), category_starts=np.zeros(1, np.int64),
        categories=i32(),
    )
    return _core.XgboostTrees(**own | arrays)
def lists(node, starts=(0, 1), code=1):
    return dict(
        category_nodes=np.array([node]), category_starts=np.array(starts), categories=i32(code)
    )
assert margin_trees(**lists(0))
def add_trees(trees=None, margins=None, X=X, **options):
    own = dict(
        rows=None, trees=[trees or margin_trees()], n_trees=[1], begins=[0], ends=[30],
        sum_first=False, n_threads=1,
    )
    margins = np.zeros((30, 1), np.float32) if margins is None else margins
    return _core.XgboostTrees.add_to(margins, X, **own | options)
assert add_trees()
"""

FRACTIONS = {
    "XgboostParams": ["subsample", "colsample_bytree", "colsample_bylevel", "colsample_bynode"],
    "LightgbmParams": ["bagging_fraction", "feature_fraction", "feature_fraction_bynode"],
    "ComponentTreeParams": ["subsample", "colsample"],
    "MTTreeParams": ["purity"],
}
RATES = {
    "XgboostParams": ["learning_rate"],
    "LightgbmParams": ["learning_rate"],
    "ForestParams": ["alpha"],
}
NOT_NEGATIVE = {
    "XgboostParams": [
        *("min_split_loss", "min_child_weight", "reg_lambda", "reg_alpha", "max_delta_step")
    ],
    "LightgbmParams": [
        *("min_sum_hessian_in_leaf", "min_gain_to_split", "lambda_l1", "lambda_l2"),
        *("path_smooth", "monotone_penalty", "cat_smooth", "cat_l2"),
    ],
}
COUNTS = {
    "ForestParams": ["max_features"],
    "MTTreeParams": ["max_features", "min_samples_split", "min_samples_leaf"],
    "ComponentTreeParams": ["max_features", "min_samples_leaf"],
}
USES = {
    "XgboostParams": "grow(_core.XgboostParams({}))",
    "LightgbmParams": "grow_lightgbm(_core.LightgbmParams(min_data_in_leaf=1, {}))",
    "ForestParams": "forest(_core.ForestParams({}))",
    "MTTreeParams": "mt_tree({})",
    "ComponentTreeParams": "boost({})",
}


def numbers_out_of_range():
    for ranges, values in (
        (FRACTIONS, ["nan", "inf", "-inf", "0.0", "-0.5", "1.5", "1e300"]),
        (RATES, ["nan", "inf", "-inf", "-0.1"]),
        (NOT_NEGATIVE, ["nan", "-inf", "-0.1"]),
        (COUNTS, ["0"]),
    ):
        for name, parameters in ranges.items():
            for parameter in parameters:
                for value in values:
                    yield USES[name].format(f"{parameter}={value}")


NUMBERS = [
    *numbers_out_of_range(),
    "grow(_core.XgboostParams(monotone_constraints=[2]))",
    "grow(_core.XgboostParams(monotone_constraints=[0] * 4))",
    "grow(_core.XgboostParams(interaction_constraints=[[0, 3]]))",
    "grow_lightgbm(_core.LightgbmParams(min_data_in_leaf=-1))",
    "grow_lightgbm(_core.LightgbmParams(max_delta_step=nan))",
    "grow_lightgbm(_core.LightgbmParams(min_data_per_group=-1))",
    "grow_lightgbm(_core.LightgbmParams(feature_contri=[nan]))",
    "grow_lightgbm(_core.LightgbmParams(feature_contri=[1.0, 1.0]))",
    "grow(_core.XgboostParams(), n_threads=0)",
    "grow(_core.XgboostParams(), n_threads=-1)",
    "_core.TreeGrower(table, symmetric=True, random_strength=nan)",
    "_core.TreeGrower(table, task_column=0, task_penalty=nan)",
    "_core.variance_score(nan)",
    "_core.variance_score(-1.0)",
    "forest(_core.ForestParams(task_split_prob=nan))",
    "forest(_core.ForestParams(task_split_prob=1.1))",
    *(f"boost(learning_rate={value})" for value in ("nan", "inf", "0.0", "-1.0")),
    "boost(feature_weights=np.array([nan, 1.0, 1.0]))",
    "boost(feature_weights=np.zeros(3))",
    "_core.ForestProjection('gaussian', n_components=0)",
    "_core.ForestProjection('gaussian', n_components=2**40)",
    "_core.ForestProjection('sparse', n_components=2).matrix(n_outputs=0, seed=0, tree=0)",
    "_core.ForestProjection('sparse', n_components=9).matrix(n_outputs=2**62, seed=0, tree=0)",
    "_core.ResidualProjection('singular', n_components=2**62)",
    "_core.OutputLoss('huber', 2, huber_delta=nan)",
    "_core.Loss('count:poisson', max_delta_step=nan)",
    "_core.Loss('reg:tweedie', tweedie_variance_power=nan)",
    "_core.LightgbmLoss('quantile', alpha=nan)",
    "_core.LightgbmLoss('fair', fair_c=-1.0)",
    *(
        f"_core.stagewise_paths([_core.StagewiseInput(grown, X, y)], max_steps=9, epsilon={value})"
        for value in ("nan", "inf", "0.0", "-1.0")
    ),
]

ARRAYS = [
    # models of few rows
    "small_models(first_rows=u32(0, 10, 31))",
    "small_models(first_rows=u32(1, 10, 30))",
    "small_models(first_rows=u32(0, 31, 30))",
    "small_models(first_rows=u32())",
    "small_models(first_valid_rows=u32(0, 4))",
    "small_models(valid_cells=X[:4, :2].copy())",
    "small_models(cells=X[0])",
    "small_models(cells=np.zeros((30, 0), np.float32))",
    "small_models(cells=np.zeros((65536, 1), np.float32), first_rows=u32(0, 0, 65536))",
    "small_models(_core.XgboostParams(colsample_bynode=0.5))",
    "small_models(_core.XgboostParams(max_depth=0))",
    "grow_small(models=u32(1, 0))",
    "grow_small(models=u32(1, 1))",
    "grow_small(models=u32(2))",
    "grow_small(n_rows=29)",
    "grow_small(n_valid_rows=5)",
    "grow_small(n_pairs=29)",
    "small_models().keep(2, 0)",
    "small_models().keep(0, 1)",
    "small_models(is_categorical=np.ones(2, np.uint8))",
    "small_models(cells=X - 1, is_categorical=np.ones(3, np.uint8))",
    "_core.have_few_values(X, u32(0, 31), most=3)",
    "_core.have_few_values(X, u32(0, 30), is_categorical=np.ones(2, np.uint8), most=3)",
    # trees of finished boosters
    "margin_trees(left=i32(0, -1, -1))",  # a cycle
    "margin_trees(left=i32(3, -1, -1))",
    "margin_trees(right=i32(-1, -1, -1))",
    "margin_trees(roots=i32(3))",
    "margin_trees(roots=i32(-1))",
    "margin_trees(feature=u32(3, 0, 0))",
    "margin_trees(value=f32(0, 1))",
    "margin_trees(**lists(0, starts=[0]))",
    "margin_trees(**lists(3))",
    "margin_trees(**lists(-1))",
    "margin_trees(**lists(0, starts=[0, 2]))",
    "margin_trees(**lists(0, code=-1))",
    "margin_trees(**lists(0, code=1 << 24))",
    "margin_trees(categories=i32(1))",
    "margin_trees(n_outputs=2)",
    "margin_trees(n_outputs=0)",
    "add_trees(X=X[:, :2])",
    "add_trees(X=X[:29])",
    "add_trees(X=X[0])",
    "add_trees(margins=np.zeros((30, 2), np.float32))",
    "add_trees(rows=np.full(30, 30))",
    "add_trees(rows=np.full(30, -1))",
    "add_trees(rows=np.arange(29))",
    "add_trees(begins=[-1])",
    "add_trees(begins=[20], ends=[10])",
    "add_trees(ends=[31])",
    "add_trees(ends=[10, 20])",
    "add_trees(n_trees=[2])",
    "add_trees(n_trees=[-1])",
    # objects that are not there
    "_core.TreeGrower(None)",
    "_core.ProjectedBoosting(None, loss, labels, tree=_core.ComponentTreeParams())",
    "grown.predict(None)",
    # bins
    "grow(_core.XgboostParams())[0].leaves(matrix(edges=2))",
    "grow(_core.XgboostParams())[0].leaves(matrix(n_features=2))",
    "_core.TreeGrower(matrix(n_features=0))",
    "[own := builder(), own.add(X, n_threads=1), own.build(), own.build()]",
    "[own := builder(), own.add(X, n_threads=1), own.build(), own.add(X[:0], n_threads=1)]",
    "builder(n_rows=29).add(X, n_threads=1)",
    "[own := builder(n_rows=31), own.add(X, n_threads=1), own.build()]",
    "lightgbm_bins(n_bins=2**31)",
    "lightgbm_bins(n_rows=31)",
    # what a tree grows on
    "_core.TreeGrower(table).grow(_core.XgboostParams(), pairs[:-1])",
    "_core.TreeGrower(table, first_rows=u32(0, 31), score=_core.entropy_score())",
    "_core.TreeGrower(table, first_rows=u32(0, 20, 10, 30), score=_core.entropy_score())",
    "_core.TreeGrower(table, score=_core.entropy_score())",
    "_core.TreeGrower(table, feature_weights=f32(1, nan, 1))",
    "_core.TreeGrower(table, feature_weights=f32(1, -1, 1))",
    "_core.TreeGrower(table, feature_weights=f32(1, 1))",
    "_core.TreeGrower(table, task_column=3)",
    "grow(_core.XgboostParams(), features=u32(3))",
    "grow(_core.XgboostParams(), features=u32(1, 0))",
    "grow(_core.XgboostParams(), features=u32(1, 1))",
    "grow(_core.XgboostParams(), rows=np.ones(29, np.uint8))",
    "grow(_core.XgboostParams(), tasks=np.ones(1, np.uint8))",
    # losses
    *(
        f"_core.add_leaf_values(np.zeros({shape}), {leaves}, f32(0, 0, 0)[:, None], {rest}, "
        "n_threads=1)"
        for shape, leaves, rest in [
            ("2", "np.full(3, 2, np.int32)", "output=0"),
            ("2", "np.full(3, -9, np.int32)", "output=0"),
            ("2", "i32(0, 0, 0)", "output=1"),
            ("(2, 3)", "i32(0, 0, 0)", "codes=i32(3, 3, 3), output=0"),
            ("(2, 3)", "i32(0, 0, 0)", "codes=i32(-2, -2, -2), output=0"),
            ("(2, 3)", "i32(0, 0, 0)", "codes=i32(0, 0), output=0"),
            ("(2, 3)", "i32(0, 0, 0)", "codes=i32(), output=0"),
            ("(2, 0)", "i32(0, 0, 0)", "output=0"),
        ]
    ),
    *(
        f"_core.sum_by_leaf_and_task({leaves}, {codes}, np.ones((3, {n_parts}), np.float32), "
        "n_nodes=2, n_tasks=2)"
        for leaves, codes, n_parts in [
            ("np.full(3, 2, np.int32)", "np.zeros(3, np.int32)", 2),
            ("np.zeros(3, np.int32)", "np.full(3, 2, np.int32)", 2),
            ("np.zeros(3, np.int32)", "np.full(3, -1, np.int32)", 2),
            ("np.zeros(3, np.int32)", "np.zeros(2, np.int32)", 2),
            ("np.zeros(4, np.int32)", "np.zeros(4, np.int32)", 2),
            ("np.zeros(3, np.int32)", "np.zeros(3, np.int32)", 3),
        ]
    ),
    "_core.Loss('reg:absoluteerror').refit_leaf_values(f32(0), np.ones(3, np.int32), f32(0, 0, 0), "
    "f32(1, 1, 1), learning_rate=0.3)",
    "_core.Loss('reg:absoluteerror').refit_leaf_values(f32(0), np.zeros(1, np.int32), f32(0), "
    "f32(1), learning_rate=nan)",
    "_core.Loss('reg:absoluteerror').gradients(f32(0, 0), f32(1))",
    *(
        f"softmax.{method}(np.zeros((2, 3), np.float32), f32(0, {label}))"
        for method in ("residuals", "hessians", "mean_loss")
        for label in ("3", "-1", "1e9", "inf")
    ),
    "softmax.initial(f32(3))",
    "loss.residuals(np.zeros((2, 3), np.float32), labels[:2])",
    # forests
    "_core.FeatureColumns(np.zeros((0, 3), np.float32))",
    "_core.FeatureColumns(_core.SparseRows(indptr=np.zeros(2, np.int64), indices=u32(), "
    "values=f32(), n_features=2**32 - 1))",
    "_core.SortedColumns(_core.SparseRows(indptr=np.zeros(2, np.int64), indices=u32(), "
    "values=f32(), n_features=2**32 - 1))",
    "_core.SparseRows(indptr=np.array([0, 2]), indices=u32(0), values=f32(1), n_features=2)",
    "_core.SparseRows(indptr=np.array([0, 1]), indices=u32(2), values=f32(1), n_features=2)",
    "_core.SparseRows(indptr=np.array([0, 2, 1, 2]), indices=u32(0, 1), values=f32(1, 1), "
    "n_features=2)",
    "forest(y=y[:-1])",
    "grown.grow(columns, n_trees=1, y=np.ascontiguousarray(np.repeat(y, 2, axis=1)))",
    "grown.grow(columns, n_trees=1, labels=classes, n_labels=3)",
    "grown.grow(columns, n_trees=1, y=y, weights=np.ones(29))",
    "grown.predict(X[:, :2])",
    "grown.leaves(X[:, :2])",
    "_core.Forest(_core.ForestParams(), n_features=3).predict(X)",
    "_core.Forest(_core.ForestParams(), n_features=3, n_tasks=2).grow(columns, n_trees=1, y=y, "
    "tasks=np.full(30, 2, np.uint32))",
    "_core.StagewiseInput(grown, X, y[:-1])",
    "_core.pruned_forest(grown, u32(10**6), coefficients=np.ones((1, 2)), intercept=np.zeros(2))",
    "_core.pruned_forest(grown, u32(1, 1), coefficients=np.ones((2, 2)), intercept=np.zeros(2))",
    # multi-task trees
    "mt_tree(labels=np.full(30, 4, np.uint32))",
    "mt_tree(class_starts=u32(0, 2, 2))",
    "mt_tree(class_starts=u32(1, 4))",
    "mt_tree().classes(X, np.full(30, 2, np.uint32))",
    "mt_tree().classes(X[:, :2], np.zeros(30, np.uint32))",
    # boosting
    "boost(loss=softmax, labels=np.full(30, 3, np.float32))",
    "boost().model.tree_arrays(1)",
    "_core.draw_features(np.array([1.0, nan]), 1, seed=0, tree=0, node=0)",
    "_core.ForestProjection(np.ones((2, 3), np.float32)).project(np.ones((4, 2, 2), np.float32), "
    "seed=0, tree=0)",
]

RAISES = """
try:
    {call}
except (ValueError, TypeError):
    pass
else:
    raise AssertionError("nothing was raised")
"""


@pytest.mark.parametrize("call", [*NUMBERS, *ARRAYS])
def test_numbers_out_of_range_and_arrays_that_do_not_fit_are_refused(children, call):
    outcome = children.run(SETUP + RAISES.format(call=call), timeout=TIMEOUT)
    assert outcome.exit_code == 0, outcome


MARGINS = """
for name in ("squared", "absolute", "huber", "logistic"):
    own = _core.OutputLoss(name, 2)
    for value in (nan, inf, -inf, 3e38):
        for margins, direction in (
            (np.full((30, 2), value, np.float32), np.ones(30, np.float32)),
            (np.zeros((30, 2), np.float32), np.full(30, value, np.float32)),
        ):
            margins[::3] = direction[::4] = 0.5
            for call in (
                lambda: own.residuals(margins, np.ones((30, 2), np.float32)),
                lambda: own.steps(margins, np.ones((30, 2), np.float32), direction),
            ):
                try:
                    call()
                except RuntimeError as error:
                    assert "not finite" in str(error)
"""


def test_margins_that_are_not_finite_lead_nowhere(children):
    """There is no order among NaN, and selecting a median among them could leave the array."""
    outcome = children.run(SETUP + MARGINS, timeout=TIMEOUT)
    assert outcome.exit_code == 0, outcome
