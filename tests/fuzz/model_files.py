# SPDX-License-Identifier: Apache-2.0
"""Damaged and forged model files: a change of the file of a model of any kind, which is then read.

What must come out depends on the change:

* *damage*, whose digests are as they were (all changes of bytes, members and metadata): the file is
  refused by ModelFormatError, or everything that the model says is as before, bit for bit;
* *forgery*, whose digests are right again, or which has the old layout without digests: the file is
  refused by ModelFormatError, or the model predicts something, or refuses the rows. The documents
  of boosters inside are left alone: their parsers belong to XGBoost and LightGBM.
"""

import contextlib
import dataclasses
import functools
import hashlib
import io
import json
import random
import struct
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import threadpoolctl
from fuzz.protocol import Case
from model_archives import METADATA, in_old_layout, packed, unpacked, with_digests

import mtboost
from mtboost.errors import ModelFormatError, MtboostError

TEST_CALLS = 0  # tests/robustness/test_model_files.py tries some

# ---- models -------------------------------------------------------------------------------------

_N = 150
_RNG = np.random.default_rng(0)
_X = np.where(_RNG.random((_N, 3)) < 0.1, np.nan, _RNG.normal(size=(_N, 3)))
_CODES = np.arange(_N) % 3
_SHOPS = np.array(["x", "y", "z"])[_CODES]
_Y = np.nan_to_num(_X[:, 0]) + _CODES * np.nan_to_num(_X[:, 1]) + 0.1 * _RNG.normal(size=_N)
_FRAME = pd.DataFrame(_X, columns=list("pqr")).assign(
    color=pd.Categorical(_RNG.choice(["red", "green"], _N))
)
_OUTPUTS = np.column_stack([_Y, _Y**2, _RNG.normal(size=(_N, 2))])
_LABELS = (_OUTPUTS > 0.3).astype(int)
_CLASSES = np.digitize(_Y, [-0.5, 0.5])
_YES_OR_NO = np.where(_Y > 0, "yes", "no")
_CSR = scipy.sparse.random_array((_N, 12), density=0.3, rng=_RNG, format="csr")
_FEW = {"n_estimators": 4, "random_state": 0}


def _fit(backend, X=_X, y=_Y, task=_CODES, **options):
    names = {
        "xgboost": {"multiclass": "multi:softprob", "squared": "reg:squarederror"},
        "lightgbm": {"multiclass": "multiclass", "squared": "regression"},
    }[backend]
    binary = {"xgboost": "binary:logistic", "lightgbm": "binary"}[backend]
    objective = options.pop("objective", "squared")
    if objective == "mixed":
        y = np.where(task == 2, y > 0, y)
        objective = {0: names["squared"], 1: names["squared"], 2: binary}
    else:
        objective = names[objective]
    rounds = {"num_boost_round": 4, "specific_rounds": 3, "n_threads": 1}
    model = mtboost.fit(
        X,
        y,
        task=task,
        backend=backend,
        objective=objective,
        **{"strategy": "two-stage", **rounds, **options},
    )
    return model, X, {} if task is None else {"task": task}


def _by_task(backend):
    tables = {
        name: _FRAME.loc[name == _SHOPS, ["p", "q", own]]
        for name, own in zip("xyz", ("r", "color", "r"), strict=True)
    }
    y = {name: _Y[name == _SHOPS] for name in "xyz"}
    return _fit(backend, tables, y, None)


_OF_FIT = {
    "two stages": _fit,
    "names and categories": functools.partial(_fit, X=_FRAME, task=_SHOPS),
    "pooled leaves": functools.partial(_fit, pooling=5.0),
    "pooled leaves, estimated": functools.partial(_fit, pooling="auto"),
    "task splits": functools.partial(_fit, task_splits=True, split_score="plain"),
    "descriptors": functools.partial(_fit, task_splits="descriptors", split_score="plain"),
    "intervals": functools.partial(_fit, intervals=True),
    "mixed objectives": functools.partial(_fit, objective="mixed"),
    "classes": functools.partial(_fit, y=_CLASSES, objective="multiclass"),
    "different columns": _by_task,
    "strategy": functools.partial(_fit, strategy="auto"),
}


def _fitted(estimator, X, y, **arguments):
    return estimator.fit(X, y, **arguments), X, arguments


def _compressed(forest, X, y, **arguments):
    model = mtboost.compress(forest, X, y, n_steps=30, epsilon=0.1, **arguments)
    return model, X, arguments


