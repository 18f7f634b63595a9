# SPDX-License-Identifier: Apache-2.0
"""A model file is whole or was never written; what is read back is the same model."""

import copy
import hashlib
import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pandas as pd
import pytest
import xgboost
from libraries import LIBRARIES
from model_archives import forged, forged_metadata, in_old_layout, unpacked
from model_documents import assert_same_model
from processes import environment, run_script

import mtboost
from mtboost.errors import ModelFormatError
from mtboost.model.model import MultiTaskModel
from mtboost.xgboost import TaskSplit

pytestmark = pytest.mark.usefixtures("one_thread_unless_asked")


RNG = np.random.default_rng(0)
N = 300
X = np.where(RNG.random((N, 3)) < 0.1, np.nan, RNG.normal(size=(N, 3)))
Y = np.nan_to_num(X[:, 0]) + RNG.normal(size=N)
CODES = RNG.integers(0, 3, N)
FRAME = pd.DataFrame(X, columns=["p", "q", "r"]).assign(
    color=pd.Categorical(RNG.choice(["red", "green", "blue"], N))
)


def fit(X=X, y=Y, task=CODES, library=LIBRARIES["xgboost"], **options):
    given = {"num_boost_round": 6, "specific_rounds": 4, "n_threads": 1, "strategy": "two-stage"}
    return mtboost.fit(X, y, task=task, backend=library.name, **{**given, **options})


def own_columns(code):
    return FRAME.loc[code == CODES, ["p", "q", ["r", "color", "r"][code]]]


# name: (arguments of fit, arguments of predict)
BY_TASK = {code: own_columns(code) for code in range(3)}
SHOPS = FRAME.assign(shop=CODES)
MODELS = {
    "int tasks": ({}, (X, CODES)),
    "str tasks": ({"task": CODES.astype(str)}, (X, CODES.astype(str))),
    "bool tasks": ({"task": CODES > 0}, (X, CODES > 0)),
    "one task": ({"task": None}, (X, None)),
    "task column": ({"X": SHOPS, "task": "shop"}, (SHOPS, None)),
    "categories": ({"X": FRAME}, (FRAME, CODES)),
    "classes": ({"y": np.digitize(Y, [-1, 1]), "objective": "multiclass"}, (X, CODES)),
    "different columns": (
        {"X": BY_TASK, "y": {code: Y[code == CODES] for code in range(3)}, "task": None},
        (BY_TASK, None),
    ),
    "no specific models": ({"specific_rounds": 0}, (X, CODES)),
}


def assert_equal_models(found, expected, rows, task):
    assert type(found) is MultiTaskModel
    raw = LIBRARIES[expected.backend].raw
    assert found.quit_round == expected.quit_round
    assert list(map(type, found.tasks)) == list(map(type, expected.tasks))
    for name in ("backend", "objective", "metric", "task_column", "common_columns", "task_columns"):
        assert getattr(found, name) == getattr(expected, name)
    assert found.common_columns.categories == expected.common_columns.categories
    assert raw(found.common) == raw(expected.common)
    for name in expected.tasks:
        assert (found.specific[name] is None) == (expected.specific[name] is None)
        found_columns, columns = found.task_columns[name], expected.task_columns[name]
        assert found_columns.categories == columns.categories
        assert raw(found.booster(name)) == raw(expected.booster(name))
        for stage in ("common", "specific"):
            np.testing.assert_array_equal(found.history[name][stage], expected.history[name][stage])
    pd.testing.assert_frame_equal(found.report(), expected.report())
    margins, same = (model.predict_margin(rows, task=task) for model in (expected, found))
    if isinstance(margins, dict):
        assert list(margins) == list(same)
        margins, same = (np.concatenate(list(each.values())) for each in (margins, same))
    np.testing.assert_array_equal(same, margins)


