# SPDX-License-Identifier: Apache-2.0
"""The C++ forests grow the naive twin's trees, and say what they say.

Structure, features, thresholds, default directions and lists of tasks are compared exactly, outputs
to 1e-12: means of at most some thousand numbers of size 100 in float64. Weights are kept as
float32; impurities next to 0 are left over from squares of size 1e4 at most.

Labels and weights are small integers, and labels that are numbers have an integer as mean: their
sums are then exact, whatever their order (see naive_forest on what else could differ).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from oracle import naive_forest as naive

from mtboost import _core

f32 = np.float32
UNKNOWN_TASK = 2**32 - 1
TASKS = 2**31 - 1  # the feature of a node that splits tasks
EXACT = 1e-12
KINDS = ("number", "zero-one", "numbers", "class", "labels", "values")


@dataclass(frozen=True, kw_only=True)
class Problem:
    data: naive.Data
    params: naive.Params
    kind: str = "number"
    n_tasks: int = 0
    n_trees: int = 2

    @property
    def n_features(self) -> int:
        return self.data.X.shape[1]

    def arrays(self) -> dict[str, np.ndarray | int | None]:
        """What grow() takes besides the table and the number of trees."""
        data = self.data
        arrays: dict[str, np.ndarray | int | None] = {"weights": data.weights}
        if data.tasks is not None:
            arrays["tasks"] = data.tasks.astype(np.uint32)
        if not data.are_labels:
            return arrays | {"y": data.Y}
        rows, labels = np.nonzero(data.Y)
        arrays |= {"labels": labels.astype(np.uint32), "n_labels": data.Y.shape[1]}
        if self.kind != "class":
            starts = np.searchsorted(rows, np.arange(len(data.Y) + 1))
            arrays["label_starts"] = starts.astype(np.uint64)
        if self.kind == "values":
            arrays["label_values"] = data.Y[rows, labels]
        return arrays

    def empty_forest(self) -> _core.Forest:
        params = _core.ForestParams(**asdict(self.params))
        return _core.Forest(params, n_features=self.n_features, n_tasks=self.n_tasks)

    def grow(self, n_threads: int = 1) -> _core.Forest:
        forest = self.empty_forest()
        columns = _core.FeatureColumns(self.data.X, n_threads=n_threads)
        forest.grow(columns, n_trees=self.n_trees, n_threads=n_threads, **self.arrays())
        return forest

    def grow_twins(self) -> list[naive.Tree]:
        return [naive.grow_tree(self.data, self.params, tree) for tree in range(self.n_trees)]

    def replace_params(self, **changes) -> Problem:
        return replace(self, params=replace(self.params, **changes))

    def replace_data(self, **changes) -> Problem:
        return replace(self, data=replace(self.data, **changes))

    def of_rows(self, rows: np.ndarray) -> Problem:
        """The same problem of these rows alone, in this order."""
        parts = {name: getattr(self.data, name) for name in ("X", "Y", "tasks", "weights")}
        return self.replace_data(**{n: p if p is None else p[rows] for n, p in parts.items()})


# Problems -----------------------------------------------------------------------------------------


def make_column(rng: np.random.Generator, kind: str, n_rows: int) -> np.ndarray:
    if kind == "continuous":
        return rng.normal(size=n_rows).astype(f32)
    if kind == "integers":
        return rng.integers(0, 4, n_rows).astype(f32)
    if kind == "neighbours":  # no number lies between them
        values = np.array([1, np.nextafter(f32(1), f32(2)), np.nextafter(f32(1), f32(0))], f32)
        return rng.choice(values, n_rows)
    if kind == "huge":
        return rng.choice(np.array([-3e38, 0, 3e38], f32), n_rows)
    if kind == "constant":
        return np.full(n_rows, 7, f32)
    assert kind == "missing"
    return np.full(n_rows, np.nan, f32)


COLUMNS = ("continuous", "integers", "neighbours", "huge", "constant", "missing")


def make_labels(
    rng: np.random.Generator, kind: str, weights: np.ndarray, effect: np.ndarray
) -> np.ndarray:
    """Dense labels that lean on an integer effect of each row; the mean of numbers is an integer.

    The last row, of weight 1, takes what the others leave of it.
    """
    n_rows = len(weights)
    if kind in ("number", "numbers"):
        n_outputs = 1 if kind == "number" else rng.integers(2, 5)
        Y = (effect[:, None] + rng.integers(-3, 4, (n_rows, n_outputs))).astype(float)
        Y[-1] += rng.integers(-1, 2, n_outputs) * weights.sum() - weights @ Y
        return Y
    if kind == "zero-one":
        return (effect + rng.integers(-1, 2, n_rows) > np.median(effect)).astype(float)[:, None]
    if kind == "class":
        n_classes = rng.integers(2, 7)
        noisy = effect - effect.min() + rng.integers(0, 2, n_rows)
        return np.eye(n_classes)[noisy * n_classes // (np.ptp(effect) + 2)]
    assert kind in ("labels", "values")
    n_labels = rng.integers(1, 9)
    chance = rng.random((1 + np.ptp(effect), n_labels))[effect - effect.min()]
    Y = (rng.random((n_rows, n_labels)) < chance).astype(float)
    return Y if kind == "labels" else Y * rng.integers(-3, 4, Y.shape)


@st.composite
def problems(draw: st.DrawFn, kinds=KINDS, has_tasks: bool | None = None) -> Problem:
    """The seed decides on most: drawn one by one, most choices would make for a small tree."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_rows = rng.choice([rng.integers(1, 6), rng.integers(6, 60)], p=[0.1, 0.9])
    columns = rng.choice(COLUMNS, rng.integers(1, 6), p=[0.5, 0.2, 0.1, 0.1, 0.05, 0.05])
    X = np.column_stack([make_column(rng, column, n_rows) for column in columns])
    X[rng.random(X.shape) < rng.choice([0, 0, 0.2, 0.8])] = np.nan
    if rng.random() < 0.3:  # two features that always tie
        X = np.column_stack([X, X[:, 0]])
    n_tasks = 0
    tasks = None
    effect = rng.integers(0, 3, n_rows)
    if rng.random() < 0.6 if has_tasks is None else has_tasks:
        n_tasks = rng.choice([1, 2, 5, 30])  # of 30 most are rare
        tasks = np.minimum(rng.integers(0, n_tasks, n_rows), rng.integers(0, n_tasks, n_rows))
        effect += rng.integers(0, 5, n_tasks)[tasks]
    has_bootstrap = rng.random() < 0.4
    weights = None
    if rng.random() < 0.4:
        weights = rng.integers(0, 4, n_rows) * 1.0
        weights[-1] = 1
    kind = draw(st.sampled_from(kinds))
    Y = make_labels(rng, kind, np.ones(n_rows) if weights is None else weights, effect)
    params = naive.Params(
        splitter=draw(st.sampled_from(["random", "best"])),
        max_features=int(rng.integers(1, X.shape[1] + 2)),
        max_depth=int(rng.choice([0, 1, 3, 2**32 - 1], p=[0.05, 0.1, 0.15, 0.7])),
        min_samples_split=int(rng.choice([2, 5], p=[0.7, 0.3])),
        min_samples_leaf=int(rng.choice([0, 1, 3], p=[0.1, 0.6, 0.3])),
        n_bootstrap=int(rng.integers(1, 2 * n_rows + 1)) if has_bootstrap else 0,
        task_split_prob=rng.choice([0.0, 0.3, 1.0]),
        alpha=rng.choice([0.0, 1.0, 2.5]),
        seed=draw(st.integers(0, 2**64 - 1)),
    )
    data = naive.Data(
        X=X, Y=Y, are_labels=kind in ("class", "labels", "values"), tasks=tasks, weights=weights
    )
    return Problem(data=data, params=params, kind=kind, n_tasks=int(n_tasks))


