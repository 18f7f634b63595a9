# SPDX-License-Identifier: Apache-2.0
"""save() of every forest and load_model(): the same estimator comes back, or an error."""

import io
import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from model_archives import forged
from processes import environment, run_script
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError

import mtboost
from mtboost import (
    MTAdaBoostClassifier,
    MTDecisionTreeClassifier,
    MTExtraTreesClassifier,
    MTExtraTreesRegressor,
    ProjectedForestClassifier,
    ProjectedForestRegressor,
    _core,
    compress,
)
from mtboost.base.archive import FORMAT
from mtboost.errors import ModelFormatError

N_ROWS = 120
RNG = np.random.default_rng(0)
X = np.where(RNG.random((N_ROWS, 4)) < 0.1, np.nan, RNG.normal(size=(N_ROWS, 4)))
CSR = scipy.sparse.random_array((N_ROWS, 30), density=0.2, rng=RNG, format="csr")
CODES = np.arange(N_ROWS) % 3
SHOPS = np.array(["x", "y", "z"])[CODES]
VALUES = np.nan_to_num(X[:, 0]) + (CODES == 0) * np.nan_to_num(X[:, 1])
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(shop=SHOPS)
YES_OR_NO = np.where(VALUES > 0, "yes", "no")
THREE = np.digitize(VALUES, [-0.5, 0.5])
OUTPUTS = np.column_stack([VALUES, VALUES**2, RNG.normal(size=(N_ROWS, 4))])
INDICATORS = (OUTPUTS > 0.3).astype(int)
#: Labels of tasks that have nothing in common: str of one, int of the others.
MIXED = np.array([YES_OR_NO[i] if CODES[i] else int(THREE[i]) for i in range(N_ROWS)], object)
FEW = {"n_estimators": 6, "random_state": 0}
TREES = {**FEW, "min_samples_leaf": 3}
BAGS = {**TREES, "bootstrap": True, "oob_score": True}

# name: (estimator, table, labels, tasks)
FORESTS = {
    "str classes of str tasks": (MTExtraTreesClassifier(**TREES), X, YES_OR_NO, SHOPS),
    "int classes of int tasks": (MTExtraTreesClassifier(**BAGS), X, THREE, CODES),
    "bool classes of bool tasks": (MTExtraTreesClassifier(**TREES), X, VALUES > 0, CODES > 0),
    "float classes": (MTExtraTreesClassifier(**TREES), X, (VALUES > 0) * 2.0, None),
    "objects as classes": (MTExtraTreesClassifier(**TREES), X, YES_OR_NO.astype(object), None),
    "one class": (MTExtraTreesClassifier(**TREES), X, np.ones(N_ROWS), CODES),
    "a task column": (MTExtraTreesClassifier(task="shop", **TREES), FRAME, YES_OR_NO, None),
    "a task position": (
        MTExtraTreesRegressor(task=2, **TREES),
        np.column_stack([X[:, :2], CODES, X[:, 2:]]),
        VALUES,
        None,
    ),
    "numbers out of bag": (MTExtraTreesRegressor(**BAGS), X, VALUES, SHOPS),
    "a sparse table": (MTExtraTreesRegressor(**TREES), CSR, VALUES, SHOPS),
    "a generator": (
        MTExtraTreesRegressor(6, random_state=np.random.RandomState(3), max_features="sqrt"),
        X,
        VALUES,
        None,
    ),
    "projected classes": (ProjectedForestClassifier(oob_score=True, **FEW), X, YES_OR_NO, None),
    "projected labels": (ProjectedForestClassifier(**FEW), X, INDICATORS, None),
    "projected sparse labels": (
        ProjectedForestClassifier(projection="hadamard", **FEW),
        CSR,
        scipy.sparse.csr_array(INDICATORS),
        None,
    ),
    "projected numbers": (
        ProjectedForestRegressor(projection="pca", n_components=2, **BAGS),
        FRAME.drop(columns="shop"),
        OUTPUTS,
        None,
    ),
    "projected by a matrix": (
        ProjectedForestRegressor(projection=RNG.normal(size=(2, 6)), **FEW),
        X,
        OUTPUTS,
        None,
    ),
    "projected by a list": (
        ProjectedForestRegressor(projection=[[1.0, 0, 0, 0, 0, 0.5]], **FEW),
        X,
        OUTPUTS,
        None,
    ),
    "a column of numbers": (ProjectedForestRegressor(**FEW), X, OUTPUTS[:, :1], None),
    "a vector of numbers": (ProjectedForestRegressor(**FEW), X, VALUES, None),
}
TASK_TREES = {
    "a tree": (MTDecisionTreeClassifier(min_samples_leaf=3), X, YES_OR_NO, SHOPS),
    "a tree of a task column": (MTDecisionTreeClassifier(task="shop"), FRAME, MIXED, None),
    "boosted trees": (MTAdaBoostClassifier(4, max_depth=3), X, MIXED, CODES),
    "boosted trees of one task": (MTAdaBoostClassifier(4, max_depth=2), X, THREE, None),
}
COMPRESSED = {
    "compressed": (MTExtraTreesRegressor(task_split_prob=1.0, **TREES), X, VALUES, SHOPS),
    "compressed, a task column": (MTExtraTreesClassifier(task="shop", **TREES), FRAME, THREE, None),
    "compressed labels": (ProjectedForestClassifier(**FEW), CSR, INDICATORS, None),
    "compressed outputs": (ExtraTreesRegressor(**TREES), X, OUTPUTS, None),
    "compressed columns of classes": (
        RandomForestClassifier(**FEW),
        FRAME.drop(columns="shop"),
        np.column_stack([YES_OR_NO, THREE]).astype(object),
        None,
    ),
}