COPIES = {
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, path: copy.deepcopy(model),
    "copy": lambda model, path: copy.copy(model),
    "file": lambda model, path: (model.save(path), mtboost.load_model(path))[1],
    "file of a file": lambda model, path: (
        model.save(path),
        mtboost.load_model(path).save(str(path)),
        mtboost.load_model(str(path)),
    )[2],
}


@pytest.mark.parametrize("make_copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(("arguments", "where"), MODELS.values(), ids=MODELS)
def test_a_copy_is_the_same_model(library, arguments, where, make_copy, tmp_path):
    if "objective" in arguments:
        arguments = {**arguments, "objective": getattr(library, arguments["objective"])}
    model, (rows, task) = fit(library=library, **arguments), where
    assert_equal_models(make_copy(model, tmp_path / "model.mtb"), model, rows, task)


def test_a_saved_model_is_read_in_another_process(library, tmp_path):
    model = fit(library=library)
    model.save(tmp_path / "model.mtb")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "task.npy", CODES)
    np.save(tmp_path / "margins.npy", model.predict_margin(X, task=CODES))
    script = (
        "import numpy, mtboost\n"
        "X, task, margins = (numpy.load(f'{name}.npy') for name in ('X', 'task', 'margins'))\n"
        "found = mtboost.load_model('model.mtb').predict_margin(X, task=task)\n"
        "numpy.testing.assert_array_equal(found, margins)\n"
    )
    run_script(script, cwd=tmp_path, env=environment())


def test_the_same_model_gives_the_same_bytes(library, tmp_path):
    # Also at another time of day: a file holds no date.
    fit(library=library).save(tmp_path / "one.mtb")
    fit(library=library).save(tmp_path / "two.mtb")
    assert (tmp_path / "one.mtb").read_bytes() == (tmp_path / "two.mtb").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.mtb") as archive:
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_others_may_read_the_file_if_they_may_read_any_other(tmp_path):
    fit().save(tmp_path / "model.mtb")
    (tmp_path / "other").write_bytes(b"")
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1


# ---- a failed save --------------------------------------------------------------------------


class DiskFullError(OSError):
    pass


def fail(*_, **__):
    raise DiskFullError("no space left on device")


def interrupt(*_, **__):
    raise KeyboardInterrupt


FAILURES = {
    "the disk is full while writing": (os, "fsync", fail, DiskFullError),
    "the file cannot be moved": (os, "replace", fail, DiskFullError),
    "interrupted": (os, "fsync", interrupt, KeyboardInterrupt),
    "a booster cannot be written": (xgboost.Booster, "save_raw", fail, DiskFullError),
}


@pytest.mark.parametrize(("owner", "name", "replacement", "error"), FAILURES.values(), ids=FAILURES)
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path, monkeypatch, owner, name, replacement, error
):
    path = tmp_path / "model.mtb"
    fit().save(path)
    before = path.read_bytes()
    other = fit(num_boost_round=2)
    monkeypatch.setattr(owner, name, replacement)
    with pytest.raises(error):
        other.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["model.mtb"]


def test_a_folder_that_does_not_exist_is_not_made(tmp_path):
    with pytest.raises(FileNotFoundError):
        fit().save(tmp_path / "nowhere" / "model.mtb")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="links, modes and FIFOs of POSIX")
def test_a_link_is_followed_and_the_mode_stays(tmp_path):
    (tmp_path / "v1.mtb").write_bytes(b"")
    (tmp_path / "v1.mtb").chmod(0o600)
    (tmp_path / "model.mtb").symlink_to("v1.mtb")
    model = fit()
    model.save(tmp_path / "model.mtb")
    assert (tmp_path / "model.mtb").is_symlink()
    assert stat.S_IMODE((tmp_path / "v1.mtb").stat().st_mode) == 0o600
    assert_equal_models(mtboost.load_model(tmp_path / "v1.mtb"), model, X, CODES)