def new_rows(problem: Problem, n_rows: int = 30) -> tuple[np.ndarray, np.ndarray | None]:
    """A table to predict: values as in training in new places, any missing; unknown tasks as -1."""
    rng = np.random.default_rng(0)
    X = rng.permuted(np.resize(problem.data.X, (n_rows, problem.n_features)), axis=0)
    X[rng.random(X.shape) < 0.3] = np.nan
    tasks = rng.integers(-1, problem.n_tasks, n_rows) if problem.n_tasks else None
    return X, tasks


def as_codes(tasks: np.ndarray | None) -> np.ndarray | None:
    return None if tasks is None else np.where(tasks < 0, UNKNOWN_TASK, tasks).astype(np.uint32)


# Comparing ----------------------------------------------------------------------------------------


def leaf_outputs(arrays: dict[str, np.ndarray], n_outputs: int) -> np.ndarray:
    """Dense outputs of every leaf, in the order of the nodes."""
    leaves = arrays["feature"][arrays["left"] < 0]
    starts, values = arrays["leaf_starts"], arrays["leaf_values"]
    if len(starts) == 0:
        return values.reshape(-1, n_outputs)[leaves]
    vectors = np.zeros((len(starts) - 1, n_outputs))
    of_vector = np.repeat(np.arange(len(vectors)), np.diff(starts).astype(int))
    vectors[of_vector, arrays["leaf_outputs"]] = values
    return vectors[leaves]


