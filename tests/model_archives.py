# SPDX-License-Identifier: Apache-2.0
"""Model files taken apart and put together again, as docs/model_file.md describes them."""

import functools
import hashlib
import io
import json
import zipfile

METADATA, DIGEST = "mtboost.json", "mtboost.sha256"


def unpacked(raw):
    """Content of the members by name."""
    return dict(_unpacked(raw))


@functools.lru_cache(4)
def _unpacked(raw):
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, compression=zipfile.ZIP_STORED):
    """An archive of members by name, or of pairs of name and content."""
    buffer = io.BytesIO()
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in pairs:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return buffer.getvalue()


def metadata_of(raw):
    return json.loads(unpacked(raw)[METADATA])


def with_digests(members):
    """The same members, listed with the sizes and digests that they have."""
    own = {name: each for name, each in members.items() if name not in (METADATA, DIGEST)}
    listed = {
        name: {"size": len(each), "sha256": hashlib.sha256(each).hexdigest()}
        for name, each in own.items()
    }
    try:
        metadata = json.loads(members[METADATA])
    except (ValueError, RecursionError):
        metadata = None
    text = members[METADATA]
    if isinstance(metadata, dict):
        text = json.dumps({**metadata, "members": listed}).encode()
    return {METADATA: text, DIGEST: digest_of(text), **own}


def digest_of(text):
    return f"{hashlib.sha256(text).hexdigest()}  {METADATA}\n".encode()


def forged(raw, change):
    """The file after change(members), a dict of bytes by name, with digests that are right."""
    members = unpacked(raw)
    change(members)
    return packed(with_digests(members) if METADATA in members else members)


def forged_metadata(raw, change):
    """The file with what change(metadata) returns as its metadata, with digests that are right."""

    def replace(members):
        members[METADATA] = json.dumps(change(json.loads(members[METADATA]))).encode()

    return forged(raw, replace)


def in_old_layout(raw, change=lambda members: None):
    """The file as it was written before formats had digests, after change(members)."""
    members = unpacked(raw)
    metadata = json.loads(members[METADATA])
    del metadata["members"], members[DIGEST]
    metadata["format"] = _old_format(metadata)
    members[METADATA] = json.dumps(metadata, indent=1, allow_nan=False).encode()
    change(members)
    return packed(members)


def _old_format(metadata):
    if "estimator" in metadata:
        return 3
    if metadata["objective"] is None or "pooled_tasks" in metadata:
        return 4
    return {"xgboost": 1, "lightgbm": 2}[metadata["backend"]]