@pytest.mark.skipif(os.name != "posix", reason="links, modes and FIFOs of POSIX")
def test_what_is_no_file_is_refused_before_any_work(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "model.mtb")
    model = fit()
    monkeypatch.setattr(xgboost.Booster, "save_raw", fail)
    with pytest.raises(OSError, match="this is a FIFO"):
        model.save(tmp_path / "model.mtb")
    assert stat.S_ISFIFO((tmp_path / "model.mtb").stat().st_mode)


def test_paths_may_be_bytes(tmp_path):
    model, path = fit(), os.fsencode(tmp_path / "model.mtb")
    model.save(path)
    assert_equal_models(mtboost.load_model(path), model, X, CODES)
    assert [each.name for each in tmp_path.iterdir()] == ["model.mtb"]


# ---- formats --------------------------------------------------------------------------------


def test_a_file_lists_its_members_with_sizes_and_digests(library, tmp_path):
    model = fit(library=library)
    model.save(tmp_path / "model.mtb")
    members = unpacked((tmp_path / "model.mtb").read_bytes())
    meta = json.loads(members["mtboost.json"])
    assert (meta["format"], meta["backend"]) == (7, library.name)
    suffix = {"xgboost": "ubj", "lightgbm": "txt"}[library.name]
    specific = {f"specific/{task}.{suffix}" for task in range(3) if model.specific[task]}
    assert meta["members"].keys() == {f"common.{suffix}", *specific}
    assert members.keys() == {"mtboost.json", "mtboost.sha256", *meta["members"]}
    for name, listed in meta["members"].items():
        digest = hashlib.sha256(members[name]).hexdigest()
        assert listed == {"size": len(members[name]), "sha256": digest}
    digest = hashlib.sha256(members["mtboost.json"]).hexdigest()
    assert members["mtboost.sha256"].decode() == f"{digest}  mtboost.json\n"


def test_a_file_from_before_there_was_lightgbm_is_read(tmp_path):
    def without_backend(members):
        meta = json.loads(members["mtboost.json"])
        del meta["backend"]
        members["mtboost.json"] = json.dumps(meta).encode()

    model = fit()
    path = tmp_path / "model.mtb"
    model.save(path)
    path.write_bytes(in_old_layout(path.read_bytes(), without_backend))
    assert_equal_models(mtboost.load_model(path), model, X, CODES)