def assert_same_tree(arrays: dict[str, np.ndarray], twin: naive.Tree, n_outputs: int) -> None:
    nodes = twin.nodes
    inner = np.array([node.left >= 0 for node in nodes])
    by_task = np.array([node.feature == naive.TASKS for node in nodes])
    assert_array_equal(arrays["left"], [node.left for node in nodes])
    feature = np.where(by_task, TASKS, [node.feature for node in nodes])
    assert_array_equal(arrays["feature"][inner], feature[inner])
    by_feature = inner & ~by_task
    threshold = np.array([node.threshold for node in nodes])
    assert_array_equal(arrays["threshold"][by_feature], threshold[by_feature])
    default_left = np.array([node.default_left for node in nodes])
    assert_array_equal(arrays["default_left"][inner], default_left[inner])
    starts = arrays["task_list_starts"]
    for at in np.flatnonzero(inner & by_task):
        task_list = arrays["threshold"].view(np.uint32)[at]  # a node of tasks has no threshold
        listed = arrays["listed_tasks"][starts[task_list] : starts[task_list + 1]]
        assert_array_equal(listed, nodes[at].listed_tasks)
    weight = np.array([node.weight for node in nodes])
    assert_array_equal(arrays["weight"], weight.astype(f32))
    impurity = np.array([node.loss for node in nodes]) / weight
    assert_allclose(arrays["impurity"], impurity, rtol=1e-6, atol=1e-10)
    means = np.array([node.mean for node in nodes])
    assert_allclose(leaf_outputs(arrays, n_outputs), means[~inner], rtol=EXACT, atol=EXACT)


def assert_same_forest(forest: _core.Forest, twins: list[naive.Tree], problem: Problem) -> None:
    assert forest.n_trees == len(twins)
    for number, twin in enumerate(twins):
        assert_same_tree(forest.tree_arrays(number), twin, problem.data.Y.shape[1])


def all_arrays(forest: _core.Forest) -> list[dict[str, bytes]]:
    trees = [forest.tree_arrays(number) for number in range(forest.n_trees)]
    return [{name: array.tobytes() for name, array in tree.items()} for tree in trees]


def divisions(forest: _core.Forest) -> list[list[np.ndarray]]:
    """What divides rows and tasks, without what the leaves say."""
    names = ("left", "threshold", "default_left", "task_list_starts", "listed_tasks")
    trees = [forest.tree_arrays(number) for number in range(forest.n_trees)]
    return [
        [tree[name].tobytes() for name in names] + [tree["feature"][tree["left"] >= 0].tobytes()]
        for tree in trees
    ]


# Fast and twin ------------------------------------------------------------------------------------


@given(problem=problems())
@settings(max_examples=150, deadline=None)
def test_forest_grows_the_twins_trees(problem: Problem) -> None:
    twins = problem.grow_twins()
    assume(not any(twin.is_doubtful for twin in twins))
    forest = problem.grow()
    assert_same_forest(forest, twins, problem)
    X, tasks = new_rows(problem)
    found = forest.predict(X, tasks=as_codes(tasks))
    assert_allclose(found, naive.predict(twins, X, tasks), rtol=EXACT, atol=EXACT)
    leaves = [
        [naive.leaf_of(twin, x, task) for twin in twins]
        for x, task in zip(X, np.full(len(X), -1) if tasks is None else tasks, strict=True)
    ]
    assert_array_equal(forest.leaves(X, tasks=as_codes(tasks)), leaves)


@given(problem=problems())
@settings(max_examples=60, deadline=None)
def test_importances_are_the_twins(problem: Problem) -> None:
    twins = [twin for twin in problem.grow_twins() if not twin.is_doubtful]
    # Impurities are differences of squares: of a tree that explains next to nothing, which only
    # happens by design (columns of chance), falls would be little else than rounding.
    for twin in twins:
        root = twin.nodes[0]
        ends = sum(node.loss for node in twin.nodes if node.left < 0)
        assume(len(twin.nodes) == 1 or root.loss - ends > 1e-2 * root.loss)
    assume(len(twins) == problem.n_trees)
    found = problem.grow().importances()
    assert_allclose(found, naive.importances(twins, problem.n_features), atol=1e-3)


