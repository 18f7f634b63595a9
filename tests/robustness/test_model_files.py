# SPDX-License-Identifier: Apache-2.0
"""A model file that is damaged is refused, and a forged one never leaves its arrays."""

import io
import json
import random
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
import xgboost
from fuzz import model_files
from model_archives import (
    DIGEST,
    METADATA,
    digest_of,
    forged,
    forged_metadata,
    in_old_layout,
    packed,
    unpacked,
)

import mtboost
from mtboost.base.archive import FORMAT, array_from_bytes, array_to_bytes, read_model, write_model
from mtboost.errors import ModelFormatError
from mtboost.xgboost.backend import XgboostBackend

#: Kinds of models that have all kinds of members.
SOME = (
    "xgboost, pooled leaves",
    "xgboost, intervals",
    "xgboost, mixed objectives",
    "xgboost, different columns",
    "lightgbm, descriptors",
    "lightgbm, names and categories",
    "MTExtraTreesRegressor",
    "MTAdaBoostClassifier",
    "PriorSamplingClassifier",
)


OF_EACH_FORMAT = (
    *SOME,
    "ProjectedForestClassifier",
    "ProjectedForestRegressor",
    "MTDecisionTreeClassifier",
    "CompressedForestRegressor",
    "CompressedForestClassifier",
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mtb"


def raw_of(kind):
    return model_files.original(kind)[0]


def load(path, raw):
    path.write_bytes(raw)
    return mtboost.load_model(path)


def refused(message):
    return pytest.raises(ModelFormatError, match=rf"model\.mtb is not an mtboost model.*{message}")


# ---- damage ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SOME)
def test_a_changed_file_is_refused_or_its_change_has_no_effect(kind):
    # Of a forgery, whose digests are right: or predicts something.
    for change in (*model_files.DAMAGE, *model_files.FORGERY):
        verdict = model_files.verdict_of(kind, change, 0)
        assert model_files.is_good(change, verdict), (change.__name__, verdict)


@pytest.mark.parametrize("kind", OF_EACH_FORMAT)
def test_a_truncated_file_is_refused(path, kind):
    raw = raw_of(kind)
    for length in (0, 1, 100, len(raw) // 2, *range(len(raw) - 40, len(raw))):
        with refused(""):
            load(path, raw[:length])


@pytest.mark.parametrize(
    ("kind", "where", "n_tries"),
    [
        *((kind, "anywhere", 100) for kind in OF_EACH_FORMAT),
        ("MTDecisionTreeClassifier", "in the directory and the digest", 300),
    ],
)
def test_a_damaged_byte_is_noticed_or_has_no_effect(path, kind, where, n_tries):
    raw, expected = model_files.original(kind)
    _, table, arguments = model_files.made(kind)
    begin, directory = raw.index(DIGEST.encode()), raw.index(b"PK\x01\x02")
    places = range(len(raw))
    if where != "anywhere":
        places = [*range(begin, begin + 120), *range(directory, len(raw))]
    rng = random.Random(0)
    n_refused = 0
    for _ in range(n_tries):
        damaged = bytearray(raw)
        damaged[rng.choice(places)] ^= rng.choice([rng.randrange(1, 256), 1 << rng.randrange(8)])
        try:
            model = load(path, damaged)
        except ModelFormatError:
            n_refused += 1
        else:
            assert model_files.everything(model, table, arguments) == expected
    assert n_refused > 0.3 * n_tries


@pytest.mark.parametrize("layout", [lambda raw: raw, in_old_layout], ids=["new", "old"])
@pytest.mark.parametrize("other", [b"specific/p.ubj", b"specific/2.ubk", b"Specific/0.ubj"])
def test_a_member_under_another_name_is_refused(path, layout, other):
    # One flipped bit of the name in both places where it stands.
    raw = layout(raw_of("xgboost, two stages")).replace(b"specific/0.ubj", other)
    with refused("member"):
        load(path, raw)


@pytest.mark.parametrize("layout", [lambda raw: raw, in_old_layout], ids=["new", "old"])
@pytest.mark.parametrize("kind", ["xgboost, pooled leaves", "lightgbm, descriptors", SOME[-1]])
def test_a_file_that_lacks_a_member_is_refused(path, layout, kind):
    members = unpacked(layout(raw_of(kind)))
    for name in members:
        if name == DIGEST:
            continue
        with refused("the member .* is missing"):
            load(path, packed({own: part for own, part in members.items() if own != name}))


@pytest.mark.parametrize("layout", [lambda raw: raw, in_old_layout], ids=["new", "old"])
def test_two_members_of_one_name_are_refused(path, layout):
    members = unpacked(layout(raw_of("xgboost, two stages")))
    for name, content in members.items():
        with pytest.warns(UserWarning, match="Duplicate name"):
            raw = packed([*members.items(), (name, content)])
        with refused(f"two members {name}"):
            load(path, raw)


@pytest.mark.parametrize("layout", [lambda raw: raw, in_old_layout], ids=["new", "old"])
def test_unknown_members_are_refused(path, layout):
    for kind, name in (("xgboost, two stages", "specific/7.ubj"), (SOME[-1], "trees/other.npy")):
        members = unpacked(layout(raw_of(kind)))
        with refused(f"the member {name}"):
            load(path, packed({**members, name: members["mtboost.json"]}))


def test_members_are_not_exchanged_for_each_other(path):
    members = unpacked(raw_of("xgboost, two stages"))
    one, other = "specific/0.ubj", "specific/1.ubj"
    members[one], members[other] = members[other], members[one]
    with refused("the member specific/.*another"):
        load(path, packed(members))


def test_no_library_sees_a_document_with_another_digest(path, monkeypatch):
    members = unpacked(raw_of("xgboost, two stages"))
    damaged = bytearray(members["common.ubj"])
    damaged[len(damaged) // 2] ^= 1

    def fail(*_):
        raise AssertionError("the document was read")

    monkeypatch.setattr(xgboost.Booster, "load_model", fail)
    with refused("common.ubj has another digest"):
        load(path, packed({**members, "common.ubj": bytes(damaged)}))


def test_metadata_without_their_digest_are_refused(path):
    members = unpacked(raw_of("xgboost, two stages"))
    other = json.dumps(json.loads(members[METADATA]) | {"objective": "count:poisson"}).encode()
    with refused("is not what mtboost.sha256 says"):
        load(path, packed({**members, METADATA: other}))
    digest = members[DIGEST].upper()
    with refused("is not what mtboost.sha256 says"):
        load(path, packed({**members, DIGEST: digest}))


def test_a_format_without_digests_is_not_claimed_for_a_file_that_has_them(path):
    members = unpacked(raw_of("xgboost, two stages"))
    metadata = json.loads(members[METADATA]) | {"format": 1}
    text = json.dumps(metadata).encode()
    del members[DIGEST]
    with refused("the member mtboost.sha256 is missing"):
        load(path, packed({**members, METADATA: text}))
    del metadata["members"]
    text = json.dumps(metadata).encode()
    with refused("has no list of members"):
        load(path, packed({**members, METADATA: text, DIGEST: digest_of(text)}))


def test_a_file_that_another_program_has_packed_again_is_read(path):
    kind = "PriorSamplingClassifier"
    _, table, arguments = model_files.made(kind)
    pairs = [("trees/", b""), *reversed(unpacked(raw_of(kind)).items())]
    model = load(path, b"leading bytes" + packed(pairs))
    assert model_files.everything(model, table, arguments) == model_files.original(kind)[1]


# ---- files without digests ------------------------------------------------------------------


@pytest.mark.parametrize("kind", model_files.KINDS)
def test_files_of_earlier_formats_are_read(path, kind):
    raw, expected = model_files.original(kind)
    old = in_old_layout(raw)
    assert json.loads(unpacked(old)[METADATA])["format"] < 5
    _, table, arguments = model_files.made(kind)
    assert model_files.everything(load(path, old), table, arguments) == expected


# ---- sizes ----------------------------------------------------------------------------------


def packed_zeros(name, n_unpacked, stated=None):
    """An archive of one member that unpacks to zeros; `stated` is the size in the directory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(2**20)) + packer.flush(zlib.Z_FULL_FLUSH)
    content = block * (n_unpacked >> 20) + packer.flush()
    size, encoded = stated or n_unpacked, name.encode()
    fields = struct.pack("<HHHIIIHH", 8, 0, 33, 0, len(content), size, len(encoded), 0)
    local = b"PK\x03\x04" + struct.pack("<HH", 20, 0) + fields + encoded + content
    directory = (
        b"PK\x01\x02" + struct.pack("<HHH", 20, 20, 0) + fields + bytes(14) + encoded
    )  # whose last field, the place of the member, is 0
    end = struct.pack("<HHHHIIH", 0, 0, 1, 1, len(directory), len(local), 0)
    return local + directory + b"PK\x05\x06" + end


def test_the_packed_zeros_of_these_tests_are_an_archive():
    with zipfile.ZipFile(io.BytesIO(packed_zeros("zeros", 2**21))) as archive:
        (info,) = archive.infolist()
        assert (info.filename, info.file_size) == ("zeros", 2**21)
        with archive.open(info) as member:
            assert member.read(1000) == bytes(1000)


@pytest.mark.parametrize("stated", [None, 500])
def test_a_file_that_unpacks_to_gigabytes_is_refused_with_little_memory(path, stated):
    raw = packed_zeros(METADATA, 1500 * 2**20, stated)
    assert len(raw) < 2 * 2**20
    path.write_bytes(raw)
    tracemalloc.start()
    try:
        with refused("unpacks from" if stated is None else "."):
            mtboost.load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 50 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rewrite", [forged, in_old_layout])
def test_a_member_that_unpacks_to_more_than_any_model_is_refused(path, rewrite):
    def inflate(members):
        members["task_values/leaf.npy"] = array_to_bytes(np.zeros(2**23, np.int32))

    raw = rewrite(raw_of("xgboost, pooled leaves"), inflate)
    with refused("task_values"):  # the array is as large as it says, but of another model
        load(path, raw)
    with refused("pack its members again without compression"):
        load(path, packed(unpacked(raw), zipfile.ZIP_DEFLATED))


def test_content_that_packs_too_well_is_written_unpacked_and_read(path):
    content = bytes(40 * 2**20)
    write_model(path, lambda: ({"a": 1}, {"zeros": content}))
    assert path.stat().st_size > len(content)
    found = read_model(path, lambda metadata, members: (metadata, members["zeros"]))
    assert found == ({"format": FORMAT, "a": 1}, content)


# ---- arrays ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["f4", ">i8", "U3", "S2", "?", "M8[s]", [("a", "i8"), ("b", "f4")]]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_arrays_come_back(dtype, shape):
    array = np.zeros(shape, dtype)
    if array.dtype.names is None and array.size:
        array.ravel()[-1] = np.array(1).astype(dtype)
    for own in (array, np.asfortranarray(array)):
        found = array_from_bytes(array_to_bytes(own))
        assert (found.dtype, found.shape) == (own.dtype, own.shape)
        assert found.flags.writeable
        assert found.flags.f_contiguous == own.flags.f_contiguous
        np.testing.assert_array_equal(found, own)


@pytest.mark.parametrize("shape", [(2**40,), (2**62,), (2**61, 8), (0, 2**62), (5,), (-1, -4)])
def test_an_array_that_is_not_as_large_as_its_header_says_is_refused(shape):
    file = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match="."):
        array_from_bytes(file.getvalue() + bytes(32))


def test_an_array_of_items_without_bytes_is_refused():
    file = io.BytesIO()
    header = {"descr": "<U0", "fortran_order": False, "shape": (2**62,)}
    np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ModelFormatError, match="another size"):
        array_from_bytes(file.getvalue())


# ---- forgeries ------------------------------------------------------------------------------


def put(*way):
    """A change of one value of the metadata; the last argument is the new value."""
    *keys, last, value = way

    def change(metadata):
        part = metadata
        for key in keys:
            part = part[key]
        part[last] = value
        return metadata

    return change


# name: (kind of model, change of its metadata)
CONTRADICTIONS = {
    "a round that does not exist": ("xgboost, two stages", put("tasks", 0, "quit_round", 5)),
    "a negative round": ("lightgbm, two stages", put("tasks", 0, "quit_round", -1)),
    "a round of another type": ("lightgbm, two stages", put("tasks", 0, "quit_round", 1.0)),
    "a name of another type": ("xgboost, two stages", put("tasks", 0, "name", "0")),
    "a list as a name": ("xgboost, two stages", put("tasks", 0, "name", [])),
    "another column": ("xgboost, names and categories", put("common_columns", "names", 0, "x")),
    "a column twice": ("lightgbm, names and categories", put("common_columns", "names", 0, "q")),
    "another number of columns": ("xgboost, two stages", put("common_columns", "n", 2)),
    "2³¹ columns of one task": ("xgboost, two stages", put("tasks", 0, "columns", "n", 2**31)),
    "no unit": ("xgboost, mixed objectives", put("tasks", 0, "loss", "unit", 0)),
    "a unit whose square is 0": (
        "lightgbm, mixed objectives",
        put("tasks", 0, "loss", "unit", 1e-200),
    ),
    "a negative dispersion": (
        "xgboost, mixed objectives",
        put("tasks", 0, "loss", "dispersion", -1),
    ),
    "a start that is no probability": (
        "xgboost, mixed objectives",
        put("tasks", 2, "loss", "start", 2.0),
    ),
    "an unknown objective": (
        "xgboost, mixed objectives",
        put("tasks", 2, "loss", "objective", "x"),
    ),
    "no scale of a column": (
        "xgboost, descriptors",
        put("descriptors", 1, "column", {"position": 0, "mean": 0.0, "scale": 0}),
    ),
    "no task described": ("lightgbm, descriptors", put("n_described", 0)),
    "too many tasks described": ("lightgbm, descriptors", put("n_described", 4)),
    "a task column that is none": ("lightgbm, two stages", put("has_task_column", True)),
    "negative pooling": ("xgboost, pooled leaves", put("pooling", -1.0)),
    "fewer tasks with values": ("xgboost, pooled leaves", put("pooled_tasks", [0, 1])),
    "n_jobs of a forest": ("MTExtraTreesRegressor", put("parameters", "n_jobs", "x")),
    "n_jobs of boosting": ("ProjectedBoostingRegressor", put("parameters", "n_jobs", 0)),
    "an importance type": ("PriorSamplingRegressor", put("parameters", "importance_type", "x")),
    "2³¹ columns of boosting": (
        "ProjectedBoostingRegressor",
        put("attributes", "n_features_in", 2**31),
    ),
    "a column without a name": (
        "PriorSamplingClassifier",
        put("attributes", "feature_names_in", "objects", 0, None),
    ),
    "an infinite number": (
        "xgboost, two stages",
        put("tasks", 0, "report", "scores", {"a": float("inf")}),
    ),
}


@pytest.mark.parametrize(("kind", "change"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
@pytest.mark.parametrize("layout", ["new", "old"])
def test_metadata_that_contradict_the_model_are_refused_when_they_are_read(
    path, kind, change, layout
):
    if layout == "new":
        raw = forged_metadata(raw_of(kind), change)
    else:

        def replace(members):
            metadata = change(json.loads(members[METADATA]))
            members[METADATA] = json.dumps(metadata).encode()

        raw = in_old_layout(raw_of(kind), replace)
    with refused("."):
        load(path, raw)


# member: what becomes of its array
OTHER_VALUES = {
    "a leaf that does not exist": ("leaf", lambda own: np.full_like(own, 10_000)),
    "a negative leaf": ("leaf", lambda own: np.full_like(own, -1)),
    "a task that does not exist": ("task", lambda own: own + own.dtype.type(3)),
    "values that are not finite": ("value", lambda own: own * np.nan),
    "values as integers": ("value", lambda own: own.astype(np.int64)),
    "a rate that is not finite": ("learning_rate", lambda own: own + np.inf),
    "fewer trees": ("starts", lambda own: own[:-1]),
    "trees in another order": ("starts", lambda own: own[::-1]),
    "no trees": ("starts", lambda own: own[:0]),
    "a matrix": ("leaf", lambda own: own[np.newaxis]),
}


@pytest.mark.parametrize(("name", "change"), OTHER_VALUES.values(), ids=OTHER_VALUES)
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_values_of_other_leaves_are_refused_when_they_are_read(path, library, name, change):
    def replace(members):
        member = f"task_values/{name}.npy"
        members[member] = array_to_bytes(change(array_from_bytes(members[member])))

    with refused("."):
        load(path, forged(raw_of(f"{library}, pooled leaves"), replace))


def test_a_classifier_without_classes_is_refused_when_it_is_read(path):
    def replace(members):
        member = "attributes/classes.npy"
        members[member] = array_to_bytes(array_from_bytes(members[member])[:0])

    with refused("the trees are of another forest"):
        load(path, forged(raw_of("MTExtraTreesClassifier"), replace))


# ---- what is no fault of the file -----------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), MemoryError),
        (xgboost.core.XGBoostError("std::bad_alloc"), MemoryError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (mtboost.errors.MissingDependencyError(), mtboost.errors.MissingDependencyError),
        (ZeroDivisionError(), ModelFormatError),
    ],
    ids=repr,
)
def test_what_is_no_fault_of_the_file_is_not_called_damage(path, monkeypatch, error, expected):
    def fail(*_):
        raise error

    path.write_bytes(raw_of("xgboost, two stages"))
    monkeypatch.setattr(XgboostBackend, "load", fail)
    with pytest.raises(expected):
        mtboost.load_model(path)


# ---- the tool itself ------------------------------------------------------------------------


def test_a_changed_file_is_made_again_by_its_seed():
    for change in (*model_files.DAMAGE, *model_files.FORGERY):
        one, same = (model_files.changed_file(SOME[-1], change, "0 7") for _ in range(2))
        assert one == same