def test_a_model_of_lightgbm_says_that_lightgbm_is_missing(tmp_path):
    fit(library=LIBRARIES["lightgbm"]).save(tmp_path / "model.mtb")
    script = (
        "import sys\n"
        "sys.modules['lightgbm'] = None\n"  # import finds nothing
        "import mtboost\n"
        "try:\n"
        "    mtboost.load_model('model.mtb')\n"
        "except mtboost.errors.MissingDependencyError as error:\n"
        "    assert \"pip install 'mtboost[lightgbm]'\" in str(error), error\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    run_script(script, cwd=tmp_path, env=environment())


# ---- damaged and foreign files --------------------------------------------------------------


@pytest.fixture(scope="module", params=LIBRARIES.values(), ids=LIBRARIES)
def raw(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.mtb"
    fit(library=request.param).save(path)
    return path.read_bytes()


def without(*names):
    def change(meta):
        part = meta
        for name in names[:-1]:
            part = part[name]
        del part[names[-1]]
        return meta

    return change


def with_metadata(text):
    return lambda members: members.update({"mtboost.json": text})


FOREIGN = {
    "no mtboost.json": lambda members: members.pop("mtboost.json"),
    "no JSON": with_metadata(b"{"),
    "other JSON": with_metadata(b"[1, 2]"),
    "deep JSON": with_metadata(b"[" * 100_000),
    "no UTF-8": with_metadata(b'"\xff"'),
}
OTHER_METADATA = {
    "no format": without("format"),
    "format is text": lambda meta: {**meta, "format": "one"},
    "format is true": lambda meta: {**meta, "format": True},
    "format is 0": lambda meta: {**meta, "format": 0},
    "no tasks": without("tasks"),
    "tasks are empty": lambda meta: {**meta, "tasks": []},
    "tasks are equal": lambda meta: {**meta, "tasks": [meta["tasks"][0]] * 3},
    "a task without quit round": without("tasks", 0, "quit_round"),
    "a task without report": without("tasks", 0, "report"),
    "a report without scores": without("tasks", 0, "report", "scores"),
    "no columns": without("common_columns"),
    "other columns": lambda meta: {**meta, "common_columns": meta["common_columns"] | {"n": 2}},
    "no objective": lambda meta: {**meta, "objective": None},
    "an unknown entry in a report": lambda meta: {
        **meta,
        "tasks": [{**meta["tasks"][0], "report": {"other": 1}}, *meta["tasks"][1:]],
    },
    "an unknown key": lambda meta: {**meta, "other": 1},
}


@pytest.mark.parametrize("change", FOREIGN.values(), ids=FOREIGN)
@pytest.mark.parametrize("rewrite", [forged, in_old_layout])
def test_an_archive_of_another_content_is_refused(raw, tmp_path, change, rewrite):
    path = tmp_path / "model.mtb"
    path.write_bytes(rewrite(raw, change))
    with pytest.raises(ModelFormatError, match=r"model\.mtb is not an mtboost model"):
        mtboost.load_model(path)


@pytest.mark.parametrize("change", OTHER_METADATA.values(), ids=OTHER_METADATA)
def test_metadata_that_do_not_fit_are_refused(raw, tmp_path, change):
    path = tmp_path / "model.mtb"
    path.write_bytes(forged_metadata(raw, change))
    with pytest.raises(ModelFormatError, match=r"model\.mtb is not an mtboost model"):
        mtboost.load_model(path)


def test_files_of_other_programs_are_refused(tmp_path):
    booster = xgboost.train({}, xgboost.DMatrix(X, Y), 2)
    booster.save_model(tmp_path / "booster.ubj")
    booster.save_model(tmp_path / "booster.json")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "pickle").write_bytes(pickle.dumps(booster))
    for path in list(tmp_path.iterdir()):
        with pytest.raises(ModelFormatError, match=f"{path.name} is not an mtboost model"):
            mtboost.load_model(path)


def test_a_file_of_a_newer_version_is_refused(raw, tmp_path):
    path = tmp_path / "model.mtb"
    path.write_bytes(forged_metadata(raw, lambda meta: {**meta, "format": 1000}))
    with pytest.raises(ModelFormatError, match=r"format 1000.*upgrade mtboost"):
        mtboost.load_model(path)


def test_a_missing_file_is_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        mtboost.load_model(tmp_path / "model.mtb")


# ---- used twice -----------------------------------------------------------------------------


def test_a_dataset_trains_the_same_model_twice_and_is_left_as_it_was():
    weight, start = RNG.random(N), RNG.normal(size=N)
    data = mtboost.Dataset(X, Y, task=CODES, weight=weight, base_margin=start)
    copies = [each.copy() for each in (X, Y, weight, start)]

    def train():
        return mtboost.train({"nthread": 1}, data, 4, evals=[(data, "train")], verbose_eval=False)

    assert_same_model(train(), train())
    for array, before in zip((X, Y, weight, start), copies, strict=True):
        np.testing.assert_array_equal(array, before)


def test_one_task_split_serves_matrices_of_the_same_rows():
    split = TaskSplit(CODES)
    one, other = (
        xgboost.train({"nthread": 1}, kind(X, Y), 4, callbacks=[split])
        for kind in (xgboost.QuantileDMatrix, xgboost.DMatrix)
    )
    fresh = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, Y), 4, callbacks=[TaskSplit(CODES)])
    assert_same_model(other, fresh)
    assert_same_model(one, fresh)


def test_a_callback_of_fit_serves_twice(library):
    rounds = []
    keep = library.callback(rounds.append)
    one, other = (fit(library=library, callbacks=[keep], refit=False) for _ in range(2))
    assert_equal_models(other, one, X, CODES)
    assert rounds == 2 * list(range(1, 1 + library.n_rounds(one.common)))