def large_problem(
    kind: str, n_rows: int, n_features: int, n_tasks: int = 0, **params: object
) -> Problem:
    """Half of the features continuous, half of them small integers; two in a hundred missing."""
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [make_column(rng, COLUMNS[feature % 2], n_rows) for feature in range(n_features)]
    )
    X[rng.random(X.shape) < 0.02] = np.nan
    tasks = rng.integers(0, n_tasks, n_rows) if n_tasks else None
    effect = (2 * np.nan_to_num(X[:, 0])).astype(int) + 4
    if tasks is not None:
        effect += rng.integers(0, 6, n_tasks)[tasks]
    data = naive.Data(
        X=X,
        Y=make_labels(rng, kind, np.ones(n_rows), effect),
        are_labels=kind in ("class", "labels", "values"),
        tasks=tasks,
    )
    return Problem(data=data, params=naive.Params(**params), kind=kind, n_tasks=n_tasks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("splitter", ["random", "best"])
def test_trees_of_more_rows_than_a_block_are_the_twins(kind: str, splitter: str) -> None:
    """Sums are taken in blocks and lanes, values of subtrees of 4096 rows and less are copied."""
    problem = large_problem(
        kind, 5003, 4, n_tasks=300, splitter=splitter, max_depth=5, task_split_prob=1.0
    )
    if splitter == "best":  # the twin evaluates every cut
        problem = problem.replace_data(X=np.round(problem.data.X, 1))
        problem = problem.replace_params(min_samples_leaf=400)
    twins = problem.grow_twins()
    assert not any(twin.is_doubtful for twin in twins)
    assert {node.feature for twin in twins for node in twin.nodes} >= {0, naive.TASKS}
    assert_same_forest(problem.grow(), twins, problem)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "max_features"), [(60, 248, 30), (60, 248, 31), (24, 8300, 1038)]
)
def test_trees_of_many_features_are_the_twins(
    n_rows: int, n_features: int, max_features: int
) -> None:
    """If a node considers an eighth of the features, values are copied; of 8300 up to 16 rows."""
    problem = large_problem("number", n_rows, n_features, max_features=max_features)
    assert_same_forest(problem.grow(), problem.grow_twins(), problem)


@pytest.mark.parametrize("n_rows", [1, 7, 8, 9, 2047, 2049, 4100])
def test_predictions_of_any_number_of_rows_are_the_twins(n_rows: int) -> None:
    """Eight rows go down a tree in turns, and blocks of 2048 one after the other."""
    problem = large_problem("labels", 200, 4, n_tasks=9, max_depth=6, task_split_prob=1.0)
    forest, twins = problem.grow(), problem.grow_twins()
    X, tasks = new_rows(problem, n_rows)
    expected = naive.predict(twins, X, tasks)
    for n_threads in (1, 3):
        found = forest.predict(X, tasks=as_codes(tasks), n_threads=n_threads)
        assert_allclose(found, expected, rtol=EXACT, atol=EXACT)
    every_other = np.asfortranarray(np.repeat(X, 2, axis=1))[:, ::2]
    assert_array_equal(forest.predict(every_other, tasks=as_codes(tasks), n_threads=3), found)


def test_rows_too_wide_to_be_copied_are_read_wherever_they_lie() -> None:
    problem = large_problem("number", 30, 600)
    assert problem.n_trees * 256 < 600
    forest, X = problem.grow(), problem.data.X
    every_other = np.asfortranarray(np.repeat(X, 2, axis=1))[:, ::2]
    expected = naive.predict(problem.grow_twins(), X, None)
    for table in (X, every_other):
        assert_allclose(forest.predict(table), expected, rtol=EXACT, atol=EXACT)