def fitted(name):
    """A fitted estimator and the arguments of its predictions."""
    estimator, table, y, task = {**FORESTS, **TASK_TREES, **COMPRESSED}[name]
    arguments = {} if task is None else {"task": task}
    estimator = clone(estimator)
    if name not in COMPRESSED:
        return estimator.fit(table, y, **arguments), table, arguments
    cross_validated = {"n_steps": "cv", "max_steps": 60, "epsilon": 0.1, "cv": 2, "random_state": 0}
    options = cross_validated if name == "compressed" else {"n_steps": 40, "epsilon": 0.1}
    return compress(estimator, table, y, **arguments, **options), table, arguments


@pytest.fixture(scope="module")
def made():
    """What `fitted` gives, made once; tests leave it as it is."""
    return {name: fitted(name) for name in (*FORESTS, *TASK_TREES, *COMPRESSED)}


EVERY = pytest.mark.parametrize("name", [*FORESTS, *TASK_TREES, *COMPRESSED])
# One file of each class and kind of labels.
KINDS = pytest.mark.parametrize(
    "name",
    [
        "int classes of int tasks",
        "a task position",
        "projected sparse labels",
        "projected numbers",
        "a tree of a task column",
        "boosted trees",
        "compressed",
        "compressed columns of classes",
    ],
)


def answers(estimator, table, arguments):
    """Everything that an estimator says of rows and of itself."""
    found = {
        name: getattr(estimator, name)(table, **arguments)
        for name in ("predict", "predict_proba", "apply")
        if hasattr(estimator, name)
    }
    if hasattr(estimator, "feature_importances_"):
        found["importances"] = estimator.feature_importances_
    if hasattr(estimator, "to_text"):
        is_one = isinstance(estimator, MTDecisionTreeClassifier)
        found["text"] = estimator.to_text() if is_one else estimator.to_text(-1)
    return found