_ESTIMATORS = {
    "MTExtraTreesClassifier": lambda: _fitted(
        mtboost.MTExtraTreesClassifier(**_FEW), _X, _YES_OR_NO, task=_SHOPS
    ),
    "MTExtraTreesRegressor": lambda: _fitted(
        mtboost.MTExtraTreesRegressor(bootstrap=True, oob_score=True, **_FEW), _X, _Y, task=_CODES
    ),
    "ProjectedForestClassifier": lambda: _fitted(
        mtboost.ProjectedForestClassifier(**_FEW), _CSR, scipy.sparse.csr_array(_LABELS)
    ),
    "ProjectedForestRegressor": lambda: _fitted(
        mtboost.ProjectedForestRegressor(**_FEW), _X, _OUTPUTS
    ),
    "MTDecisionTreeClassifier": lambda: _fitted(
        mtboost.MTDecisionTreeClassifier(max_depth=4), _X, _YES_OR_NO, task=_SHOPS
    ),
    "MTAdaBoostClassifier": lambda: _fitted(
        mtboost.MTAdaBoostClassifier(3, max_depth=3), _X, _CLASSES, task=_CODES
    ),
    "ProjectedBoostingClassifier": lambda: _fitted(
        mtboost.ProjectedBoostingClassifier(**_FEW), _X, _LABELS
    ),
    "ProjectedBoostingRegressor": lambda: _fitted(
        mtboost.ProjectedBoostingRegressor(strategy="gbrt-rpo", **_FEW), _X, _OUTPUTS
    ),
    "PriorSamplingClassifier": lambda: _fitted(
        mtboost.PriorSamplingClassifier(prior={"p": 2.0, "q": 1.0}, **_FEW),
        _FRAME[list("pqr")],
        _CLASSES,
    ),
    "PriorSamplingRegressor": lambda: _fitted(
        mtboost.PriorSamplingRegressor(dynamic=True, **_FEW), _X, _Y
    ),
    "CompressedForestRegressor": lambda: _compressed(
        mtboost.MTExtraTreesRegressor(task_split_prob=1.0, **_FEW), _X, _Y, task=_SHOPS
    ),
    "CompressedForestClassifier": lambda: _compressed(
        mtboost.MTExtraTreesClassifier(**_FEW), _X, _CLASSES, task=_CODES
    ),
}
KINDS = {
    f"{backend}, {name}": functools.partial(make, backend)
    for backend in ("xgboost", "lightgbm")
    for name, make in _OF_FIT.items()
} | _ESTIMATORS


#: Kinds that are read by the same code: case() draws as many files of each of these.
FAMILIES = {
    "XGBoost": [kind for kind in KINDS if kind.startswith("xgboost")],
    "LightGBM": [kind for kind in KINDS if kind.startswith("lightgbm")],
    **{
        family: [kind for kind in KINDS if kind.startswith(family)]
        for family in (
            "MTExtraTrees",
            "ProjectedForest",
            "MTDecisionTree",
            "MTAdaBoost",
            "ProjectedBoosting",
            "PriorSampling",
            "CompressedForest",
        )
    },
}


@functools.cache
def made(kind):
    """A model, a table and further arguments to predict with. Every process makes the same."""
    with threadpoolctl.threadpool_limits(1, "openmp"):
        return KINDS[kind]()


@functools.cache
def original(kind):
    """Content of the model's file, and what :func:`everything` gives of the model that is read."""
    model, table, arguments = made(kind)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.mtb"
        model.save(path)
        return path.read_bytes(), everything(mtboost.load_model(path), table, arguments)


# ---- what a model says --------------------------------------------------------------------------


def predictions(model, table, arguments):
    """What the methods of a model return."""
    found = {}
    for name in ("predict", "predict_margin", "predict_proba", "apply", "decision_function"):
        if hasattr(model, name):
            # A regression has no probabilities, and says so.
            with contextlib.suppress(mtboost.errors.DataError):
                found[name] = getattr(model, name)(table, **arguments)
    if isinstance(model, mtboost.MultiTaskModel):
        task = model.tasks[-1]
        with contextlib.suppress(mtboost.errors.DataError):  # most have no intervals
            found["intervals"] = model.predict_interval(table, alpha=0.3, **arguments)
        found["report"] = model.report().to_dict()
        found["importance"] = model.importance(task)
        found["booster"] = model.booster(task)
    elif hasattr(model, "feature_importances_"):
        found["importances"] = model.feature_importances_
    if hasattr(model, "to_text"):
        is_one = isinstance(model, mtboost.MTDecisionTreeClassifier)
        found["text"] = model.to_text() if is_one else model.to_text(-1)
    return found