@given(problem=problems(), n_trees=st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_out_of_bag_predictions_are_the_twins(problem: Problem, n_trees: int) -> None:
    n_rows = len(problem.data.X)
    problem = replace(problem, n_trees=n_trees)
    problem = problem.replace_params(n_bootstrap=problem.params.n_bootstrap or n_rows)
    twins = problem.grow_twins()
    assume(not any(twin.is_doubtful for twin in twins))
    X, tasks = problem.data.X, problem.data.tasks
    weights = problem.data.weights
    found = problem.grow().predict_out_of_bag(X, tasks=as_codes(tasks), weights=weights)
    expected = naive.predict_out_of_bag(twins, X, tasks)
    assert_allclose(found, expected, rtol=EXACT, atol=EXACT)  # NaN where the twin has it


def test_the_twin_would_see_another_tree() -> None:
    """The comparison can fail: one draw more, or one label changed, is seen."""
    problem = large_problem("number", 40, 3)
    twins = problem.grow_twins()
    for other in (
        problem.replace_params(seed=1),
        problem.replace_params(min_samples_leaf=2),
        problem.replace_data(Y=np.where(np.arange(40)[:, None] == 3, 90, problem.data.Y)),
    ):
        with pytest.raises(AssertionError):
            assert_same_forest(other.grow(), twins, problem)


# The draws ----------------------------------------------------------------------------------------


def test_a_bag_has_the_rows_that_the_twin_draws() -> None:
    """Of a tree that is one leaf, out-of-bag predictions tell which rows it was not drawn from."""
    problem = large_problem("number", 50, 1, n_bootstrap=30, max_depth=0, seed=5)
    X, ones = problem.data.X, np.ones(50)
    for number in range(3):
        forest = problem.empty_forest()
        columns = _core.FeatureColumns(X)
        forest.grow(columns, n_trees=number + 1, **problem.arrays())
        seen = np.isfinite(forest.predict_out_of_bag(X)[:, 0])
        counts = [naive.bootstrap_counts(problem.params, ones, tree) for tree in range(number + 1)]
        assert_array_equal(seen, np.min(counts, axis=0) == 0)


@pytest.mark.parametrize("splitter", ["random", "best"])
@pytest.mark.parametrize("alpha", [0.0, 1.0, 100.0])
def test_tasks_that_a_node_lacks_follow_the_prior(splitter: str, alpha: float) -> None:
    """Tasks of labels 0, 1, 9: the mean, 2, is nearer to those of 0 and 1, and most c are above."""
    tasks = np.repeat([0, 1, 2], [4, 4, 2])
    data = naive.Data(
        X=np.zeros((10, 1), f32), Y=np.array([0.0, 1, 8])[tasks][:, None], tasks=tasks
    )
    params = naive.Params(task_split_prob=1.0, splitter=splitter, alpha=alpha, max_depth=1)
    problem = Problem(data=data, params=params, n_tasks=5, n_trees=200)
    forest, twins = problem.grow(), problem.grow_twins()
    assert_same_forest(forest, twins, problem)
    X = np.zeros((5, 1), f32)
    by_task = forest.leaves(X, tasks=np.array([0, 1, 2, 3, UNKNOWN_TASK], np.uint32))
    assert_array_equal(by_task[3], by_task[4])
    assert (by_task[0] == 1).all()  # the least φ goes left, the largest right
    assert (by_task[2] == 2).all()
    if splitter == "best":  # 0 and 1 against 8, and γ with them
        assert (by_task[[1, 3]] == 1).all()
    else:  # c is uniform on (φ_0, φ_2], and φ as far apart as alpha lets them
        phi = np.array([(4 * 0 + alpha * 2) / (4 + alpha), (2 * 8 + alpha * 2) / (2 + alpha)])
        chance = (phi[1] - 2) / (phi[1] - phi[0])
        assert abs((by_task[3] == 1).mean() - chance) < 4 * np.sqrt(chance * (1 - chance) / 200)


# Identities ---------------------------------------------------------------------------------------


@given(problem=problems(has_tasks=True))
@settings(max_examples=50, deadline=None)
def test_without_task_splits_tasks_are_irrelevant(problem: Problem) -> None:
    problem = problem.replace_params(task_split_prob=0.0)
    without = replace(problem.replace_data(tasks=None), n_tasks=0)
    assert all_arrays(problem.grow()) == all_arrays(without.grow())


@given(problem=problems(has_tasks=True))
@settings(max_examples=50, deadline=None)
def test_one_task_is_never_divided(problem: Problem) -> None:
    problem = problem.replace_params(task_split_prob=1.0)
    problem = problem.replace_data(tasks=np.zeros_like(problem.data.tasks))
    forest = problem.grow()
    for number in range(forest.n_trees):
        tree = forest.tree_arrays(number)
        assert not (tree["feature"][tree["left"] >= 0] == TASKS).any()


@given(problem=problems(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_row_order_is_irrelevant(problem: Problem, seed: int) -> None:
    """Without a bootstrap, and of classes without task splits.

    Which rows are drawn depends on their places, and which class φ uses on their order.
    """
    problem = problem.replace_params(n_bootstrap=0)
    if problem.data.are_labels:
        problem = problem.replace_params(task_split_prob=0.0)
    assume(not any(twin.is_doubtful for twin in problem.grow_twins()))
    other = problem.of_rows(np.random.default_rng(seed).permutation(len(problem.data.X)))
    first, second = problem.grow(), other.grow()
    assert divisions(first) == divisions(second)
    X, tasks = new_rows(problem)
    assert_allclose(
        first.predict(X, tasks=as_codes(tasks)),
        second.predict(X, tasks=as_codes(tasks)),
        rtol=EXACT,
        atol=EXACT,
    )


@given(problem=problems())
@settings(max_examples=50, deadline=None)
def test_rows_of_weight_0_are_as_if_left_out(problem: Problem) -> None:
    weights = np.resize([1.0, 0, 2, 0, 0], len(problem.data.X))
    problem = problem.replace_data(weights=weights).replace_params(n_bootstrap=0)
    without = problem.of_rows(weights > 0)
    assert all_arrays(problem.grow()) == all_arrays(without.grow())


@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_weights_of_1_are_no_weights(problem: Problem) -> None:
    bare = problem.replace_data(weights=None)
    ones = problem.replace_data(weights=np.ones(len(problem.data.X)))
    assert all_arrays(bare.grow()) == all_arrays(ones.grow())


@given(problem=problems(kinds=("number", "numbers")))
@settings(max_examples=40, deadline=None)
def test_another_unit_of_labels_changes_only_outputs(problem: Problem) -> None:
    """y → 8y + 16: with whole numbers everything is scaled exactly, α included."""
    other = problem.replace_data(Y=8 * problem.data.Y + 16)
    first, second = problem.grow(), other.grow()
    assert divisions(first) == divisions(second)
    X, tasks = new_rows(problem)
    assert_allclose(
        second.predict(X, tasks=as_codes(tasks)),
        8 * first.predict(X, tasks=as_codes(tasks)) + 16,
        rtol=EXACT,
        atol=100 * EXACT,  # outputs of 100 cancel
    )


@given(problem=problems(kinds=("class",)))
@settings(max_examples=40, deadline=None)
def test_classes_are_labels_one_a_row(problem: Problem) -> None:
    """Both ways to hand them over: the sums are made in another order, yet of whole numbers."""
    labels = replace(problem, kind="labels")
    assert all_arrays(problem.grow()) == all_arrays(labels.grow())


@given(problem=problems(kinds=("class", "labels")))
@settings(max_examples=40, deadline=None)
def test_labels_grow_the_trees_of_their_indicators(problem: Problem) -> None:
    """Half the fall of Gini's index is the fall of the variance, summed over indicators."""
    assume(problem.data.Y.shape[1] > 1)
    # φ uses present labels only. Several numbers lose their mean as float32: 32 rows have one
    # that is exact.
    problem = problem.replace_params(task_split_prob=0.0)
    problem = replace(
        problem.replace_data(
            X=np.resize(problem.data.X, (32, problem.n_features)),
            Y=np.resize(problem.data.Y, (32, problem.data.Y.shape[1])),
            tasks=None,
            weights=None,
        ),
        n_tasks=0,
    )
    assume(not any(twin.is_doubtful for twin in problem.grow_twins()))
    numbers = replace(problem.replace_data(are_labels=False), kind="numbers")
    labelled, numbered = problem.grow(), numbers.grow()
    assert divisions(labelled) == divisions(numbered)
    X, tasks = new_rows(problem)
    assert_allclose(
        labelled.predict(X, tasks=as_codes(tasks)),
        numbered.predict(X, tasks=as_codes(tasks)),
        atol=EXACT,
    )


@given(problem=problems(kinds=("numbers", "labels", "values")), is_drawn=st.booleans())
@settings(max_examples=60, deadline=None)
def test_projected_trees_are_cut_by_components_and_labelled_by_outputs(
    problem: Problem, is_drawn: bool
) -> None:
    """Structure of the trees of YΦᵀ, leaves of Y. The entries are exact: integers, or ±1/2."""
    data, seed = problem.data, problem.params.seed
    given = np.random.default_rng(0).integers(-2, 3, (3, data.Y.shape[1])).astype(f32)
    projection = _core.ForestProjection(
        *(("rademacher",) if is_drawn else (given,)), **({"n_components": 4} if is_drawn else {})
    )
    if data.are_labels:  # φ would use components that are not 0 only
        problem = problem.replace_params(task_split_prob=0.0)
    forest = problem.empty_forest()
    columns = _core.FeatureColumns(data.X)
    forest.grow(columns, n_trees=problem.n_trees, projection=projection, **problem.arrays())
    for number in range(problem.n_trees):
        matrix = projection.matrix(n_outputs=data.Y.shape[1], seed=seed, tree=number)
        labels = data.Y if data.are_labels else data.Y - data.mean
        of_components = problem.replace_data(Y=labels @ matrix.T.astype(np.float64))
        twin = naive.grow_tree(of_components.data, problem.params, number)
        assume(not twin.is_doubtful)
        bag = np.flatnonzero(twin.is_in_bag & (data.all_weights > 0))
        tasks = np.full(len(data.X), -1) if data.tasks is None else data.tasks
        leaf = [naive.leaf_of(twin, data.X[row], int(tasks[row])) for row in bag]
        counts = naive.bootstrap_counts(problem.params, data.all_weights, number)
        weights = data.all_weights * counts
        for at, node in enumerate(twin.nodes):
            rows = bag[np.equal(leaf, at)]
            node.mean = weights[rows] @ data.Y[rows] / max(weights[rows].sum(), 1)
        assert_same_tree(forest.tree_arrays(number), twin, data.Y.shape[1])


def test_many_labels_are_kept_without_zeros_and_mean_the_same() -> None:
    rng = np.random.default_rng(0)
    problem = large_problem("number", 200, 3, n_tasks=0, max_depth=4)
    Y = (rng.random((200, 400)) < 0.01).astype(float)
    problem = replace(problem.replace_data(Y=Y, are_labels=True), kind="labels")
    forest = problem.grow()
    assert len(forest.tree_arrays(0)["leaf_starts"]) > 0
    twins = problem.grow_twins()
    assert_same_forest(forest, twins, problem)
    X, _ = new_rows(problem)
    assert_allclose(forest.predict(X), naive.predict(twins, X, None), atol=EXACT)


# Determinism --------------------------------------------------------------------------------------


@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_threads_change_nothing(problem: Problem) -> None:
    problem = replace(problem, n_trees=9)
    X, tasks = new_rows(problem)
    grown = {n_threads: problem.grow(n_threads) for n_threads in (1, 2, 7)}
    for n_threads, forest in grown.items():
        assert all_arrays(forest) == all_arrays(grown[1])
        found = forest.predict(X, tasks=as_codes(tasks), n_threads=n_threads)
        assert_array_equal(found, grown[1].predict(X, tasks=as_codes(tasks)))


@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_a_forest_grown_in_two_calls_is_the_one_grown_at_once(problem: Problem) -> None:
    problem = replace(problem, n_trees=5)
    forest = problem.empty_forest()
    columns = _core.FeatureColumns(problem.data.X)
    for n_trees in (2, 0, 3):
        forest.grow(columns, n_trees=n_trees, **problem.arrays())
    assert all_arrays(forest) == all_arrays(problem.grow())


# Trees as arrays ----------------------------------------------------------------------------------


@given(problem=problems())
@settings(max_examples=40, deadline=None)
def test_trees_come_back_from_their_arrays(problem: Problem) -> None:
    forest, copy = problem.grow(), problem.empty_forest()
    for number in range(forest.n_trees):
        copy.add_tree(forest.tree_arrays(number), n_outputs=problem.data.Y.shape[1])
    assert all_arrays(copy) == all_arrays(forest)
    assert copy.n_nodes == forest.n_nodes
    X, tasks = new_rows(problem)
    tasks = as_codes(tasks)
    assert_array_equal(copy.predict(X, tasks=tasks), forest.predict(X, tasks=tasks))
    assert_array_equal(copy.importances(), forest.importances())


# What the extension refuses -----------------------------------------------------------------------

X8 = np.arange(16, dtype=f32).reshape(8, 2)
Y8 = np.arange(8.0)[:, None]


def grow8(n_tasks: int = 0, n_bootstrap: int = 0, **arrays: object) -> _core.Forest:
    params = _core.ForestParams(n_bootstrap=n_bootstrap)
    forest = _core.Forest(params, n_features=2, n_tasks=n_tasks)
    forest.grow(_core.FeatureColumns(X8), n_trees=3, **arrays)
    return forest


CODES = np.zeros(8, np.uint32)
STARTS = np.arange(9, dtype=np.uint64)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "either y or labels"),
        ({"y": Y8, "labels": CODES, "n_labels": 1}, "either y or labels"),
        ({"y": Y8[:7]}, "y must have shape"),
        ({"y": Y8[:, 0]}, "y must have two dimensions"),
        ({"y": Y8[:, :0]}, "y must have shape"),
        ({"labels": CODES}, "n_labels must be at least 1"),
        ({"labels": CODES + np.uint32(2), "n_labels": 2}, "a label is not below n_labels"),
        ({"labels": CODES[:7], "n_labels": 2}, "labels must have shape"),
        ({"labels": CODES, "n_labels": 1, "label_starts": STARTS[:8]}, "label_starts must"),
        ({"labels": CODES, "n_labels": 1, "label_starts": STARTS[::-1].copy()}, "label_starts"),
        ({"labels": CODES, "n_labels": 1, "label_starts": STARTS + np.uint64(1)}, "label_starts"),
        ({"labels": CODES, "n_labels": 1, "label_starts": STARTS * STARTS}, "label_starts must"),
        (
            {"labels": CODES, "n_labels": 1, "label_starts": np.repeat(STARTS[[0, 8]], [1, 8])},
            "labels of a row must ascend",
        ),
        ({"y": Y8, "weights": np.ones(7)}, "weights must have shape"),
        ({"y": Y8, "weights": np.zeros(8)}, "no row has a weight above 0"),
        ({"y": Y8, "n_tasks": 2}, "tasks must be given"),
        ({"y": Y8, "n_tasks": 2, "tasks": CODES[:7]}, "tasks must have shape"),
        ({"y": Y8, "n_tasks": 2, "tasks": CODES + np.uint32(2)}, "a task is not below"),
        ({"y": Y8, "n_tasks": 2, "tasks": CODES + np.uint32(UNKNOWN_TASK)}, "a task is not below"),
        ({"y": Y8, "n_threads": 0}, "n_threads"),
    ],
)
def test_what_does_not_fit_is_refused(arrays: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grow8(**arrays)


def test_no_bag_is_empty_where_few_rows_have_a_weight() -> None:
    """Of 8 rows one counts: each of 50 trees has it, and all other rows are out of bag."""
    weights = np.eye(8)[5]
    forest = _core.Forest(_core.ForestParams(n_bootstrap=2), n_features=2)
    forest.grow(_core.FeatureColumns(X8), n_trees=50, y=Y8, weights=weights)
    assert_array_equal(forest.predict(X8), np.full((8, 1), Y8[5]))
    out_of_bag = forest.predict_out_of_bag(X8, weights=weights)
    assert_array_equal(out_of_bag[:, 0], np.where(weights > 0, np.nan, Y8[5]))
    with pytest.raises(ValueError, match="weights must have shape"):
        forest.predict_out_of_bag(X8, weights=weights[:7])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("n_bootstrap", [0, 2])
def test_rows_without_any_weight_are_an_error(n_bootstrap: int, n_threads: int) -> None:
    forest = _core.Forest(_core.ForestParams(n_bootstrap=n_bootstrap), n_features=2)
    with pytest.raises(ValueError, match="no row has a weight above 0"):
        forest.grow(
            _core.FeatureColumns(X8), n_trees=9, y=Y8, weights=np.zeros(8), n_threads=n_threads
        )
    assert forest.n_trees == 0


def test_tables_that_do_not_fit_the_forest_are_refused() -> None:
    with pytest.raises(ValueError, match="no rows or no columns"):
        _core.FeatureColumns(X8[:0])
    with pytest.raises(ValueError, match="no rows or no columns"):
        _core.FeatureColumns(X8[:, :0])
    forest = grow8(y=Y8)
    with pytest.raises(ValueError, match="other features"):
        forest.grow(_core.FeatureColumns(X8[:, :1].copy()), n_trees=1, y=Y8)
    with pytest.raises(ValueError, match="other features"):
        forest.predict(X8[:, :1])
    with pytest.raises(ValueError, match="without bootstrap"):
        forest.predict_out_of_bag(X8)
    with pytest.raises(ValueError, match="no trees"):
        _core.Forest(_core.ForestParams(), n_features=2).predict(X8)
    with pytest.raises(ValueError, match="no tree of this number"):
        forest.tree_arrays(3)


def test_no_rows_have_no_predictions() -> None:
    forest = grow8(y=Y8, n_bootstrap=8)
    none = X8[:0]
    assert forest.predict(none).shape == (0, 1)
    assert forest.predict_out_of_bag(none).shape == (0, 1)
    assert forest.leaves(none).shape == (0, 3)


# Values that a table should not have --------------------------------------------------------------


@pytest.mark.parametrize("splitter", ["random", "best"])
@pytest.mark.parametrize("seed", range(20))
def test_infinite_values_leave_no_node_without_rows(splitter: str, seed: int) -> None:
    """Nothing is finer than infinity: next to missing values x < infinity divides nothing."""
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([-np.inf, 0, np.inf, np.nan], f32), (30, 3))
    forest = _core.Forest(_core.ForestParams(splitter=splitter, seed=seed), n_features=3)
    forest.grow(_core.FeatureColumns(X), n_trees=5, y=rng.normal(size=(30, 1)))
    leaves = forest.leaves(X)
    for number in range(5):
        tree = forest.tree_arrays(number)
        ends = np.flatnonzero(tree["left"] < 0)
        assert_array_equal(np.unique(leaves[:, number]), ends)
        assert_array_equal(tree["weight"][ends], np.bincount(leaves[:, number])[ends])