def assert_same(found, expected):
    """Bitwise identical, and of the same type."""
    assert type(found) is type(expected)
    if scipy.sparse.issparse(found):
        found, expected = found.toarray(), expected.toarray()
    if isinstance(found, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        if found.dtype == object:
            assert list(map(type, found.flat)) == list(map(type, expected.flat))
    elif isinstance(found, dict):
        assert list(found) == list(expected)
        for key in found:
            assert_same(found[key], expected[key])
    elif isinstance(found, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(found, float):
        np.testing.assert_equal(found, expected)
    else:
        assert found == expected


def public(estimator):
    """Fitted attributes, but for the trees, which answer for themselves."""
    trees = {"forest_", "tree_", "trees_", "cv_curve_"}
    return {
        name: value
        for name, value in sorted(vars(estimator).items())
        if name.endswith("_") and name not in trees
    }


def loaded(estimator, path):
    estimator.save(path)
    return mtboost.load_model(path)


# ---- round trips --------------------------------------------------------------------------------


@EVERY
def test_the_same_estimator_comes_back(made, name, tmp_path):
    estimator, table, arguments = made[name]
    found = loaded(estimator, tmp_path / "forest.mtb")
    assert type(found) is type(estimator)
    assert vars(found).keys() == vars(estimator).keys()
    assert_same(public(found), public(estimator))
    parameters = estimator.get_params()
    if name == "a generator":
        parameters["random_state"] = None
    assert_same(found.get_params(), parameters)
    assert_same(answers(found, table, arguments), answers(estimator, table, arguments))


@EVERY
def test_a_file_of_what_a_file_held_has_the_same_bytes(made, name, tmp_path):
    made[name][0].save(tmp_path / "one")
    mtboost.load_model(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_pickle_of_what_a_file_held_answers_the_same(made, tmp_path):
    for name, (estimator, table, arguments) in made.items():
        found = pickle.loads(pickle.dumps(loaded(estimator, tmp_path / name)))
        assert_same(answers(found, table, arguments), answers(estimator, table, arguments))


@pytest.mark.parametrize("name", FORESTS)
def test_warm_start_goes_on_as_without_the_detour(name, tmp_path):
    _, table, y, task = FORESTS[name]
    arguments = {} if task is None else {"task": task}
    estimator = fitted(name)[0]
    found = loaded(estimator, tmp_path / "few")
    for each in (estimator, found):
        each.set_params(n_estimators=11, warm_start=True, random_state=None)
        each.fit(table, y, **arguments)
    assert found.forest_.n_trees == 11
    estimator.save(tmp_path / "one")
    found.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_curve_of_a_compressed_forest_comes_back(made, tmp_path):
    estimator = made["compressed"][0]
    found = loaded(estimator, tmp_path / "forest.mtb")
    assert found.cv_curve_.best == estimator.cv_curve_.best
    np.testing.assert_array_equal(found.cv_curve_.loss, estimator.cv_curve_.loss)
    np.testing.assert_array_equal(
        found.cv_curve_.standard_error, estimator.cv_curve_.standard_error
    )
    assert loaded(made["compressed outputs"][0], tmp_path / "forest.mtb").cv_curve_ is None


def test_columns_are_still_checked_by_name(made, tmp_path):
    found = loaded(made["a task column"][0], tmp_path / "forest.mtb")
    with pytest.raises(ValueError, match="feature names"):
        found.predict(FRAME[["b", "a", "c", "d", "shop"]])


def test_a_score_that_is_no_number_comes_back(tmp_path):
    estimator = MTExtraTreesRegressor(**BAGS).fit(X, VALUES)
    estimator.oob_score_ = float("nan")  # R² of a single row, for example
    assert np.isnan(loaded(estimator, tmp_path / "forest.mtb").oob_score_)


def test_another_process_predicts_the_same(made, tmp_path):
    estimator = made["str classes of str tasks"][0]
    estimator.save(tmp_path / "forest.mtb")
    expected = estimator.predict_proba(X, task=SHOPS)
    for name, array in {"X": X, "task": SHOPS, "expected": expected}.items():
        np.save(tmp_path / f"{name}.npy", array)
    script = (
        "import numpy, mtboost\n"
        "X, task, expected = (numpy.load(f'{name}.npy') for name in ('X', 'task', 'expected'))\n"
        "found = mtboost.load_model('forest.mtb').predict_proba(X, task=task)\n"
        "numpy.testing.assert_array_equal(found, expected)\n"
    )
    run_script(script, cwd=tmp_path, env=environment())


# ---- the file -----------------------------------------------------------------------------------


@EVERY
def test_members_are_json_and_arrays_that_numpy_reads_without_pickle(made, name, tmp_path):
    made[name][0].save(tmp_path / "forest.mtb")
    with zipfile.ZipFile(tmp_path / "forest.mtb") as archive:
        meta = json.loads(archive.read("mtboost.json"))
        assert meta["format"] == FORMAT
        assert meta["estimator"] == type(made[name][0]).__name__
        for member in set(archive.namelist()) - {"mtboost.json", "mtboost.sha256"}:
            array = np.load(io.BytesIO(archive.read(member)), allow_pickle=False)
            assert isinstance(array, np.ndarray)


def test_there_are_few_members_whatever_the_number_of_trees(tmp_path):
    for model in (
        MTExtraTreesRegressor(50, random_state=0).fit(X, VALUES, task=CODES),
        MTAdaBoostClassifier(20, max_depth=2).fit(X, THREE, task=CODES),
    ):
        model.save(tmp_path / "forest.mtb")
        with zipfile.ZipFile(tmp_path / "forest.mtb") as archive:
            assert len(archive.namelist()) < 30


def test_keys_and_arrays_are_documented(made, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "model_file.md").read_text("utf-8")
    for estimator, _, _ in made.values():
        estimator.save(tmp_path / "forest.mtb")
        with zipfile.ZipFile(tmp_path / "forest.mtb") as archive:
            meta = json.loads(archive.read("mtboost.json"))
        parts = (
            meta[key] for key in ("trees", "task_classes", "labels", "cv_curve") if key in meta
        )
        for key in (*meta, *(key for part in parts for key in part or ())):
            assert f"`{key}`" in page, key


# ---- what cannot be saved -----------------------------------------------------------------------


def test_there_is_nothing_to_save_before_fit(tmp_path):
    for estimator in (
        MTExtraTreesRegressor(),
        ProjectedForestClassifier(),
        MTDecisionTreeClassifier(),
        MTAdaBoostClassifier(),
        mtboost.estimators.forests.CompressedForestRegressor(),
    ):
        with pytest.raises(NotFittedError):
            estimator.save(tmp_path / "forest.mtb")
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_that_no_file_can_hold_leaves_the_old_file_and_nothing_else(made, tmp_path):
    path, before = raw_of(made, "a tree", tmp_path)
    other = fitted("numbers out of bag")[0].set_params(alpha=object())
    with pytest.raises(ModelFormatError, match="parameters/alpha holds a object"):
        other.save(path)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["forest.mtb"]


def test_classes_of_the_users_own_are_not_saved(tmp_path):
    class Own(MTExtraTreesRegressor):
        pass

    with pytest.raises(ModelFormatError, match="Own is not a class of mtboost.*pickle it"):
        Own(2).fit(X, VALUES).save(tmp_path / "forest.mtb")


# ---- damaged and foreign files ------------------------------------------------------------------


def raw_of(made, name, tmp_path):
    path = tmp_path / "forest.mtb"
    made[name][0].save(path)
    return path, path.read_bytes()


def as_npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def refused(path):
    return pytest.raises(ModelFormatError, match=rf"{path.name} is not an mtboost model")


def other_arrays(array, rng):
    """Arrays that a careless or hostile program may have written instead."""
    yield array[:-1]
    yield np.concatenate([array, array[-1:]])
    yield array[np.newaxis]
    yield np.array([], dtype=array.dtype)
    if array.dtype.names is None:
        yield array.astype("U")
        yield np.zeros(array.shape, np.complex128)
    if array.dtype.kind in "iuf":
        yield np.full_like(array, np.iinfo(array.dtype).max if array.dtype.kind != "f" else np.nan)
        yield array[::-1]
        yield array + array.dtype.type(1)
        yield np.zeros_like(array)
        for _ in range(3):
            yield rng.permutation(array)
            changed = array.copy()
            changed[rng.integers(len(array))] = rng.integers(0, 100)
            yield changed


@KINDS
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # values that were made up may overflow
def test_other_arrays_are_refused_or_predict(made, name, tmp_path):
    """A file that is whole but says something else never leaves the arrays."""
    path, raw = raw_of(made, name, tmp_path)
    _, table, arguments = made[name]
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    rng = np.random.default_rng(2)
    n_refused = n_read = 0
    for member in sorted(set(members) - {"mtboost.json", "mtboost.sha256"}):
        array = np.load(io.BytesIO(members[member]), allow_pickle=False)
        if array.size == 0:
            continue
        for other in other_arrays(array, rng):
            path.write_bytes(
                forged(raw, lambda parts, m=member, o=other: parts.update({m: as_npy(o)}))
            )
            try:
                found = mtboost.load_model(path)
            except ModelFormatError:
                n_refused += 1
                continue
            n_read += 1
            for method in ("predict", "predict_proba", "apply"):
                if hasattr(found, method):
                    getattr(found, method)(table, **arguments)
    assert n_refused > 50
    assert n_read > 0


@KINDS
def test_members_that_are_missing_truncated_or_no_arrays_are_refused(made, name, tmp_path):
    path, raw = raw_of(made, name, tmp_path)
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        sizes = {each.filename: each.file_size for each in archive.infolist()}
    del sizes["mtboost.sha256"]  # which is written anew
    objects = io.BytesIO()
    np.save(objects, np.array([{}], object), allow_pickle=True)
    for member, size in sizes.items():
        for content in (None, b"", b"\x93NUMPY", objects.getvalue(), pickle.dumps([1])):

            def change(parts, member=member, content=content):
                if content is None:
                    del parts[member]
                else:
                    parts[member] = content

            path.write_bytes(forged(raw, change))
            with refused(path):
                mtboost.load_model(path)
        n_kept = size - 1 if size > 128 else 100  # a header has 128 bytes
        path.write_bytes(forged(raw, lambda p, m=member, n=n_kept: p.update({m: p[m][:n]})))
        with refused(path):
            mtboost.load_model(path)


def places(value, place=()):
    """Every place in JSON."""
    if place:
        yield list(place)
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(each, (*place, key))


def with_another(meta, place, value):
    """A copy with another value at one place; ... takes it out."""
    other = json.loads(json.dumps(meta))
    part = other
    for key in place[:-1]:
        part = part[key]
    if value is ...:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    return other


@KINDS
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_other_json_is_refused_or_predicts(made, name, tmp_path):
    path, raw = raw_of(made, name, tmp_path)
    _, table, arguments = made[name]
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        meta = json.loads(archive.read("mtboost.json"))
    n_refused = 0
    parameters = meta.pop("parameters")  # may be anything until fit checks them
    for place in places(meta):
        for value in (..., None, -1, 2**40, 0.5, "x", {"array": "trees/left.npy"}):
            other = with_another(meta | {"parameters": parameters}, place, value)
            path.write_bytes(
                forged(raw, lambda p, o=other: p.update({"mtboost.json": json.dumps(o).encode()}))
            )
            try:
                found = mtboost.load_model(path)
            except ModelFormatError:
                n_refused += 1
                continue
            if place[1:2] in (["tasks"], ["feature_names_in"]):  # a model of other names is one
                continue
            for method in ("predict", "predict_proba", "apply"):
                if hasattr(found, method):
                    getattr(found, method)(table, **arguments)
    assert n_refused > 100


def test_other_kinds_of_estimators_are_refused(made, tmp_path):
    path, raw = raw_of(made, "a task position", tmp_path)
    others = ("MultiTaskRegressor", "SavedEstimator", "os.system", "MTAdaBoostClassifier", 3, None)
    for kind in others:

        def change(parts, kind=kind):
            meta = json.loads(parts["mtboost.json"]) | {"estimator": kind}
            parts["mtboost.json"] = json.dumps(meta).encode()

        path.write_bytes(forged(raw, change))
        with refused(path):
            mtboost.load_model(path)


@pytest.mark.parametrize("field", ["left", "leaf_values"])
@pytest.mark.parametrize("starts", [[0, 0, 0], [0, 9, 5], [-1, 2, 5], [0, 2**62, 5]])
def test_parts_of_trees_that_are_not_theirs_are_refused(made, tmp_path, field, starts):
    path, raw = raw_of(made, "a tree", tmp_path)

    def change(parts):
        found = np.load(io.BytesIO(parts["trees/starts.npy"]))
        changed = np.zeros(3, found.dtype)  # of two trees, the first of which has nothing
        for name in found.dtype.names:
            changed[name][2] = found[name][-1]
        changed[field] = starts
        parts["trees/starts.npy"] = as_npy(changed)

    path.write_bytes(forged(raw, change))
    with refused(path):
        mtboost.load_model(path)


def test_a_pickle_with_other_arrays_is_refused(made):
    forest = made["int classes of int tasks"][0].forest_
    *numbers, arrays = forest.__getstate__()
    for name in arrays:
        longer = np.concatenate([arrays[name], np.zeros(1, arrays[name].dtype)])
        for changed in (arrays | {name: longer}, arrays | {name: None}):
            other = _core.Forest.__new__(_core.Forest)
            with pytest.raises((ValueError, RuntimeError), match="."):
                other.__setstate__((*numbers, changed))


def test_an_older_mtboost_asks_to_upgrade(made, tmp_path, monkeypatch):
    path, _ = raw_of(made, "a tree", tmp_path)
    monkeypatch.setattr("mtboost.base.archive.FORMAT", 4)  # as before there were digests
    with pytest.raises(ModelFormatError, match=r"format 7; this mtboost reads up to 4: upgrade"):
        mtboost.load_model(path)