def everything(model, table, arguments):
    """A digest of what a model predicts and of all that is known of it."""
    state = model.__getstate__() if hasattr(model, "__getstate__") else vars(model)
    found = hashlib.sha256()
    _add(found, predictions(model, table, arguments))
    _add(found, state)
    return found.hexdigest()


def _add(found, value):
    """Add a value to a digest: type, shape and bits."""
    found.update(type(value).__name__.encode())
    if scipy.sparse.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        found.update(f"{value.dtype}{value.shape}".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.ndarray | list | tuple):
        for each in value:
            _add(found, each)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            found.update(repr(key).encode())
            _add(found, each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if not field.name.startswith("_"):
                _add(found, getattr(value, field.name))
    elif hasattr(value, "save_raw"):
        found.update(value.save_raw())
    elif hasattr(value, "model_to_string"):
        found.update(value.model_to_string(num_iteration=-1).encode())
    elif type(value).__module__ == "mtboost._core":
        _add(found, value.arrays())
    elif not hasattr(value, "suffix"):  # of a backend the name of its class is enough
        found.update(repr(value).encode())


# ---- changes ------------------------------------------------------------------------------------


def _directory(raw):
    """Where the directory of an archive begins."""
    return struct.unpack("<I", raw[-6:-2])[0]


def _flip(raw, rng, begin=0, end=None):
    changed = bytearray(raw)
    changed[rng.randrange(begin, len(raw) if end is None else end)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def flipped_bit(raw, rng):
    return _flip(raw, rng)


def flipped_bit_of_the_directory(raw, rng):
    return _flip(raw, rng, _directory(raw))


def flipped_bit_of_a_header(raw, rng):
    begin = rng.choice(_places(raw, b"PK\x03\x04"))
    return _flip(raw, rng, begin, begin + 60)


def _places(raw, mark):
    found, place = [], raw.find(mark)
    while place >= 0:
        found.append(place)
        place = raw.find(mark, place + 1)
    return found


def other_bytes(raw, rng):
    begin, length = rng.randrange(len(raw)), rng.choice((1, 1, 4, 16, 512))
    return raw[:begin] + rng.randbytes(len(raw[begin : begin + length])) + raw[begin + length :]


def zeroed_block(raw, rng):
    begin, length = rng.randrange(len(raw)), rng.choice((8, 512, 4096))
    return raw[:begin] + bytes(len(raw[begin : begin + length])) + raw[begin + length :]


def truncated(raw, rng):
    return raw[: rng.choice((rng.randrange(len(raw)), len(raw) - rng.randrange(1, 30)))]


def without_some_bytes(raw, rng):
    begin = rng.randrange(len(raw))
    return raw[:begin] + raw[begin + rng.randrange(1, 100) :]


def with_more_bytes(raw, rng):
    begin = rng.choice((0, len(raw), rng.randrange(len(raw))))
    more = rng.choice((bytes(50), rng.randbytes(70_000), raw[: rng.randrange(len(raw))]))
    return raw[:begin] + more + raw[begin:]


def swapped_blocks(raw, rng):
    a, b, c = sorted(rng.randrange(len(raw)) for _ in range(3))
    return raw[:a] + raw[b:c] + raw[a:b] + raw[c:]


def another_comment(raw, rng):
    comment = rng.randbytes(rng.randrange(1, 300))
    return raw[:-2] + struct.pack("<H", rng.choice((len(comment), rng.randrange(2**16)))) + comment


def _pick(members, rng):
    return rng.choice([*members])


def lacking_a_member(raw, rng):
    members = unpacked(raw)
    del members[_pick(members, rng)]
    return packed(members)


def two_members_of_one_name(raw, rng):
    members = unpacked(raw)
    name, other = _pick(members, rng), _pick(members, rng)
    pairs = [*members.items(), (name, members[other])]
    rng.shuffle(pairs)
    return packed(pairs)


def renamed_member(raw, rng):
    members = unpacked(raw)
    name = _pick(members, rng)
    other = bytearray(name.encode())
    other[rng.randrange(len(other))] ^= 1 << rng.randrange(7)
    other = other.decode("latin-1").replace("\0", "0")
    return packed([(other if each == name else each, part) for each, part in members.items()])


def swapped_members(raw, rng):
    members = unpacked(raw)
    one, other = _pick(members, rng), _pick(members, rng)
    members[one], members[other] = members[other], members[one]
    return packed(members)


def unknown_member(raw, rng):
    members = unpacked(raw)
    name = rng.choice(("specific/7.ubj", "specific/7.txt", "trees/other.npy", "a/", "/etc/passwd"))
    return packed({**members, name: members[_pick(members, rng)]})


def changed_member(raw, rng):
    members = unpacked(raw)
    name = _pick(members, rng)
    if members[name]:
        members[name] = rng.choice((flipped_bit, other_bytes, truncated))(members[name], rng)
    return packed(members)


def bomb(raw, rng):
    members = unpacked(raw)
    return packed({**members, _pick(members, rng): bytes(rng.choice((2**20, 2**25)))})


def bomb_with_a_small_size(raw, rng):
    """The directory states the size of the model's member, and more is packed."""
    members = unpacked(raw)
    name = _pick(members, rng)
    size = len(members[name])
    members[name] += bytes(2**25)
    raw = bytearray(packed(members))
    for place in _places(raw, b"PK\x01\x02"):
        length = struct.unpack("<H", raw[place + 28 : place + 30])[0]
        if raw[place + 46 : place + 46 + length] == name.encode():
            raw[place + 24 : place + 28] = struct.pack("<I", size)
    return bytes(raw)


def another_order(raw, rng):
    pairs = [*unpacked(raw).items()]
    rng.shuffle(pairs)
    return packed(pairs, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


def other_metadata(raw, rng):
    members = unpacked(raw)
    members[METADATA] = _other_json(members[METADATA], rng)
    return packed(members)


def old_layout_bomb(raw, rng):
    members = unpacked(in_old_layout(raw))
    return packed({**members, _pick(members, rng): bytes(2**25)})


def _in_the_old_layout(change):
    """The same change of a file without digests."""

    def changed(raw, rng):
        return change(in_old_layout(raw), rng)

    changed.__name__ = f"old_layout_{change.__name__}"
    return changed


DAMAGE = (
    flipped_bit,
    flipped_bit_of_the_directory,
    flipped_bit_of_a_header,
    other_bytes,
    zeroed_block,
    truncated,
    without_some_bytes,
    with_more_bytes,
    swapped_blocks,
    another_comment,
    lacking_a_member,
    two_members_of_one_name,
    renamed_member,
    swapped_members,
    unknown_member,
    changed_member,
    bomb,
    bomb_with_a_small_size,
    another_order,
    other_metadata,
    old_layout_bomb,
    *map(_in_the_old_layout, (flipped_bit, renamed_member, two_members_of_one_name, truncated)),
)


def forged_metadata(raw, rng):
    members = unpacked(raw)
    for _ in range(rng.choice((1, 1, 1, 2))):
        members[METADATA] = _other_json(members[METADATA], rng)
    return packed(with_digests(members))


def forged_array(raw, rng):
    members = unpacked(raw)
    arrays = [name for name in members if name.endswith(".npy")]
    if not arrays:
        return forged_metadata(raw, rng)
    name = rng.choice(arrays)
    members[name] = _other_array(members[name], rng)
    return packed(with_digests(members))


def forged_members(raw, rng):
    change = rng.choice((lacking_a_member, renamed_member, swapped_arrays, unknown_member))
    members = unpacked(change(raw, rng))
    return packed(with_digests(members) if METADATA in members else members)


def swapped_arrays(raw, rng):
    members = unpacked(raw)
    arrays = [name for name in members if name.endswith(".npy")]
    if arrays:
        one, other = rng.choice(arrays), rng.choice(arrays)
        members[one], members[other] = members[other], members[one]
    return packed(members)


def old_layout_other_array(raw, rng):
    def change(members):
        arrays = [name for name in members if name.endswith(".npy")]
        if arrays:
            name = rng.choice(arrays)
            members[name] = _other_array(members[name], rng)

    return in_old_layout(raw, change)


FORGERY = (
    forged_metadata,
    forged_metadata,
    forged_metadata,
    forged_array,
    forged_array,
    forged_members,
    *map(_in_the_old_layout, (other_metadata, lacking_a_member)),
    old_layout_other_array,
)

_VALUES = (
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**40, 2**70, -(2**70), 0.0, -0.5, 1e-320, 1e300,
    "", "x", "0", "nan", [], {}, [1], {"a": 1}, {"array": "trees/left.npy"}, {"float": "nan"},
    {"float": "inf"}, {"objects": [1, "a", None]},
)  # fmt: skip


def _other_json(text, rng):
    """JSON with another value, or without a value, somewhere."""
    try:
        value = json.loads(text)
        places = [*_places_of(value)]
    except ValueError:
        places = []
    if not places:
        return flipped_bit(text, rng)
    *way, last = rng.choice(places)
    part = value
    for key in way:
        part = part[key]
    match rng.randrange(8):
        case 0:
            del part[last]
        case 1 if isinstance(part, list):
            part.insert(last, part[last])
        case 2:
            other = rng.choice([*part] if isinstance(part, dict) else range(len(part)))
            part[last], part[other] = part[other], part[last]
        case 3 if isinstance(part, dict):
            part[f"{last}x"] = part.pop(last)
        case 4 if isinstance(part[last], int | float):
            part[last] = part[last] + rng.choice((-1, 1, 0.5))
        case 5:
            found = value
            for key in rng.choice(places):
                found = found[key]
            part[last] = json.loads(json.dumps(found))
        case _:
            part[last] = rng.choice(_VALUES)
    return json.dumps(value).encode()


def _places_of(value, place=()):
    if place:
        yield place
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places_of(each, (*place, key))


def _other_array(content, rng):
    """An array of other values, shape or type; or no array."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    numpy_rng = np.random.default_rng(rng.randrange(2**32))
    kind = rng.randrange(10)
    if kind == 0:
        return rng.choice((flipped_bit, truncated, with_more_bytes))(content, rng)
    if kind == 1:
        array = array[:-1] if array.ndim else array[np.newaxis]
    elif kind == 2:
        array = array[np.newaxis] if rng.random() < 0.5 else array.ravel()[:0]
    elif kind == 3 and array.dtype.kind in "iufb" and array.size:
        array = array.astype(rng.choice(("U", "f4", "f8", "c16", "i1", "u8", "i8", "?")))
    elif kind == 4 and array.size and array.ndim:
        array = numpy_rng.permutation(array)
    elif array.dtype.names and array.size:
        field = rng.choice(array.dtype.names)
        array[field][rng.randrange(len(array))] += rng.choice((-1, 1, 2**40, -(2**63)))
    elif array.size and array.dtype.kind in "iufb":
        flat = array.ravel()
        values = (-1, 0, 1, 2, 1000, 2**31 - 1, 2**31, 2**63 - 1, -(2**31))
        if array.dtype.kind == "f":
            values = (np.nan, np.inf, -np.inf, 1e308, 1e-320, 0.0, -1.0)
        places = numpy_rng.integers(0, flat.size, rng.choice((1, 1, flat.size)))
        with np.errstate(all="ignore"):
            flat[places] = np.array(rng.choice(values)).astype(array.dtype)
        array = flat.reshape(array.shape)
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


# ---- trials -------------------------------------------------------------------------------------

GOOD = {"damage": {"refused", "same"}, "forgery": {"refused", "other rows", "other"}}


def changed_file(kind, change, seed):
    """The model's file after a change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name
        return change(original(kind)[0], random.Random(seed))


@functools.cache
def _path():
    """One for all files of this process: to make and remove folders would take most of the time."""
    return Path(_folder().name) / "changed.mtb"


@functools.cache
def _folder():
    return tempfile.TemporaryDirectory()


def verdict_of(kind, change, seed):
    """``"refused"``, ``"same"``, ``"other"``, ``"other rows"`` or what is wrong."""
    _, table, arguments = made(kind)
    raw, expected = changed_file(kind, change, seed), original(kind)[1]
    path = _path()
    path.write_bytes(raw)
    try:
        model = mtboost.load_model(path)
    except ModelFormatError:
        return "refused"
    except MemoryError:
        return "out of memory while loading"
    except BaseException as error:
        return f"load_model raises {type(error).__name__}: {error}"
    if change in DAMAGE:
        return "same" if everything(model, table, arguments) == expected else "accepted another"
    try:
        predictions(model, table, arguments)
    except (MtboostError, ValueError):  # the rows have other columns or tasks than such a model
        return "other rows"
    except BaseException as error:
        return f"predictions raise {type(error).__name__}: {error}"
    return "other"


def is_good(change, verdict):
    return verdict in GOOD["damage" if change in DAMAGE else "forgery"]


_CHANGES = (*DAMAGE, *FORGERY)
_BOMBS = (bomb, bomb_with_a_small_size, old_layout_bomb)  # take a hundred times as long as others


def case(seed):
    rng = random.Random(seed)
    kind = rng.choice([*FAMILIES.values()][seed % len(FAMILIES)])
    (change,) = rng.choices(_CHANGES, [0.02 if change in _BOMBS else 1.0 for change in _CHANGES])

    def check():
        verdict = verdict_of(kind, change, seed)
        assert is_good(change, verdict), verdict

    return Case(check, text=f"{change.__name__} of a file of {kind}", kind=change.__name__)
